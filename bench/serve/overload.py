#!/usr/bin/env python3
"""Ten times more turns than the server can answer: what it still gets done, and how it refuses the rest.

    bench/serve/overload.py [--quick] [--json FILE]

First the peak: as many clients as there are places and twice as many, each asking again as soon as it has its
answer. Then requests come at ten times that rate, whatever becomes of them, each from a client of its own with
a conversation of its own. Asked for: 90 % of the peak in whole answers; refusals (429, 503) within 10 ms at
the 99th percentile, with Retry-After; and no answer lost: every 200 is whole, and its turn is in the store.
"""

import argparse
import asyncio
import sys
import tempfile
import time

import load

GOODPUT_BAR, REFUSAL_BAR_SECONDS = 0.9, 0.01
PATH = "/v1/chat/completions"


class Run:
    """What became of the requests of one phase."""

    def __init__(self):
        self.refusals, self.whole, self.broken, self.unhinted = [], [], [], 0
        self.ends = []


async def one(server, name, options, run):
    client = load.Client(server.host, server.port)
    start = time.monotonic()
    try:
        body = load.chat("Is the lamp of order HD1234 ready?", max_tokens=options.max_tokens, conversation=name)
        # Not as a stream: reading thousands of events would cost the client more than the answers the server.
        body["stream"] = False
        status, reply, headers = await client.ask("POST", PATH, body)
        if status != 200:
            run.refusals.append((time.monotonic() - start, status))
            run.unhinted += "retry-after" not in headers
            return False
        choice = reply["choices"][0]
        run.whole.append((name, choice["message"]["content"], time.monotonic() - start))
        run.ends.append(time.monotonic())
        if choice["finish_reason"] not in ("stop", "length"):
            run.broken.append((name, choice["finish_reason"]))
        return True
    except (load.Gone, OSError) as error:
        run.broken.append((name, repr(error)))
        return False
    finally:
        client.close()


async def peak(server, options, clients, seconds):
    run, numbers = Run(), iter(range(1 << 30))
    end = time.monotonic() + seconds

    async def again():
        while time.monotonic() < end:
            await one(server, f"peak:{clients}:{next(numbers)}", options, run)

    start = time.monotonic()
    await asyncio.gather(*(again() for _ in range(clients)))
    return sum(1 for at in run.ends if at <= end) / (end - start), run


async def flood(server, options, rate, seconds):
    run, tasks = Run(), []
    start = time.monotonic()
    count = 0
    while (now := time.monotonic() - start) < seconds:
        due = int(now * rate)
        while count <= due:
            tasks.append(asyncio.create_task(one(server, f"flood:{count}", options, run)))
            count += 1
        await asyncio.sleep(max(0.0, count / rate - (time.monotonic() - start)))
    offered = count / (time.monotonic() - start)
    # Goodput is of the time under load, and the first answers cannot be whole before they were computed.
    warm = start + seconds / 4
    done = sum(1 for at in run.ends if warm <= at <= start + seconds) / (start + seconds - warm)
    await asyncio.gather(*tasks)
    return offered, done, run


async def lost(server, whole):
    """Names of whole answers whose turn the store does not have, or not like that."""
    client, names = load.Client(server.host, server.port), []
    for name, text, _ in whole:
        status, reply, _ = await client.ask("GET", f"/v1/conversations/{name}/items?order=asc")
        items = reply["data"] if status == 200 else []
        answers = [item for item in items if item["role"] == "assistant"]
        kept = "".join(part.get("text", "") for item in answers[-1:] for part in item["content"])
        if len(answers) != 1 or answers[0]["status"] != "completed" or kept.strip() != text.strip():
            names.append(name)
    return names


async def measure(server, options):
    peaks = []
    for clients in (options.places, 2 * options.places):
        rate, run = await peak(server, options, clients, options.seconds)
        if run.broken:
            raise SystemExit(f"broken before any load: {run.broken[0]}")
        peaks.append(rate)
        print(f"{clients} clients: {rate:.1f} turns/s", file=sys.stderr)
    offered, done, run = await flood(server, options, options.times * max(peaks), options.seconds)
    return max(peaks), offered, done, run, await lost(server, run.whole)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    load.add_arguments(parser, "tiny")
    parser.add_argument("--times", type=float, default=10, help="offered load, in peaks")
    parser.add_argument("--seconds", type=float, default=30, help="of each phase")
    parser.add_argument("--places", type=int, default=8)
    parser.add_argument("--queue", type=int, default=32, help="turns that may wait or run")
    parser.add_argument("--max-tokens", type=int, default=800)
    options = parser.parse_args()
    if options.quick:
        options.seconds = min(options.seconds, 6)
    load.raise_file_limit(8192)
    with tempfile.TemporaryDirectory() as folder:
        tiny = options.model == "tiny"
        model = load.endless_model(folder) if tiny else options.model
        flags = ["--threads", str(options.threads)] + (load.ENDLESS_FLAGS if tiny else ["--window", "1024"])
        settings = {"max_batch_size": options.places, "server.queue": options.queue,
                    "server.max_connections": 4096}
        with load.Mooring(options.mooring, model, flags, settings) as server:
            best, offered, done, run, missing = asyncio.run(measure(server, options))
    refused = [seconds for seconds, _ in run.refusals]
    codes = sorted({status for _, status in run.refusals})
    late = load.quantile(refused, 0.99)
    share = done / best
    odd = len(run.broken) + len(missing) + run.unhinted + sum(code not in (429, 503) for code in codes)
    verdict = lambda good: "reached" if good else "MISSED"
    rows = [
        ["peak", f"{best:.1f} turns/s", "", ""],
        ["offered", f"{offered:.1f} turns/s, {offered / best:.1f} times the peak", "", ""],
        ["whole answers under load", f"{done:.1f} turns/s, {share:.0%} of the peak", f">= {GOODPUT_BAR:.0%}",
         verdict(share >= GOODPUT_BAR)],
        [f"refusals {codes}", f"{len(refused)}, p50 {load.milliseconds(load.quantile(refused, 0.5))} ms, "
         f"p99 {load.milliseconds(late)} ms", f"<= {REFUSAL_BAR_SECONDS * 1e3:.0f} ms",
         verdict(late is not None and late <= REFUSAL_BAR_SECONDS)],
        ["accepted", f"{len(run.whole)} whole, p99 {load.milliseconds(load.quantile([w[2] for w in run.whole], 0.99))}"
         f" ms; {len(run.broken)} broken, {len(missing)} not in the store, {run.unhinted} refused without Retry-After",
         "none lost", verdict(odd == 0)],
    ]
    print(load.table(["", "", "asked for", ""], rows))
    for name, error in run.broken[:3]:
        print(f"broken: {name} {error}")
    load.keep(options.json, {"machine": load.machine(), "peak": best, "offered": offered, "goodput": done,
                             "refusals": run.refusals, "broken": run.broken, "lost": missing,
                             "accepted_seconds": [w[2] for w in run.whole]})
    return 1 if any(row[-1] == "MISSED" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
