#!/usr/bin/env python3
"""Talks with a model for hundreds of turns and says whether it stayed sane and small.

    tools/long_chat.py --questions mt_bench.jsonl [--turns 300] [--window 1024] --out RESULT.json

The questions (JSON lines with "turns") are asked in rounds, each time with another opening, through
`mooring chat --json` on a pipe; the last ten are the first ten again, so that like is compared with
like. Of the first and the last ten replies it prints the share of distinct word 4-grams and the loss of
the text under a fresh window (`mooring eval ppl`); of all, how many were empty; and how much resident
memory grew per token after the first tenth of the talk: the slope of the line nearest to all turns, for
code that is touched for the first time is a step, not growth. Exit status 1 when a bar is missed.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
OPENINGS = ["", "Let us go on. ", "Here is another one. ", "Now this: ", "Next question. "]
COMPARED = 10         # replies at either end
DISTINCT_BAR = 0.6    # of the word 4-grams in the last ones
LOSS_BAR = 1.10       # the last ones against the first ones
BYTES_BAR = 5.0       # resident growth per token
EMPTY_BAR = 0.02      # of all replies


def questions(path, count):
    texts = [turn for line in open(path, encoding="utf-8") for turn in json.loads(line)["turns"]]
    for i in range(count):
        opening = OPENINGS[i // len(texts) % len(OPENINGS)]
        chosen = i - (count - COMPARED) if i >= count - COMPARED else i
        yield opening + " ".join(texts[chosen % len(texts)].split())


def distinct_share(replies):
    grams = [tuple(words[i:i + 4]) for words in map(str.split, replies) for i in range(len(words) - 3)]
    return len(set(grams)) / len(grams) if grams else 1.0


def fresh_loss(mooring, model, replies):
    """Mean loss per token of the replies, each read from an empty window."""
    total, tokens = 0.0, 0
    for reply in replies:
        if len(reply.split()) < 4:
            continue
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
            file.write(reply)
            file.flush()
            out = subprocess.run([mooring, "--json", "--quiet", "eval", "ppl", file.name, "--no-fresh",
                                  "--model", model], check=True, capture_output=True, text=True).stdout
        report = json.loads(out)
        total += report["mean_nll"] * (report["tokens"] - 1)
        tokens += report["tokens"] - 1
    return total / max(tokens, 1)


def resident_bytes(pid):
    """Exact, which the counter that a process reads of itself is not: the kernel keeps that per core."""
    for line in open(f"/proc/{pid}/smaps_rollup", encoding="ascii"):
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no Rss in smaps_rollup")


def growth(turns):
    """Bytes per token: least squares over the turns."""
    tokens = [turn["log_tokens"] for turn in turns]
    return statistics.linear_regression(tokens, [turn["resident_bytes"] for turn in turns]).slope


def talk(arguments):
    command = [arguments.mooring, "--json", "--quiet", "chat", "--new", "--model", arguments.model,
               "--window", str(arguments.window), "--max-tokens", str(arguments.max_tokens),
               "--seed", str(arguments.seed)]
    turns = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          encoding="utf-8", bufsize=1) as child:
        for question in questions(arguments.questions, arguments.turns):
            child.stdin.write(question + "\n")
            child.stdin.flush()
            line = child.stdout.readline()
            if not line:
                sys.exit(f"the talk ended after {len(turns)} turns")
            turns.append(json.loads(line) | {"resident_bytes": resident_bytes(child.pid)})
            if len(turns) % 20 == 0:
                last = turns[-1]
                print(f"{len(turns)} turns, {last['log_tokens']} tokens, "
                      f"{last['resident_bytes'] / 1e6:.1f} MB", file=sys.stderr)
        child.stdin.close()
        if child.wait() != 0:
            sys.exit(f"chat ended with status {child.returncode}")
    return turns


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", required=True)
    parser.add_argument("--mooring", default=str(ROOT / "build/release/mooring"))
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--turns", type=int, default=300)
    parser.add_argument("--window", type=int, default=1024)
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    turns = talk(arguments)
    first = [turn["text"] for turn in turns[:COMPARED]]
    last = [turn["text"] for turn in turns[-COMPARED:]]
    settled = turns[len(turns) // 10:]
    report = {
        "turns": len(turns), "log_tokens": turns[-1]["log_tokens"], "window": arguments.window,
        "distinct_4grams_first": distinct_share(first), "distinct_4grams_last": distinct_share(last),
        "fresh_loss_first": fresh_loss(arguments.mooring, arguments.model, first),
        "fresh_loss_last": fresh_loss(arguments.mooring, arguments.model, last),
        "empty_replies": sum(not turn["text"].strip() for turn in turns),
        "resident_bytes_early": settled[0]["resident_bytes"],
        "resident_bytes_end": settled[-1]["resident_bytes"], "bytes_per_token": growth(settled),
        "last_replies": last,
    }
    report["passed"] = (report["distinct_4grams_last"] >= DISTINCT_BAR
                        and report["fresh_loss_last"] <= LOSS_BAR * report["fresh_loss_first"]
                        and report["empty_replies"] <= EMPTY_BAR * len(turns)
                        and report["bytes_per_token"] < BYTES_BAR)
    pathlib.Path(arguments.out).write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n",
                                           encoding="utf-8")
    print(json.dumps({key: value for key, value in report.items() if key != "last_replies"}, indent=1))
    sys.exit(0 if report["passed"] else 1)


if __name__ == "__main__":
    main()
