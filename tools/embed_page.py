#!/usr/bin/env python3
"""Writes the page's files as C++: embed_page.py OUTPUT FILE...

Each file becomes chunks of a raw literal, so that no compiler's limit on one literal is met.
"""
import pathlib
import sys

CHUNK = 12000  # bytes; the standard promises 65,536 characters, and not every compiler more
MARK = "mooring"


def literal(data):
    parts, at = [], 0
    while at < len(data):
        end = min(len(data), at + CHUNK)
        while end < len(data) and (data[end] & 0xC0) == 0x80:  # not inside a character
            end -= 1
        parts.append(f'R"{MARK}({data[at:end].decode()}){MARK}"')
        at = end
    return "\n".join(parts) or '""'


def main(output, *names):
    lines = ["namespace mooring {", "namespace {", f"const std::array<PageFile, {len(names)}> kPageFiles = {{{{"]
    for name in names:
        path = pathlib.Path(name)
        data = path.read_bytes()
        if f"){MARK}".encode() in data:
            raise SystemExit(f"{name}: holds the mark that ends a literal")
        lines.append(f'    PageFile{{"{path.name}", {literal(data)}}},')
    lines += ["}};", "}  // namespace", "}  // namespace mooring", ""]
    pathlib.Path(output).write_text("\n".join(lines))


if __name__ == "__main__":
    main(*sys.argv[1:])
