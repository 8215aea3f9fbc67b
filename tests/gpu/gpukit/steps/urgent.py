"""Urgent requests beside neighbours, over the same requests alone; what the neighbours keep."""

import contextlib
import math
import time

from ..crowd import HEAD_S
from ..jobs import server
from ..processes import Ended
from ..servers import Server

CLUSTERS = True

NEIGHBOURS = ("large", "train", "loader", "freer", "copier")
#: Some 360 requests of a condition: the 99th percentile is the fourth worst.
RATE, SECONDS = 60, 6.0
QUANTILES = (("p99", 0.99), ("p50", 0.5), ("p95", 0.95), ("max", 1.0))


def run(step):
    """A tenant with urgent requests and one neighbour, in each mode."""
    with contextlib.ExitStack() as stack:
        daemon = step.mps()
        variables = stack.enter_context(daemon).variables if daemon else {}
        for mode in ("slice", step.mode("mps").name, *step.ours()):
            wanted = [it for it in NEIGHBOURS if mode in step.modes_of(f"urgent_p99_ratio_{it}")
                      or mode in step.modes_of(f"best_effort_share_{it}")]
            if wanted:
                _mode(step, mode, variables if mode == "mps" else None, wanted)


def _mode(step, mode, variables, neighbours):
    kind = Threads if step.rows.modes[mode].how == "threads" else Processes
    pair = kind(step, mode, variables)
    try:
        alone = pair.urgent_alone()
    except Ended as why:
        for it in neighbours:
            _none(step, mode, it, f"{mode}: {why}")
        return pair.stop()
    try:
        for neighbour in neighbours:
            try:
                keeps = pair.neighbour_alone(neighbour)
                latencies, rate = pair.both(neighbour)
                _tell(step, mode, neighbour, alone, latencies, keeps, rate)
            except Ended as why:
                _none(step, mode, neighbour, f"{mode}: {why}")
    finally:
        pair.stop()


class Processes:
    """The urgent program and the neighbour as processes of two tenants, of priorities 0 and 3."""

    def __init__(self, step, mode, variables):
        place, log = step.place(mode, variables), step.work / step.plan.step / f"{mode}-urgent.log"
        self.step, program = step, server(step, "torch")
        self.urgent = Server(place, program, log, "urgent", 0)
        self.other = Server(place, program, log.with_name(f"{mode}-other.log"), "other", 3)

    def urgent_alone(self):
        """Latencies of the requests with nothing beside, in milliseconds."""
        self.urgent.ask(_limit(self.step, 120), do="prepare", jobs=["urgent"])
        return _latencies(self.urgent.ask(_limit(self.step, 60), **_requests(self.step)))

    def neighbour_alone(self, name):
        """Steps a second of the neighbour with nothing beside."""
        self.other.ask(_limit(self.step, 120), do="prepare", jobs=[name])
        told = self.other.ask(_limit(self.step, 60), do="run", seconds=self.step.seconds(2.0, 0.1))
        return told["steps"][0] / told["seconds"][0]

    def both(self, _):
        """Latencies of the requests, and steps a second of the neighbour meanwhile."""
        asked = _requests(self.step)
        self.other.send({"do": "run", "seconds": asked["seconds"], "at": asked["at"]})
        self.urgent.send(asked)
        latencies = _latencies(self.urgent.answer(_limit(self.step, 90)))
        told = self.other.answer(_limit(self.step, 60))
        return latencies, told["steps"][0] / told["seconds"][0]

    def stop(self):
        """Ends both."""
        self.urgent.stop()
        self.other.stop()


class Threads(Processes):
    """The same as two threads of one process, a stream each."""

    def __init__(self, step, mode, variables):
        log = step.work / step.plan.step / f"{mode}-urgent.log"
        self.step = step
        self.urgent = self.other = Server(step.place(mode, variables), server(step, "torch"), log)

    def both(self, neighbour):
        self.urgent.ask(_limit(self.step, 120), do="prepare", jobs=["urgent", neighbour])
        told = self.urgent.ask(_limit(self.step, 90), **_requests(self.step))
        return _latencies(told), told["steps"][0] / told["seconds"][0]


def _latencies(told):
    """Latencies of all requests: one that was not served in time has no end."""
    return told["latency_ms"] + [math.inf] * told.get("unserved", 0)


def _requests(step):
    rate = RATE if not step.rehearsal else 100
    return {"do": "requests", "rate": rate, "seconds": step.seconds(SECONDS, 0.4), "seed": 1,
            "at": time.monotonic() + HEAD_S}


def _limit(step, most):
    left = step.left() - 1
    if left <= 0:
        raise Ended("no time is left")
    return min(most, left)


def quantile(values, share):
    """The smallest value that so many of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]


def _tell(step, mode, neighbour, alone, latencies, keeps, rate):
    for name, share in QUANTILES:
        row = f"urgent_{name}_ratio_{neighbour}"
        if step.wants(row, mode):
            mine, before = quantile(latencies, share), quantile(alone, share)
            step.tell(row, mode, [mine], [before],
                      config=f"{mine:.3g} ms beside, {before:.3g} ms alone, {len(latencies)} requests")
    row = f"best_effort_share_{neighbour}"
    if step.wants(row, mode):
        step.tell(row, mode, value=rate / keeps, values=[rate / keeps], baseline=[keeps],
                  config="baseline: steps a second without requests")


def _none(step, mode, neighbour, reason):
    for row in [*(f"urgent_{name}_ratio_{neighbour}" for name, _ in QUANTILES), f"best_effort_share_{neighbour}"]:
        if step.wants(row, mode):
            step.tell(row, mode, reason=reason)
