#!/usr/bin/python3
"""Ropewalk beside PyTorch on the same cores, turn by turn, and each figure beside the floor and the goal set for it.

    compare_with_torch.py ROPEWALK [--sizes XS,S,M,L] [--forward 1024,4096] [--threads N] [--repeats 5] [--seconds 3]

Training steps of the sizes, and forward passes of M at longer contexts (about 4096 tokens a pass); medians of the repeats. With
--threads N both sides use N threads, and ropewalk is also measured beside itself on one. PyTorch runs at its best: attention
through baddbmm, OMP_WAIT_POLICY=active, as it is and with OpenBLAS for OpenMP and jemalloc preloaded where they are
installed; the faster of the two counts. An empty list leaves a part out: --forward "".

Needs python3-torch, and libopenblas0-openmp and libjemalloc2 for its best setting; without PyTorch only ropewalk is measured.
"""
import argparse
import glob
import importlib.util
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.abspath(__file__))
FORWARD_TOKENS = 4096

# Floor and goal of each figure.
SPEED = {"XS": (3.5, 5.5), "S": (1.35, 1.8), "M": (1.3, 1.6), "L": (1.15, 1.3)}  # tokens/s over PyTorch's, one thread
FMA_SHARE = {"S": (0.50, 0.70), "M": (0.70, 0.85), "L": (0.80, 0.90)}  # useful FLOP/s over the FMA peak, one thread
MEMORY = {"S": (0.6, 0.3), "M": (0.5, 0.3), "L": (0.45, 0.3)}  # peak memory over PyTorch's; less is better
FORWARD = {1024: (2, 3), 4096: (2.5, 4)}  # tokens/s over PyTorch's, M, one thread
THREADS = {2: (1.8, 1.97)}  # tokens/s over those of one thread, no PyTorch


@dataclass
class Contender:
    """One command, its environment, and what it printed each time."""
    command: list
    environment: dict = field(default_factory=dict)
    results: list = field(default_factory=list)

    def measure(self):
        done = subprocess.run(self.command, stdout=subprocess.PIPE, text=True, env={**os.environ, **self.environment})
        if done.returncode != 0:
            sys.exit(f"{' '.join(self.command)} failed with code {done.returncode}")
        self.results.append(json.loads(done.stdout.splitlines()[-1]))

    def median(self, key):
        return statistics.median(result[key] for result in self.results)

    def speed(self):
        return self.median("tokens_per_s")

    def memory(self):
        return self.median("peak_rss_bytes") / 2**20


def preloads():
    """Libraries that make PyTorch faster, those that are installed."""
    patterns = ("/usr/lib/*/openblas-openmp/libblas.so.3", "/usr/lib/*/openblas-openmp/libopenblas.so.0",
                "/usr/lib/*/libjemalloc.so.2")
    return [path for pattern in patterns for path in sorted(glob.glob(pattern))[:1]]


def torch_contenders(arguments, words):
    if importlib.util.find_spec("torch") is None:
        return []
    command = [sys.executable, os.path.join(HERE, "torch_step.py"), *words, "--threads", str(arguments.threads), "--seconds",
               str(arguments.seconds)]
    active = {"OMP_WAIT_POLICY": "active"}
    found = preloads()
    return [Contender(command, active)] + ([Contender(command, {**active, "LD_PRELOAD": ":".join(found)})] if found else [])


def ropewalk(arguments, words, threads):
    return Contender([arguments.ropewalk, "bench", "step", *words, "--json", "--seconds", str(arguments.seconds),
                      f"train.threads={threads}"])


def take_turns(arguments, contenders):
    for _ in range(arguments.repeats):
        for contender in contenders:
            contender.measure()


def verdict(value, limits, less_is_better=False):
    if limits is None:
        return f"{'':>7} {'':>7}"
    floor, goal = limits
    sign = -1 if less_is_better else 1
    reached = "goal" if sign * value >= sign * goal else "floor" if sign * value >= sign * floor else "BELOW"
    return f"{floor:7.2f} {goal:7.2f}  {reached}"


def line(what, ours, theirs, value, limits, less_is_better=False):
    print(f"{what:28} {ours:>10} {theirs:>10} {value:7.2f} {verdict(value, limits, less_is_better)}".rstrip(), flush=True)


def compare(arguments, what, words, torch_words, speed, share=None, memory=None):
    """Measures one configuration on both sides and prints its lines."""
    own = ropewalk(arguments, words, arguments.threads)
    single = ropewalk(arguments, words, 1) if arguments.threads > 1 else None
    peers = torch_contenders(arguments, torch_words)
    take_turns(arguments, [own] + ([single] if single else []) + peers)
    if peers:
        peer = max(peers, key=Contender.speed)
        line(f"{what} tokens/s", f"{own.speed():.0f}", f"{peer.speed():.0f}", own.speed() / peer.speed(), speed)
        line(f"{what} peak MiB", f"{own.memory():.0f}", f"{peer.memory():.0f}", own.memory() / peer.memory(), memory, True)
    else:
        line(f"{what} tokens/s", f"{own.speed():.0f}", "-", float("nan"), None)
    line(f"{what} GFLOP/s of FMA peak", f"{own.median('gflops'):.1f}", "", own.median("fma_share"), share)
    if single:
        line(f"{what} over 1 thread", f"{own.speed():.0f}", f"{single.speed():.0f}", own.speed() / single.speed(),
             THREADS.get(arguments.threads))
    faults = own.median("page_faults_per_step")
    if faults >= 1:
        print(f"{what}: {faults:.1f} page faults a step in ropewalk; there should be none", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ropewalk")
    parser.add_argument("--sizes", default="XS,S,M,L")
    parser.add_argument("--forward", default="1024,4096", help="contexts of M")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if arguments.threads > len(cores):
        sys.exit(f"--threads {arguments.threads}: there are {len(cores)} cores")
    os.sched_setaffinity(0, cores[-arguments.threads :])  # the first core serves interrupts
    if importlib.util.find_spec("torch") is None:
        print("python3-torch is not installed; measuring ropewalk alone. './dev bench --peer' installs it.", file=sys.stderr)
    elif len(preloads()) < 3:
        print("libopenblas0-openmp or libjemalloc2 is not installed, so PyTorch is not at its best. './dev bench --peer' "
              "installs them.", file=sys.stderr)
    print(f"{'':28} {'ropewalk':>10} {'PyTorch':>10} {'ratio':>7} {'floor':>7} {'goal':>7}")
    alone = arguments.threads == 1
    for size in filter(None, arguments.sizes.split(",")):
        compare(arguments, size, [size], [size], SPEED.get(size) if alone else None, FMA_SHARE.get(size) if alone else None,
                MEMORY.get(size) if alone else None)
    for context in map(int, filter(None, arguments.forward.split(","))):
        batch = max(1, FORWARD_TOKENS // context)
        compare(arguments, f"M forward T={context}",
                ["M", "--forward", f"train.context_length={context}", f"train.batch_size={batch}"],
                ["M", "--forward", "--context", str(context), "--batch", str(batch)], FORWARD.get(context) if alone else None)


if __name__ == "__main__":
    main()
