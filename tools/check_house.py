#!/usr/bin/env python3
"""House rules that a compiler does not know: words that belong to one room, sizes, left-overs.

Usage: check_house.py
Every exception stands in this file, with its reason.
"""
import fnmatch
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = {".h", ".cc", ".cu", ".inc", ".cmake", ".txt", ".json", ".py", ".sh", ".md", ".svg", ".js", ".css", ".html", ""}
CODE = ("src/*", "eval/*", "bench/*")
EVERYTHING = ("*",)


class Rule:
    """`pattern` may stand in the files of `where` only if they match a pattern of `unless`."""

    def __init__(self, name, pattern, where, unless, flags=0):
        self.name = name
        self.pattern = re.compile(pattern, flags)
        self.where = where
        self.unless = unless

    def covers(self, path):
        return matches(path, self.where) and not matches(path, self.unless)


RULES = [
    Rule(
        "instruction-set words stay in src/kernels",
        r"avx|vnni|\bamx|\bneon\b|_mm(256|512)?_",
        CODE,
        {
            "src/kernels/*": "their room",
            "src/apps/kernel_check.h": "says what the names of the kernel tables look like",
            "src/apps/*_test.cc": "tests name a table",
            "bench/*": "compares the tables",
        },
        re.IGNORECASE,
    ),
    Rule(
        "family names stay in src/model/families.cc",
        r"(?<![a-z])(llama|qwen|mistral|gemma|phi[-_ ]?\d|falcon|deepseek|starcoder|gpt[-_ ]?\d|bert(?![a-z]))",
        CODE,
        {
            "src/model/families.cc": "their place",
            "src/load/catalogue.cc": "names what can be fetched",
            "src/text/vocab.h": "pre-tokenizers have their published names",
            "src/text/pretokenizer*": "pre-tokenizers have their published names",
            "src/text/tokenizer.*": "pre-tokenizers have their published names",
            "src/*test*": "tests name models and files",
            "bench/peers/*": "another engine of that name",
            "bench/serve/customers.py": "the same",
            "bench/recall_bench.cc": "pre-tokenizers have their published names",
        },
        re.IGNORECASE,
    ),
    Rule(
        "it is a conversation, never a session",
        r"session",
        ("src/*",),
        {
            "src/apps/chat*": "one sitting of a person at a terminal; its conversation outlives it",
            "src/serve/ask.cc": "the name of a header that clients send",
        },
        re.IGNORECASE,
    ),
    Rule(
        "unfinished work is not left as a note",
        r"\b(TODO|FIXME|XXX)\b",
        EVERYTHING,
        {"tools/check_house.py": "this rule", "tests/golden/*": "text of others"},
    ),
    Rule(
        "no paths of one machine",
        r"(?<![\w.~}])/(work|tmp|home|root|Users)/",
        EVERYTHING,
        {
            "tools/check_house.py": "this rule",
            "src/*test*": "made-up paths",
            "tests/*": "made-up paths",
        },
    ),
]

# Beyond this a file is a question; beyond the second number it is refused.
LONG_LINES, TOO_LONG_LINES = 500, 800


def matches(path, patterns):
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def tracked_files():
    """Files of the project, new ones too; without git all that does not look built."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        names = listed.stdout.decode().split("\0")
    else:
        names = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*")]
        names = [name for name in names if not name.startswith((".git/", "build"))]
    return sorted(name for name in set(names) if (ROOT / name).is_file())


def guard_of(path):
    return "MOORING_" + re.sub(r"[/.-]", "_", path.removeprefix("src/")).upper() + "_"


def check(path, text):
    """Faults and warnings of one file."""
    faults, warnings = [], []
    lines = text.split("\n")
    for rule in RULES:
        if not rule.covers(path):
            continue
        for number, line in enumerate(lines, 1):
            if rule.pattern.search(line):
                faults.append(f"{path}:{number}: {rule.name}: {line.strip()[:80]}")
    if path.endswith((".h", ".cc", ".py")) and len(lines) > LONG_LINES:
        message = f"{path}: {len(lines)} lines"
        (faults if len(lines) > TOO_LONG_LINES else warnings).append(message)
    if path.endswith(".h"):
        if not text.startswith("//"):
            faults.append(f"{path}: a header opens with its purpose")
        if not path.endswith("-inl.h") and f"#ifndef {guard_of(path)}\n" not in text:
            faults.append(f"{path}: the guard of this header is {guard_of(path)}")
    return faults, warnings


def main():
    faults, warnings, count = [], [], 0
    for path in tracked_files():
        if pathlib.Path(path).suffix not in TEXT:
            continue
        try:
            text = (ROOT / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        new_faults, new_warnings = check(path, text)
        faults += new_faults
        warnings += new_warnings
        count += 1
    for warning in warnings:
        print(f"warning: {warning}")
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"house: {count} files, {len(faults)} faults, {len(warnings)} warnings")
    return 1 if faults or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
