"""Programs that hold much memory: the same weights ten times, and trainings that do not fit together."""

import json
import subprocess

from .cluster import Cluster, stop

PROGRAMS = 10


def _start(cluster, stage, arguments, variables):
    program = [stage.python, *arguments]
    return cluster.start(program, variables=variables, stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def _told(row, process, what):
    """What a program says once it has its memory; nothing where it failed."""
    line = process.stdout.readline()
    if line:
        row.passed += 1
        return json.loads(line)
    row.failed += 1
    row.fail(f"{what} said nothing")
    return None


def _ends(row, processes):
    for process in processes:
        try:
            process.communicate("", timeout=120)
        except subprocess.TimeoutExpired:
            stop(process)
        if process.returncode != 0:
            row.failed += 1
            row.fail(f"a program ended with {process.returncode}")


def weights(stage, row, program, variables):
    """Ten programs with equal weights and adapters of their own: what the worker stores of them."""
    settings = ("worker.capacity=8GiB", "worker.chunk_memory=64MiB")
    with Cluster(stage.options.binary, stage.keep / "weights", settings=settings) as cluster:
        processes, told = [], []
        for number in range(PROGRAMS):
            process = _start(cluster, stage, [program, "--adapter", str(number)], variables)
            processes.append(process)
            told.append(_told(row, process, f"program {number}"))
        if all(told):
            device = cluster.status()["memory"][0]
            stored = sum(tenant["resident"] for tenant in device["tenants"])
            private = device["held"] - PROGRAMS * told[0]["weights"]
            ratio = stored / (told[0]["weights"] + private)
            first, rest = told[0]["seconds"], [it["seconds"] for it in told[1:]]
            row.notes.append(f"{told[0]['weights'] >> 20} MiB of weights each: {stored >> 20} MiB stored, "
                             f"{ratio:.2f} of one copy and the rest; there after {first:.2f} s, then "
                             f"{sum(rest) / len(rest):.2f} s")
            if ratio > 1.1:
                row.failed += 1
                row.fail(f"ten programs take {ratio:.2f} of one copy and what each has of its own")
        _ends(row, processes)


def trainings(stage, row, program, variables):
    """Two trainings that do not fit on the device together: both right."""
    settings = ("worker.capacity=112MiB", "worker.overcommit=300")
    with Cluster(stage.options.binary, stage.keep / "trainings", settings=settings) as cluster:
        processes = [_start(cluster, stage, [program, "--train", "20"], variables) for _ in range(2)]
        for number, process in enumerate(processes):
            _told(row, process, f"training {number}")
        swap = cluster.status()["memory"][0]["swap"]
        outs = swap["outs"]["times"] if swap else 0
        row.notes.append(f"two trainings that do not fit together: right, swapped out {outs} times")
        if not outs:
            row.failed += 1
            row.fail("nothing was swapped out: they did fit")
        _ends(row, processes)
