#!/usr/bin/env python3
"""Holds include lines and CMake dependencies to the directions of ARCHITECTURE.md.

Usage: check_layers.py [--self-test]     (the self-test runs before the check of the tree)
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# room: the rooms whose headers it may include beside its own. Siblings never include each other.
ALLOWED = {
    "base": "",
    "tensor": "base",
    "kernels": "base tensor",
    "load": "base tensor",
    "text": "base",
    "memory": "base tensor",
    "model": "base tensor kernels load",
    "engine": "base tensor kernels load text memory model",
    "talk": "base text engine",
    "serve": "base text engine talk",
    "eval": "base tensor kernels load text memory model engine talk",
    "apps": "base tensor kernels load text memory model engine talk serve eval bench",
    "bench": "base tensor kernels load text memory model engine talk serve eval apps",
    "tests": "base tensor kernels load text memory model engine talk serve eval apps bench",
}
ALLOWED = {room: set(rooms.split()) | {room} for room, rooms in ALLOWED.items()}

# Folders that only their own room may include: what is in them is reached through its tables.
INNER = ("kernels/cpu/", "kernels/ref/")

# Programs against other people's libraries; not built with the rest.
OUTSIDE = ("bench/peers/",)

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)


def room_of(path):
    parts = path.split("/")
    return parts[1] if parts[0] == "src" else parts[0]


def include_faults(path, text):
    """What is wrong with the include lines of the file `path` (relative to the root)."""
    room = room_of(path)
    if room not in ALLOWED:
        return [f"{path}: the room '{room}' is not in the table of check_layers.py"]
    faults = []
    for mark, name in INCLUDE.findall(text):
        target = name.split("/")[0]
        if target not in ALLOWED or "/" not in name:
            if mark == '"':
                faults.append(f'{path}: "{name}" is in no room; libraries are included with <>')
        elif mark == "<":
            faults.append(f"{path}: <{name}> is ours; it is included with quotes")
        elif target not in ALLOWED[room]:
            faults.append(f"{path}: {room} may not include {target} (\"{name}\")")
        elif name.startswith(INNER) and target != room:
            faults.append(f'{path}: "{name}" is internal to {target}')
    return faults


def cmake_faults(text):
    faults = []
    for name, arguments in re.findall(r"^mooring_room\((\w+)([^)]*)\)", text, re.MULTILINE):
        depends = re.search(r"\bDEPS\s+((?:[a-z]+\s*)+)", arguments)
        for target in depends.group(1).split() if depends else []:
            if target not in ALLOWED.get(name, set()):
                faults.append(f"CMakeLists.txt: {name} may not depend on {target}")
    return faults


def self_test():
    good = [
        ("src/base/a.h", '#include <vector>\n#include "base/b.h"\n'),
        ("src/model/a.cc", '#include "kernels/kernels.h"\n#include "load/open.h"\n'),
        ("src/kernels/select.cc", '#include "kernels/cpu/cpu.h"\n'),
        ("src/apps/a.cc", '#include "bench/engine/cases.h"\n#include "eval/plot.h"\n'),
        ("eval/a.cc", '#include "engine/engine.h"\n'),
        ("tests/a.cc", '#include "talk/dialogue.h"\n#include "tests/support.h"\n'),
    ]
    bad = [
        ("src/tensor/a.h", '#include "kernels/kernels.h"\n'),  # upward
        ("src/memory/a.h", '#include "text/tokenizer.h"\n'),  # sideways
        ("src/model/a.h", '#include "memory/window.h"\n'),  # sideways
        ("src/talk/a.cc", '  # include "load/open.h"\n'),  # past a room that hides it
        ("src/engine/a.cc", '#include "apps/output.h"\n'),
        ("eval/a.cc", '#include "apps/output.h"\n'),
        ("bench/a.cc", '#include "kernels/ref/ref.h"\n'),  # internal
        ("src/base/a.cc", '#include "result.h"\n'),  # no room named
        ("src/base/a.cc", "#include <base/result.h>\n"),
        ("src/cellar/a.cc", ""),  # a room that nobody declared
    ]
    for path, text in good:
        assert not include_faults(path, text), (path, text)
    for path, text in bad:
        assert len(include_faults(path, text)) == 1, (path, text)
    assert not cmake_faults("mooring_room(model DEPS base tensor\n  kernels LIBS fmt::fmt)")
    assert len(cmake_faults("mooring_room(model DEPS base memory)")) == 1


def main(arguments):
    if arguments not in ([], ["--self-test"]):
        print(__doc__, file=sys.stderr)
        return 2
    if arguments:
        self_test()
    faults = cmake_faults((ROOT / "CMakeLists.txt").read_text())
    count = 0
    for top in ("src", "eval", "bench", "tests"):
        for file in sorted((ROOT / top).rglob("*")):
            path = file.relative_to(ROOT).as_posix()
            if file.suffix not in (".h", ".cc", ".inc", ".cu") or path.startswith(OUTSIDE):
                continue
            faults += include_faults(path, file.read_text())
            count += 1
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"layers: {count} files, {len(faults)} faults")
    return 1 if faults or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
