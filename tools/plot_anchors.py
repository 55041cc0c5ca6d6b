#!/usr/bin/env python3
"""Draws what the anchors prevent: the perplexity of one text with and without them.

    pip install matplotlib
    tools/plot_anchors.py TEXT [--window 256] [--tokens 20000] [--out docs/images/anchors]

Runs `mooring eval ppl TEXT` once with 4 anchors and once with none and writes OUT.svg, which
README.md shows, and OUT.json, the two reports.
"""

import argparse
import json
import math
import pathlib
import subprocess

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "mooring", "font.family": "sans-serif"})
from matplotlib import pyplot  # noqa: E402  the back end is chosen first

ROOT = pathlib.Path(__file__).resolve().parents[1]
LINES = [(0, "no anchors", "#c0392b"), (4, "4 anchors", "#1f6f8b")]


def measure(arguments, anchors):
    command = [arguments.mooring, "--json", "--quiet", "eval", "ppl", arguments.text, "--no-fresh",
               "--window", str(arguments.window), "--tokens", str(arguments.tokens),
               "--segment", str(arguments.segment), "--anchors", str(anchors)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def draw(reports, window, path):
    figure, axes = pyplot.subplots(figsize=(7.2, 3.2))
    figure.patch.set_facecolor("white")  # readable on a dark page too
    for report, (_, name, colour) in zip(reports, LINES):
        ends = [segment["to"] for segment in report["segments"]]
        values = [math.exp(segment["mean_nll"]) for segment in report["segments"]]
        axes.plot(ends, values, color=colour, linewidth=2)
        axes.annotate(name, (ends[-1], values[-1]), color=colour, xytext=(6, 0),
                      textcoords="offset points", va="center")
    axes.set_xlabel("tokens read")
    axes.set_ylabel("perplexity")
    axes.set_title(f"One text, a window of {window} tokens", loc="left", fontsize=11)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0, right=max(s["to"] for s in reports[0]["segments"]) * 1.14)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text")
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=20000)
    parser.add_argument("--segment", type=int, default=1000)
    parser.add_argument("--mooring", default=str(ROOT / "build/release/mooring"))
    parser.add_argument("--out", default=str(ROOT / "docs/images/anchors"))
    arguments = parser.parse_args()
    out = pathlib.Path(arguments.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    reports = [measure(arguments, anchors) for anchors, _, _ in LINES]
    out.with_suffix(".json").write_text(json.dumps(reports, indent=1) + "\n", encoding="utf-8")
    draw(reports, arguments.window, out.with_suffix(".svg"))
    for report, (_, name, _) in zip(reports, LINES):
        print(f"{name}: perplexity {report['perplexity']:.2f} over {report['tokens']} tokens")


if __name__ == "__main__":
    main()
