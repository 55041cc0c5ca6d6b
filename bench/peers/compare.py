#!/usr/bin/env python3
"""Mooring against llama.cpp on the same file: interleaved in one run, medians, wins and losses alike.

    bench/peers/build_llama_cpp.sh                # once: builds the peer
    bench/peers/compare.py --model MODEL.gguf --out docs/performance

For every case the peer's settings (flash attention on and off, f16 and q8_0 cache) are tried once and
the fastest is kept; then both engines run in turn, and the ratio is taken pair by pair. Peak memory
is sampled from outside for both alike: the proportional set size, file pages counted; it is compared
with the peer's own default, a cache of f16, and with its q8_0, which is as small as ours. The raw numbers
go to OUT/llama_cpp.json, the table to OUT/llama_cpp.md and standard output.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]

# name, our flags, the peer's flags, the field compared, the least ratio asked for now
CASES = [
    ("prefill 512", ["--cases", "prefill"], ["--case", "prefill", "--tokens", "512"], 0.3),
    ("decode at 64", ["--cases", "decode", "--lengths", "64"],
     ["--case", "decode", "--depth", "64", "--tokens", "64"], 0.5),
    ("decode at 4096", ["--cases", "decode", "--lengths", "4096"],
     ["--case", "decode", "--depth", "4096", "--tokens", "64"], 1.2),
    ("endless, window 2048", ["--cases", "endless", "--window", "2048"],
     ["--case", "endless", "--window", "2048"], 1.0),
]
PEER_SETTINGS = [["--flash-attn", "on", "--kv", "f16"], ["--flash-attn", "off", "--kv", "f16"],
                 ["--flash-attn", "on", "--kv", "q8_0"]]
# name, the peer's settings (the smaller of them counts), the most that is asked for now
MEMORY = [("peak memory, window 4096, peer f16", PEER_SETTINGS[:2], 0.8),
          ("peak memory, window 4096, peer q8_0", PEER_SETTINGS[2:], None)]
MEMORY_FLAGS = ["--cases", "memory", "--window", "4096"]
PEER_MEMORY_FLAGS = ["--case", "memory", "--tokens", "4096"]


def pss_bytes(pid):
    try:
        for line in open(f"/proc/{pid}/smaps_rollup", encoding="ascii"):
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (OSError, ProcessLookupError):
        pass
    return 0


def run(command, watch_memory=False):
    """The program's JSON object, with the peak Pss seen from outside when asked for."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        peak = 0
        while watch_memory and child.poll() is None:
            peak = max(peak, pss_bytes(child.pid))
            time.sleep(0.01)
        out, err = child.communicate()
    if child.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{err}")
    result = json.loads(out.strip().splitlines()[-1])
    if "model" in result:
        result["model"] = pathlib.Path(result["model"]).name  # where it lies is of no interest
    if watch_memory:
        result["peak_pss_from_outside"] = peak
    return result


class Pair:
    def __init__(self, arguments):
        self.common_ours = [arguments.mooring, "--json", "--quiet", "bench", "--repeat", "1",
                            "--model", arguments.model, "--threads", str(arguments.threads)]
        self.common_peer = [arguments.peer, "--model", arguments.model, "--threads",
                            str(arguments.threads)]

    def ours(self, flags, **how):
        return run(self.common_ours + flags, **how)

    def peer(self, flags, **how):
        return run(self.common_peer + flags, **how)


def rate(result):
    return result["cases"][0]["tokens_per_second"] if "cases" in result else result["tokens_per_second"]


def compare(pair, case, rounds):
    name, our_flags, peer_flags, target = case
    tried = [(rate(pair.peer(peer_flags + setting)), setting) for setting in PEER_SETTINGS]
    setting = max(tried)[1]
    rows = []
    for _ in range(rounds):
        rows.append({"ours": pair.ours(our_flags), "peer": pair.peer(peer_flags + setting)})
    ratios = [rate(row["ours"]) / rate(row["peer"]) for row in rows]
    return {"case": name, "unit": "tokens/s", "target": target, "higher_is_better": True,
            "peer_settings_tried": [{"setting": s, "tokens_per_second": r} for r, s in tried],
            "peer_setting": setting,
            "ours": statistics.median(rate(row["ours"]) for row in rows),
            "peer": statistics.median(rate(row["peer"]) for row in rows),
            "ratio": statistics.median(ratios), "ratio_low": min(ratios), "ratio_high": max(ratios),
            "peer_cpu_share": [row["peer"].get("cpu_share") for row in rows], "rows": rows}


def compare_memory(pair, case, rounds):
    name, settings, target = case
    tried = [(pair.peer(PEER_MEMORY_FLAGS + setting, watch_memory=True)["peak_pss_from_outside"],
              setting) for setting in settings]
    setting = min(tried)[1]
    rows = []
    for _ in range(rounds):
        rows.append({"ours": pair.ours(MEMORY_FLAGS, watch_memory=True),
                     "peer": pair.peer(PEER_MEMORY_FLAGS + setting, watch_memory=True)})
    ours = [row["ours"]["peak_pss_from_outside"] for row in rows]
    peer = [row["peer"]["peak_pss_from_outside"] for row in rows]
    ratios = [a / b for a, b in zip(ours, peer)]
    return {"case": name, "unit": "MB", "target": target, "higher_is_better": False,
            "peer_settings_tried": [{"setting": s, "peak_bytes": b} for b, s in tried],
            "peer_setting": setting, "ours": statistics.median(ours) / 1e6,
            "peer": statistics.median(peer) / 1e6, "ratio": statistics.median(ratios),
            "ratio_low": min(ratios), "ratio_high": max(ratios), "rows": rows}


def verdict(row):
    if row["target"] is None:
        return ""
    reached = row["ratio"] >= row["target"] if row["higher_is_better"] else row["ratio"] <= row["target"]
    return "reached" if reached else "MISSED"


def table(results):
    lines = ["| case | unit | Mooring | llama.cpp | ratio | spread | asked for | |",
             "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for row in results:
        sign = ">=" if row["higher_is_better"] else "<="
        asked = "" if row["target"] is None else f"{sign} {row['target']}"
        lines.append(f"| {row['case']} | {row['unit']} | {row['ours']:.1f} | {row['peer']:.1f} | "
                     f"{row['ratio']:.2f} | {row['ratio_low']:.2f} - {row['ratio_high']:.2f} | "
                     f"{asked} | {verdict(row)} |")
    return "\n".join(lines) + "\n"


def machine():
    facts = {}
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "flags") and key.strip() not in facts:
            facts[key.strip()] = value.strip()
    flags = facts.pop("flags", "").split()
    facts["vector_units"] = [f for f in flags if f.startswith(("avx", "amx", "fma", "f16c"))]
    return facts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--mooring", default=ROOT / "build/release/mooring")
    parser.add_argument("--peer", default=ROOT / "build/peers/llama.cpp/llama_peer")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/performance")
    arguments = parser.parse_args()
    arguments.mooring, arguments.peer = str(arguments.mooring), str(arguments.peer)
    pair = Pair(arguments)
    peer_flags = pathlib.Path(arguments.peer).with_name("flags.txt")
    report = {"machine": machine(), "threads": arguments.threads, "rounds": arguments.rounds,
              "peer_build": peer_flags.read_text(encoding="utf-8") if peer_flags.exists() else None,
              "results": []}

    def keep(result):
        report["results"].append(result)
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "llama_cpp.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        (arguments.out / "llama_cpp.md").write_text(table(report["results"]), encoding="utf-8")
        print(table([result]).splitlines()[-1], flush=True)

    # Kept case by case: a run that is stopped has not run for nothing.
    for case in CASES:
        keep(compare(pair, case, arguments.rounds))
    for case in MEMORY:
        # Memory hardly varies, and where nothing is asked for, one look is enough.
        keep(compare_memory(pair, case, min(arguments.rounds, 3 if case[2] else 1)))


if __name__ == "__main__":
    main()
