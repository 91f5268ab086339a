#!/usr/bin/python3
"""The same sweep with one run at a time and with one a core, turn by turn: medians of the time and their ratio.

    sweep_jobs.py ROPEWALK [--jobs N] [--repeats 5] [--steps 200]

The sweep has two position encodings and N seeds: 2 N runs of a small model (4 layers, d_model 64, context 64, batch
16). The ratio is N where runs side by side cost one another nothing; what they share is memory bandwidth, caches, the
clock of the processor, and the disk. Where something else is running, the time of all processes on their cores (CPU)
tells whether the runs were slowed down or kept waiting.
"""
import argparse
import csv
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

SWEEP = """
[model]
n_layers = 4
d_model = 64
n_heads = 4
[data]
path = text.txt
[train]
context_length = 64
batch_size = 16
steps = {steps}
[eval]
every = 0
lengths = 64, 128
tokens = 4096
[sweep]
name = jobs
seeds = 1..{seeds}
[grid]
position.encoding = rope, alibi
"""


def measure(ropewalk, directory, jobs):
    """Seconds of the whole sweep, of its processes on their cores, and of the steps of a run (mean)."""
    with tempfile.TemporaryDirectory(dir=directory) as runs:
        command = [ropewalk, "sweep", "jobs.ini", "--jobs", str(jobs), "--run", runs]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.monotonic()
        done = subprocess.run(command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        seconds = time.monotonic() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != 0:
            sys.exit(f"the sweep failed:\n{done.stderr}")
        with open(os.path.join(runs, "runs.csv"), newline="") as table:
            training = [float(row["wall_time"]) for row in csv.DictReader(table)]
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, statistics.mean(training)


def main():
    cores = len(os.sched_getaffinity(0))
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("ropewalk")
    arguments.add_argument("--jobs", type=int, default=cores, help="default: one a core")
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--steps", type=int, default=200)
    arguments = arguments.parse_args()
    ropewalk = os.path.abspath(arguments.ropewalk)
    counts = [1, arguments.jobs]
    measured = {jobs: [] for jobs in counts}
    with tempfile.TemporaryDirectory() as directory:
        letters = random.Random(1).choices("abcdefghijklmnopqrstuvwxyz .,\n", k=200_000)
        with open(os.path.join(directory, "text.txt"), "w") as text:
            text.write("".join(letters))
        with open(os.path.join(directory, "jobs.ini"), "w") as sweep:
            sweep.write(SWEEP.format(steps=arguments.steps, seeds=arguments.jobs))
        for repeat in range(arguments.repeats):
            for jobs in counts if repeat % 2 == 0 else reversed(counts):
                measured[jobs].append(measure(ropewalk, directory, jobs))
    medians = {jobs: [statistics.median(column) for column in zip(*measured[jobs])] for jobs in counts}
    print(f"{'jobs':>4} {'sweep, s':>9} {'CPU, s':>9} {'training a run, s':>18}")
    for jobs, (seconds, cpu, training) in medians.items():
        print(f"{jobs:4} {seconds:9.3f} {cpu:9.3f} {training:18.3f}")
    print(f"{arguments.jobs} jobs are {medians[1][0] / medians[arguments.jobs][0]:.2f} times as fast as one")


if __name__ == "__main__":
    main()
