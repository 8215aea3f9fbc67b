"""Eight programs of one tenant with the same weights: device memory and time, over those of one."""

import contextlib
import json
import subprocess

from .. import processes
from ..processes import Ended
from .overcommit import _read

CLUSTERS = True
BYTES = 2 << 30


def run(step):
    """Starts one program, then seven more, in each mode; they hold their weights meanwhile."""
    size = BYTES if not step.rehearsal else 8 << 20
    for mode in ("slice", *step.ours()):
        if not any(step.wants(it, mode) for it in ("weights_memory_ratio_8", "weights_time_ratio_8")):
            continue
        programs = []
        try:
            before = _used(step, mode)
            first = _start(step, mode, size, programs)
            one = _used(step, mode) - before
            others = [_start(step, mode, size, programs) for _ in range(7)]
            eight = _used(step, mode) - before
            _tell(step, mode, size, first, others, one, eight)
        except Ended as why:
            for row in ("weights_memory_ratio_8", "weights_time_ratio_8"):
                if step.wants(row, mode):
                    step.tell(row, mode, reason=f"{mode}: {why}")
        finally:
            for it in programs:
                processes.kill(it)
                it.wait()


def _start(step, mode, size, programs):
    """Seconds of a program's copy of the weights, which it then holds."""
    process = step.place(mode).start([step.program("weights"), "--bytes", size, "--seed", 5], "t0",
                                     stdin=subprocess.PIPE)
    programs.append(process)
    line = _read(process.stdout, min(60, step.left() - 2))
    told = json.loads(line) if line.startswith("{") else {}
    if "seconds" not in told:
        processes.kill(process)
        raise Ended(f"weights: {told.get('error') or process.stderr.read().strip()[-200:] or 'no line'}")
    return told["seconds"]


def _tell(step, mode, size, first, others, one, eight):
    if step.wants("weights_memory_ratio_8", mode):
        reason = None if one > 0 else "one program used no memory that can be seen"
        step.tell("weights_memory_ratio_8", mode, [eight], [one], reason=reason,
                  config=f"{size >> 20} MiB each, {eight:.0f} and {one:.0f} bytes")
    if step.wants("weights_time_ratio_8", mode):
        step.tell("weights_time_ratio_8", mode, others, [first], config=f"the first copy took {first:.3g} s")


def _used(step, mode):
    used = step.card.memory_used()
    if used is None:
        status = None
        with contextlib.suppress(Ended):
            status = step.joined(mode).told("status")
        if not status:
            raise Ended("the cluster did not tell its memory")
        used = sum(it["held"] for it in status["memory"])
    return float(used)
