#!/usr/bin/env python3
"""Counts the tests of ctest's JUnit files and prints `N passed, N failed, N skipped`.

Usage: count_tests.py FILE...
Fails when a file is missing, a test failed, or none ran.
"""
import pathlib
import sys
import xml.etree.ElementTree as ET


def outcome(case):
    if case.get("status") == "run":
        return "passed" if case.find("failure") is None else "failed"
    if case.get("status") == "disabled":
        return "skipped"
    # A test that skipped itself says SKIP_...; ctest's other reasons for not running one (no such
    # program, for example) are failures, though it files them as skipped too.
    skipped = case.find("skipped")
    if skipped is not None and skipped.get("message", "").startswith("SKIP_"):
        return "skipped"
    return "failed"


def main(paths):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    whole = bool(paths)
    for path in paths:
        try:
            root = ET.fromstring(pathlib.Path(path).read_bytes())
        except (OSError, ET.ParseError) as error:
            print(f"count_tests: {path}: {error}", file=sys.stderr)
            whole = False
            continue
        for case in root.iter("testcase"):
            counts[outcome(case)] += 1
    print(", ".join(f"{count} {name}" for name, count in counts.items()))
    return 0 if whole and counts["failed"] == 0 and counts["passed"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
