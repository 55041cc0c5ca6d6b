#!/usr/bin/env python3
"""Whether a talk gets slower as it grows: time to first token of turn 60 against turn 20.

    bench/serve/turns.py [--quick] [--think SECONDS] [--json FILE]

Several conversations with a window of 1,024, one turn after the other and the conversations in turn, each
once by name (only the new message is sent) and once by a client without a name that resends everything.
Of each the median over the turns near 20 and near 60 is taken. With --think a client waits so long before
each message, as people do; meanwhile the server may get ready. Asked for: turn 60 at most 1.2 times turn
20, and the client without a name at most 1.3 times the one with.
"""

import argparse
import asyncio
import statistics
import sys

import load

GROWTH_BAR, NAMELESS_BAR = 1.2, 1.3


class Talk:
    """One customer, by name or without."""

    def __init__(self, server, number, named):
        self.client = load.Client(server.host, server.port)
        self.draw = load.drawer("turns", number)  # the same texts by name and without
        self.named, self.number = named, number
        self.history = [{"role": "system", "content": load.system_text()}]
        self.firsts, self.matched = [], []

    async def turn(self, max_tokens):
        self.history.append({"role": "user", "content": load.question(self.draw)})
        fields = {"max_tokens": max_tokens, "temperature": 0.7, "seed": self.number}
        if self.named:
            fields["conversation"] = f"turns:{self.number}"
        messages = self.history[-1:] if self.named and len(self.history) > 2 else self.history
        answer = await self.client.stream("/v1/chat/completions", load.chat(messages, **fields))
        if not answer.good:
            raise SystemExit(f"turn {len(self.firsts) + 1} failed: {answer.status} {answer.error}")
        self.history.append({"role": "assistant", "content": answer.text})
        self.firsts.append(answer.first if answer.first is not None else answer.last)
        self.matched.append(answer.mooring["matched"])


async def measure(server, options):
    talks = [Talk(server, number, named) for number in range(options.conversations) for named in (True, False)]
    for turn in range(options.turns):
        for talk in talks:
            await asyncio.sleep(options.think)
            await talk.turn(options.max_tokens)
        if (turn + 1) % 10 == 0:
            print(f"turn {turn + 1} of {options.turns}", file=sys.stderr)
    return talks


def near(talks, named, turn):
    return statistics.median(first for talk in talks if talk.named == named
                             for first in talk.firsts[turn - 3:turn + 2])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    load.add_arguments(parser, "smollm2")
    parser.add_argument("--window", type=int, default=1024)
    parser.add_argument("--conversations", type=int, default=4)
    parser.add_argument("--turns", type=int, default=62)
    parser.add_argument("--max-tokens", type=int, default=24)
    parser.add_argument("--think", type=float, default=0, metavar="SECONDS")
    options = parser.parse_args()
    if options.quick:
        options.conversations = 1
    if options.turns < 30:
        parser.error("--turns: at least 30")
    early, late = 20, options.turns - 2
    flags = ["--window", str(options.window), "--threads", str(options.threads)]
    settings = {"max_batch_size": 2 * options.conversations}
    with load.Mooring(options.mooring, options.model, flags, settings) as server:
        talks = asyncio.run(measure(server, options))
    rows = []
    report = {"machine": load.machine(), **{name: getattr(options, name) for name in ("turns", "think", "window")}}
    for named, words in ((True, "by name"), (False, "everything resent")):
        first, last = near(talks, named, early), near(talks, named, late)
        report[words] = {"early": first, "late": last, "growth": last / first,
                         "firsts": [talk.firsts for talk in talks if talk.named == named]}
        rows.append([words, load.milliseconds(first), load.milliseconds(last), f"{last / first:.2f}",
                     f"<= {GROWTH_BAR}", "reached" if last / first <= GROWTH_BAR else "MISSED"])
    for words, turn in (("early", early), ("late", late)):
        ratio = report["everything resent"][words] / report["by name"][words]
        report[f"nameless_{words}"] = ratio
        rows.append([f"everything resent / by name, turn {turn}", "", "", f"{ratio:.2f}", f"<= {NAMELESS_BAR}",
                     "reached" if ratio <= NAMELESS_BAR else "MISSED"])
    unmatched = sum(talk.matched[1:].count("new") for talk in talks)
    report["unmatched"] = unmatched
    print(load.table(["", f"turn {early}, ms", f"turn {late}, ms", "ratio", "asked for", ""], rows))
    print(f"turns that were not recognised: {unmatched}")
    load.keep(options.json, report)
    return 1 if any(row[-1] == "MISSED" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
