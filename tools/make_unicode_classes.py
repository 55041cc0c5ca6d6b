#!/usr/bin/env python3
"""Writes src/text/unicode_classes.inc: the letter, number and space code points as ranges.

The pre-tokenizers of published models were run with the regular expressions of the `tokenizers`
library, so its idea of \\p{L}, \\p{N} and \\s is the reference, not the system's Unicode tables.
Every code point is asked for; whatever is in no range is "other".

Usage: pip install tokenizers; python3 tools/make_unicode_classes.py
"""
import pathlib

import tokenizers
from tokenizers import Regex, pre_tokenizers

OUTPUT = pathlib.Path(__file__).resolve().parent.parent / "src/text/unicode_classes.inc"

# A letter that each version of Unicode added, newest last.
PROBES = [("14.0", 0x16A70), ("15.0", 0x1E4D0), ("15.1", 0x2EBF0), ("16.0", 0x105C0),
          ("17.0", 0x323B0)]


def matcher(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    return lambda text: not split.pre_tokenize_str(text)


IS_LETTER, IS_NUMBER, IS_SPACE = matcher(r"\p{L}"), matcher(r"\p{N}"), matcher(r"\s")
DIGITS = pre_tokenizers.Digits(individual_digits=True)


def classify(code_point):
    text = chr(code_point)
    number = IS_NUMBER(text)
    # The digit splitter has tables of its own, one version of Unicode ahead of the expressions'.
    splits_as_digit = len(DIGITS.pre_tokenize_str(text + "x")) == 2
    assert splits_as_digit or not number, hex(code_point)
    if IS_LETTER(text):
        assert not splits_as_digit, hex(code_point)
        return "kLetter"
    if splits_as_digit:
        return "kNumber" if number else "kDigitOnly"
    return "kSpace" if IS_SPACE(text) else None


def main():
    version = [name for name, probe in PROBES if IS_LETTER(chr(probe))][-1]
    ranges = []
    for code_point in range(0x110000):
        kind = None if 0xD800 <= code_point <= 0xDFFF else classify(code_point)
        if kind is None:
            continue
        if ranges and ranges[-1][1] == code_point - 1 and ranges[-1][2] == kind:
            ranges[-1][1] = code_point
        else:
            ranges.append([code_point, code_point, kind])
    lines = ["// Written by tools/make_unicode_classes.py; do not edit.",
             f"// Reference: tokenizers {tokenizers.__version__}.",
             f'constexpr char kUnicodeVersion[] = "{version}";',
             "constexpr ClassRange kClassRanges[] = {"]
    lines += [f"    {{0x{first:04X}, 0x{last:04X}, CharClass::{kind}}}," for first, last, kind in ranges]
    lines.append("};")
    OUTPUT.write_text("\n".join(lines) + "\n")
    print(f"{len(ranges)} ranges, Unicode {version}")


if __name__ == "__main__":
    main()
