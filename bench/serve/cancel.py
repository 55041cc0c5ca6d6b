#!/usr/bin/env python3
"""How soon the server is free again when a client goes: in the queue, while it is read, while it is answered.

    bench/serve/cancel.py [--quick] [--json FILE]

Each trial asks for a long answer that is not kept, closes the socket in one of the three states, and asks
/metrics until no turn waits or runs beyond those that fill the places and every page it took is free. A step
that has begun is not broken off: what counts is the time beyond one step, which is measured first (the pause
between tokens; for reading, the time of a whole chunk). Asked for: 50 ms at the 99th percentile.
"""

import argparse
import asyncio
import statistics
import sys
import time

import load

BAR_SECONDS = 0.05
PATH = "/v1/chat/completions"
STEP_ROWS = 128  # rows of a chunk, as the server has them


def long_text(words, draw):
    return " ".join(draw.choice(["tide", "rope", "lamp", "harbour", "boat", "wind", "knot"]) for _ in range(words))


class Bench:
    def __init__(self, server, options):
        self.server, self.options = server, options
        self.draw = load.drawer("cancel", options.seed)
        self.watch = load.Client(server.host, server.port)

    async def state(self):
        values = load.read_metrics((await self.watch.ask("GET", "/metrics"))[1])
        return (values["requests_waiting"], values["requests_running"], values['pages{state="used"}'])

    async def start(self, text, max_tokens, until_text):
        """A stream on its way: once accepted, or once it has said something."""
        client = load.Client(self.server.host, self.server.port)
        status, headers = await client.send("POST", PATH, load.chat(text, max_tokens=max_tokens, store=False))
        if status != 200:
            raise SystemExit(f"not accepted: {status}")
        if until_text:
            async for piece in client.pieces(headers):
                if b'"content":"' in piece.replace(b'"content":""', b""):
                    break
        return client

    async def settled(self, wanted, patience=60.0):
        """Seconds until the server is in the state `wanted`."""
        start = time.monotonic()
        while True:
            now = await self.state()
            if now[0] <= wanted[0] and now[1] <= wanted[1] and now[2] <= wanted[2]:
                return time.monotonic() - start
            if time.monotonic() - start > patience:
                raise SystemExit(f"after {patience} s still {now}, wanted {wanted}")
            await asyncio.sleep(0.0005)

    async def step_seconds(self):
        """(of a token, of a chunk that is read)"""
        answer = await load.Client(self.server.host, self.server.port).stream(
            PATH, load.chat("Tell me of ropes.", max_tokens=48, store=False))
        token = (answer.last - answer.first) / max(1, answer.tokens - 1)
        text = long_text(self.options.prompt_words, self.draw)
        count = (await self.watch.ask("POST", "/tokenize", {"content": text}))[1]
        answer = await load.Client(self.server.host, self.server.port).stream(
            PATH, load.chat(text, max_tokens=1, store=False))
        chunks = -(-len(count["tokens"]) // STEP_ROWS)
        return token, answer.last / chunks, answer.last

    async def trial(self, kind, times):
        token, chunk, whole = times
        if kind == "queued":
            base = self.idle
            fillers = [await self.start("Tell me of ropes.", 100000, True) for _ in range(self.options.places)]
            await asyncio.sleep(2 * token)
            client = await self.start("And me?", 100, False)
            while (await self.state())[0] < 1:
                await asyncio.sleep(0.001)
            # Those that fill the places go on and take pages: only the one that waits is looked at.
            wanted, step = (0, self.options.places, float("inf")), token
        else:
            base, fillers, wanted = self.idle, [], self.idle
            if kind == "read":
                client = await self.start(long_text(self.options.prompt_words, self.draw), 100, False)
                await asyncio.sleep(self.draw.uniform(0.1, 0.7) * whole)
                step = chunk
            else:
                client = await self.start("Tell me of ropes.", 100000, True)
                await asyncio.sleep(self.draw.uniform(0, 4) * token)
                step = token
        client.writer.transport.abort() if self.draw.random() < 0.5 else client.close()
        took = await self.settled(wanted)
        for filler in fillers:
            filler.close()
        await self.settled(base)
        return took, max(0.0, took - step)

    async def run(self):
        times = await self.step_seconds()
        await self.settled((0, 0, float("inf")))
        self.idle = await self.state()  # pages of the template's first words may stay
        results = {}
        for kind in ("queued", "read", "answered"):
            results[kind] = [await self.trial(kind, times) for _ in range(self.options.trials)]
            print(f"{kind}: {len(results[kind])} trials", file=sys.stderr)
        look = []
        for _ in range(50):
            start = time.monotonic()
            await self.state()
            look.append(time.monotonic() - start)
        return times, results, statistics.median(look)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    load.add_arguments(parser, "smollm2")
    parser.add_argument("--trials", type=int, default=100, help="of each kind")
    parser.add_argument("--places", type=int, default=2)
    parser.add_argument("--prompt-words", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.quick:
        options.trials, options.prompt_words = min(options.trials, 10), 600
    flags = ["--window", "1024", "--threads", str(options.threads)]
    with load.Mooring(options.mooring, options.model, flags, {"max_batch_size": options.places}) as server:
        times, results, look = asyncio.run(Bench(server, options).run())
    rows, report = [], {"machine": load.machine(), "token_seconds": times[0], "chunk_seconds": times[1],
                        "look_seconds": look, "results": results}
    for kind, step in (("queued", times[0]), ("read", times[1]), ("answered", times[0])):
        took, beyond = zip(*results[kind])
        late = load.quantile(beyond, 0.99)
        rows.append([kind, len(took), load.milliseconds(step), load.milliseconds(statistics.median(took)),
                     load.milliseconds(load.quantile(took, 0.99)), load.milliseconds(late),
                     f"<= {BAR_SECONDS * 1e3:.0f}", "reached" if late <= BAR_SECONDS else "MISSED"])
    print(load.table(["the client goes while", "trials", "a step, ms", "free again p50, ms", "p99, ms",
                      "beyond a step p99, ms", "asked for", ""], rows))
    print(f"one look at /metrics takes {load.milliseconds(look)} ms")
    load.keep(options.json, report)
    return 1 if any(row[-1] == "MISSED" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
