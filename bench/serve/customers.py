#!/usr/bin/env python3
"""The customer-service case: many long talks of short turns, against llama.cpp's server.

    PEER_SERVER=ON bench/peers/build_llama_cpp.sh       # once
    bench/serve/customers.py --model MODEL.gguf [--sweep 4,8,16,32,64] [--json FILE] [--quick]

N customers at a time each have 40 rounds: a question of about 30 tokens, an answer of at most 24, a pause of
2 seconds on average. All have the same system text of about 300 tokens, and a window of 1,024. Who answers:

    named      mooring serve; a customer names the conversation and sends only the new message
    nameless   the same for a client that knows nothing of conversations and resends everything
    sinks      named, with --policy sinks: nothing comes back into the window, as nothing does at the peer's
    peer       llama-server with a slot of its own for each customer, which keeps its prompt; it gets everything

The same file, threads and texts for all; every server starts anew for every N, and they take turns. A talk
that outgrows the peer's window is refused there; its client then drops the older half of the talk and asks
again, as clients do. These refusals are counted, and their time belongs to the turn. Printed are the times to
the first text and to the end of a turn, and the most customers that are answered within --bar at the 95th
percentile, between the two sizes of the sweep on either side of it by straight line.
"""

import argparse
import asyncio
import shlex
import socket
import sys
import time
import urllib.error
import urllib.request

import load

PATH = "/v1/chat/completions"
MODES = ("named", "nameless", "sinks", "peer")


class Peer(load.Process):
    """llama-server with one slot for each customer."""

    def __init__(self, options, customers):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [options.peer, "--model", options.model, "--host", "127.0.0.1", "--port", port,
                   "--parallel", customers, "--ctx-size", customers * options.window, "--no-kv-unified",
                   "--threads", options.threads, "--threads-batch", options.threads, "--cont-batching",
                   "--context-shift", "--flash-attn", options.peer_flash_attn, "--no-ui", "--cache-ram", 0,
                   *shlex.split(options.peer_flags)]
        super().__init__(command)
        self.port = port
        end = time.monotonic() + 120
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                if self.process.poll() is not None or time.monotonic() > end:
                    raise SystemExit(f"the peer did not start:\n{self.log_text()[-2000:]}") from None
                time.sleep(0.1)


class Customer:
    """One talk; `turns` holds (first, last) of each whole turn, in seconds."""

    def __init__(self, server, mode, number, options, repeat):
        self.client = load.Client(server.host, server.port)
        self.mode, self.number, self.options = mode, number, options
        self.draw = load.drawer("customer", number, repeat)
        self.history = [{"role": "system", "content": load.system_text()}]
        self.name = f"customer:{repeat}:{number}"
        self.turns, self.errors, self.past_window, self.unmatched, self.tokens = [], [], 0, 0, 0

    def body(self):
        fields = {"max_tokens": self.options.max_tokens, "temperature": 0.7, "seed": self.number}
        if self.mode == "peer":
            return load.chat(self.history, id_slot=self.number, cache_prompt=True, **fields)
        if self.mode == "nameless":
            return load.chat(self.history, **fields)
        new = self.history[-1:] if len(self.history) > 2 else self.history
        return load.chat(new, conversation=self.name, **fields)

    async def turn(self):
        self.history.append({"role": "user", "content": load.question(self.draw)})
        start = time.monotonic()
        while True:
            asked = time.monotonic() - start
            answer = await self.client.stream(PATH, self.body())
            if self.mode == "peer" and answer.status == 400 and "exceed" in (answer.error or ""):
                self.past_window += 1
                talk = self.history[1:]
                if len(talk) > 1:
                    self.history[1:] = talk[len(talk) // 4 * 2 or 2:]  # whole exchanges
                    continue
            break
        if not answer.good:
            self.errors.append(f"{answer.status} {answer.error}"[:300])
            self.history.pop()
            return
        self.tokens += answer.tokens
        if self.mode == "nameless" and self.turns and answer.mooring["matched"] == "new":
            self.unmatched += 1
        self.turns.append((asked + (answer.last if answer.first is None else answer.first), asked + answer.last))
        self.history.append({"role": "assistant", "content": answer.text})

    async def talk(self):
        await asyncio.sleep(self.draw.uniform(0, 2 * self.options.think))
        for _ in range(self.options.rounds):
            try:
                await self.turn()
            except (load.Gone, OSError) as error:
                self.errors.append(repr(error)[:300])
                self.history.pop()
            await asyncio.sleep(self.draw.expovariate(1 / self.options.think) if self.options.think else 0)
        self.client.close()


def serve(mode, options, customers):
    if mode == "peer":
        return Peer(options, customers)
    flags = ["--window", str(options.window), "--threads", str(options.threads), *shlex.split(options.flags)]
    flags += ["--policy", "sinks"] if mode == "sinks" else []
    settings = {"max_batch_size": min(customers, options.places), "server.queue": 4 * customers + 64}
    return load.Mooring(options.mooring, options.model, flags, settings)


def run(mode, options, number, repeat):
    with serve(mode, options, number) as server:
        customers = [Customer(server, mode, i, options, repeat) for i in range(number)]

        async def all_talk():
            await asyncio.gather(*(customer.talk() for customer in customers))

        start = time.monotonic()
        asyncio.run(all_talk())
        seconds, pss = time.monotonic() - start, load.pss_bytes(server.pid)
    turns = [turn for customer in customers for turn in customer.turns]
    errors = [error for customer in customers for error in customer.errors]
    return {"mode": mode, "customers": number, "repeat": repeat, "seconds": seconds, "pss": pss,
            "first": [turn[0] for turn in turns], "last": [turn[1] for turn in turns],
            "tokens": sum(customer.tokens for customer in customers), "errors": errors,
            "past_window": sum(customer.past_window for customer in customers),
            "unmatched": sum(customer.unmatched for customer in customers)}


def together(runs):
    """The repeats of one mode and size as one."""
    whole = dict(runs[0])
    for key in ("first", "last", "errors"):
        whole[key] = [value for one in runs for value in one[key]]
    for key in ("seconds", "tokens", "past_window", "unmatched"):
        whole[key] = sum(one[key] for one in runs)
    whole["pss"] = max(one["pss"] for one in runs)
    return whole


def row(whole):
    times = [load.milliseconds(load.quantile(whole[key], share)) for key in ("first", "last") for share in (0.5, 0.95)]
    turns = len(whole["last"])
    return [whole["mode"], whole["customers"], *times, f"{turns / whole['seconds']:.2f}",
            f"{whole['tokens'] / max(1, turns):.1f}", len(whole["errors"]), whole["past_window"],
            whole["unmatched"], f"{whole['pss'] / (1 << 20):.0f}"]


def most_customers(sizes, bar):
    """(how many, whether more were not tried) of `sizes`: (customers, p95 of the end, errors), ascending."""
    held = 0.0
    for index, (customers, late, errors) in enumerate(sizes):
        if late is not None and late <= bar and not errors:
            held = float(customers)
            continue
        if index and late is not None and not errors:
            before, was = sizes[index - 1][:2]
            held = before + (customers - before) * (bar - was) / (late - was)
        return held, False
    return held, True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    load.add_arguments(parser, None)
    parser.add_argument("--peer", default=str(load.ROOT / "build/peers/llama.cpp/llama-server"))
    parser.add_argument("--peer-flags", default="", help="more flags for the peer, as one text")
    parser.add_argument("--peer-flash-attn", default="on", choices=("on", "off"))
    parser.add_argument("--flags", default="", help="more flags for mooring serve, as one text")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--sweep", default="4,8,16,32,64", help="numbers of customers, ascending")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--think", type=float, default=2.0, help="mean pause of a customer, in seconds")
    parser.add_argument("--window", type=int, default=1024)
    parser.add_argument("--max-tokens", type=int, default=24)
    parser.add_argument("--places", type=int, default=64, help="most conversations that mooring decodes in a step")
    parser.add_argument("--bar", type=float, default=4.0, help="seconds to the end of a turn, 95th percentile")
    options = parser.parse_args()
    if not options.model:
        parser.error("--model: the same file for both")
    if options.quick:
        options.sweep, options.rounds, options.think = "2,4", 14, min(options.think, 0.5)
    modes, sizes = options.modes.split(","), [int(size) for size in options.sweep.split(",")]
    if unknown := set(modes) - set(MODES):
        parser.error(f"--modes: {', '.join(unknown)} is none of {', '.join(MODES)}")
    load.raise_file_limit(4096)
    heads = ["", "customers", "first p50, ms", "first p95, ms", "end p50, ms", "end p95, ms", "turns/s",
             "tokens a turn", "errors", "past the window", "not recognised", "Pss, MiB"]
    report = {"machine": load.machine(), "options": vars(options), "runs": []}
    print(load.table(heads, []), flush=True)
    wholes = []
    for number in sizes:
        runs = {mode: [] for mode in modes}
        for repeat in range(options.repeats):
            for mode in modes:
                runs[mode].append(run(mode, options, number, repeat))
                report["runs"].append(runs[mode][-1])
                load.keep(options.json, report)
        for mode in modes:
            wholes.append(together(runs[mode]))
            print(load.table(heads, [row(wholes[-1])]).splitlines()[-1], flush=True)
            for error in wholes[-1]["errors"][:2]:
                print(f"  {error}", file=sys.stderr)
    print()
    rows, report["most"] = [], {}
    for mode in modes:
        held, open_end = most_customers([(whole["customers"], load.quantile(whole["last"], 0.95),
                                          len(whole["errors"])) for whole in wholes if whole["mode"] == mode],
                                        options.bar)
        report["most"][mode] = held
        rows.append([mode, f"{'>= ' if open_end else ''}{held:.0f}"])
    print(load.table(["", f"most customers within {options.bar:g} s"], rows))
    load.keep(options.json, report)


if __name__ == "__main__":
    main()
