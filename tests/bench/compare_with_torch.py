#!/usr/bin/python3
"""Training steps of ropewalk beside PyTorch, turn by turn on one core, one thread each: medians and their ratio.

    compare_with_torch.py ROPEWALK [--sizes S,M] [--repeats 5] [--seconds 3]

Needs python3-torch for the other side; without it only ropewalk is measured.
"""
import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def measure(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("ropewalk")
    arguments.add_argument("--sizes", default="XS,S,M")
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--seconds", type=float, default=3)
    arguments = arguments.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    peer = importlib.util.find_spec("torch") is not None
    if not peer:
        print("python3-torch is not installed; measuring ropewalk alone", file=sys.stderr)
    print(f"{'size':4} {'ropewalk tokens/s':>18} {'torch tokens/s':>15} {'ratio':>6} {'MiB':>6} {'torch MiB':>10}")
    for size in arguments.sizes.split(","):
        ours, theirs = [], []
        for _ in range(arguments.repeats):
            ours.append(measure([arguments.ropewalk, "bench", "step", size, "--json", "--seconds", str(arguments.seconds)]))
            if peer:
                theirs.append(measure([sys.executable, os.path.join(HERE, "torch_step.py"), size, "--seconds",
                                       str(arguments.seconds)]))
        speed = statistics.median(r["tokens_per_s"] for r in ours)
        memory = max(r["peak_rss_bytes"] for r in ours) / 2**20
        line = f"{size:4} {speed:18.0f}"
        if peer:
            other = statistics.median(r["tokens_per_s"] for r in theirs)
            line += f" {other:15.0f} {speed / other:6.2f} {memory:6.0f} {max(r['peak_rss_bytes'] for r in theirs) / 2**20:10.0f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
