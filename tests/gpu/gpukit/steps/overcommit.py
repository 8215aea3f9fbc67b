"""Two programs that do not fit together, in turns: the speed of swapping over that of a pinned copy."""

import json
import statistics
import subprocess
import threading

from .. import processes
from ..places import Place
from ..processes import Ended

CLUSTERS = False
#: The part of the device that each of two programs holds. A worker tells twice the device as its capacity.
PART = 0.62


def run(step):
    """A cluster of this step's own, overcommitted; two programs touch all their memory in turns."""
    settings = ["worker.overcommit=200"]
    if step.rehearsal:
        settings.append("worker.capacity=64MiB")
    try:
        with step.cluster("overcommit", settings) as cluster:
            _measure(step, cluster)
    except Ended as why:
        step.rest(why)


def _measure(step, cluster):
    status = cluster.told("status")
    if not status:
        raise Ended("the cluster told no status")
    bytes_each = int(status["workers"][0]["capacity"] / 2 * PART) & ~0xFFFFF
    place = Place("bus", "tenant", str(step.binary), cluster.environment, tenants=True)
    hogs = [Hog(step, place, bytes_each, f"t{it}") for it in range(2)]
    try:
        for hog in hogs:
            hog.line("ready")
        turns = []
        for _ in step.turns(3):
            for hog in hogs:
                # The first touch brings the memory back and takes the other's away, the second only computes.
                moved, still = hog.turn(), hog.turn()
                turns.append((moved["seconds"], still["seconds"], moved["wrong"] + still["wrong"]))
    finally:
        for hog in hogs:
            hog.stop()
    pinned = _pinned(step)
    speeds = [2 * bytes_each / max(moved - still, 1e-6) / 1e9 for moved, still, _ in turns[1:]]
    for mode in step.ours():
        if step.wants("swap_ratio", mode):
            step.tell("swap_ratio", mode, [it / pinned for it in speeds], [pinned],
                      value=statistics.median(speeds) / pinned,
                      config=f"{statistics.median(speeds):.3g} GB/s out and in, {bytes_each >> 20} MiB each")
        if step.wants("swap_turn_s", mode):
            step.tell("swap_turn_s", mode, [moved for moved, _, _ in turns[1:]])
        if step.wants("swap_wrong_words", mode):
            step.tell("swap_wrong_words", mode, [float(sum(it[2] for it in turns))])


def _pinned(step):
    """GB/s of a pinned copy, natively: the mean of both ways."""
    ran = step.place("native").run([step.program("micro"), "pinned", step.scale], min(40, step.left() - 2))
    told = [json.loads(it) for it in ran.out.splitlines() if it.startswith("{")]
    both = [it["value"] for it in told if it["name"] in ("h2d_pinned_256m", "d2h_pinned_256m")]
    if len(both) != 2:
        raise Ended(f"no pinned copy was measured: {ran.failed}")
    return sum(both) / 2


class Hog:
    """A program that holds memory and touches all of it when told."""

    def __init__(self, step, place, size, tenant):
        self.step = step
        self.process = place.start([step.program("hog"), "--bytes", size, "--turns", 1000, "--by-line"], tenant, stdin=subprocess.PIPE)

    def line(self, key):
        """The next line that the program prints."""
        text = _read(self.process.stdout, self.step.left() - 2)
        told = json.loads(text) if text.startswith("{") else {}
        if "error" in told or key not in told:
            processes.kill(self.process)
            said = (self.process.stderr.read() or "").strip().splitlines()[-1:]
            raise Ended(f"hog: {told.get('error') or said or 'no line'}")
        return told

    def turn(self):
        """Touches all memory once."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.line("turn")

    def stop(self):
        """Ends the program."""
        processes.kill(self.process)
        self.process.wait()


def _read(stream, limit_s):
    """A line, or an empty text if none comes in time."""
    told = []
    reader = threading.Thread(target=lambda: told.append(stream.readline()), daemon=True)
    reader.start()
    reader.join(max(limit_s, 0.1))
    return told[0] if told else ""
