"""Programs that hold much memory: the same weights ten times, and trainings that do not fit together."""

import json
import subprocess
import time

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


def files(stage, row, program):
    """Files that their formats' own writers wrote are kept, and what programs copy of them is not sent."""
    with Cluster(stage.options.binary, stage.keep / "files") as cluster:
        folder = cluster.folder

        def ended(command, limit=120):
            done = subprocess.run([str(part) for part in command], env=cluster.environment, cwd=folder,
                                  capture_output=True, text=True, check=False, timeout=limit)
            if done.returncode:
                raise RuntimeError(f"{command[0]} {command[1]}: {(done.stderr or done.stdout).strip()[-300:]}")
            return done.stdout

        ended([*program, "write", folder])
        ended([stage.options.binary, "weights", "add", "m", "--public", "m.gguf", "m.safetensors"])
        # Workers hear of a cluster's first weights within five seconds.
        time.sleep(6)
        ran = cluster.run([*program, "copy", folder], 120)
        if ran.failed:
            raise RuntimeError(ran.failed)
        told, unsent, until = ran.told, 0, time.monotonic() + 30
        # What was used is recorded a moment later.
        while unsent < told["bytes"] and time.monotonic() < until:
            time.sleep(0.5)
            last = ended([stage.options.binary, "usage", "--json"]).strip().splitlines()[-1]
            unsent = json.loads(last)["total"]["unsent_bytes"]
        row.notes.append(f"{told['tensors']} tensors of {told['bytes'] >> 20} MiB, of which "
                         f"{unsent / told['bytes']:.3f} was not sent")
        if unsent == told["bytes"]:
            row.passed += told["tensors"]
        else:
            row.failed += 1
            row.fail(f"{told['bytes'] - unsent} bytes of {told['bytes']} were sent")
