#!/usr/bin/env python3
"""Draws a chat: runs `mooring chat` on a terminal of its own and keeps the last screen as SVG.

    pip install pexpect pyte rich
    tools/chat_picture.py [--out docs/images/chat.svg]

The window is small, so that the talk outgrows it while it is watched; the seed is fixed, so that the
same program draws the same words.
"""

import argparse
import io
import itertools
import os
import pathlib
import re

import pexpect
import pyte
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.style import Style
from rich.text import Text

ROOT = pathlib.Path(__file__).resolve().parents[1]
COLUMNS, LINES = 92, 34
TALK = ["What is a lighthouse for?", "How does its lamp work?", "Who lived there in the old days?"]


class Terminal:
    """A terminal that `mooring` writes to; what is on it at the end is the picture."""

    def __init__(self, command):
        self.screen = pyte.HistoryScreen(COLUMNS, LINES, history=2000)
        self.stream = pyte.ByteStream(self.screen)
        self.child = pexpect.spawn(command[0], command[1:], dimensions=(LINES, COLUMNS), timeout=300,
                                   env={**os.environ, "TERM": "xterm-256color"})

    def wait_for_prompt(self):
        self.child.expect_exact(">\x1b[0m ")
        self.stream.feed(self.child.before + self.child.after)

    def say(self, text):
        self.child.sendline(text)
        self.wait_for_prompt()


def style_of(cell):
    return Style(color=None if cell.fg == "default" else cell.fg, bold=cell.bold)


def as_text(screen):
    lines = []
    for y in range(LINES):
        cells = [screen.buffer[y][x] for x in range(COLUMNS)]
        line = Text()
        for style, run in itertools.groupby(cells, key=style_of):
            line.append("".join(cell.data for cell in run), style)
        line.rstrip()
        lines.append(line)
    while lines and not lines[-1].plain.strip("> "):
        lines.pop()
    return Text("\n").join(lines)


# A picture in a README may fetch nothing, so it takes a font that is there.
PICTURE = re.sub(r"@font-face \{\{.*?\}\}|<!--.*?-->", "", CONSOLE_SVG_FORMAT, flags=re.S)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=str(ROOT / "docs/images/chat.svg"))
    parser.add_argument("--mooring", default=str(ROOT / "build/release/mooring"))
    parser.add_argument("--seed", default="1")
    arguments = parser.parse_args()
    terminal = Terminal([arguments.mooring, "chat", "--window", "256", "--max-tokens", "120",
                         "--seed", arguments.seed, "--memory"])
    terminal.wait_for_prompt()
    for text in TALK:
        terminal.say(text)
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(as_text(terminal.screen))
    pathlib.Path(arguments.out).parent.mkdir(parents=True, exist_ok=True)
    console.save_svg(arguments.out, title="./run", code_format=PICTURE, unique_id="chat")


if __name__ == "__main__":
    main()
