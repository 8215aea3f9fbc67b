"""A step in its own process: what it may use, and how it tells its rows."""

import json
import math
import pathlib
import statistics
import sys
import time
from dataclasses import dataclass

from . import clusters, facts, mps, places
from .rows import Rows


@dataclass
class Plan:
    """What the session hands to the process of a step."""

    step: str
    wanted: list
    rehearsal: bool
    scale: float
    until: float
    kit: str
    work: str
    out: str
    absent: list
    states: dict
    command: str

    def write(self, path):
        """Writes the plan as JSON."""
        path.write_text(json.dumps(self.__dict__))

    @classmethod
    def read(cls, path):
        """Reads a plan that the session wrote."""
        plan = cls(**json.loads(pathlib.Path(path).read_text()))
        plan.wanted = [tuple(it) for it in plan.wanted]
        return plan


class Step:
    """The hands of a step: programs of the kit, places to run them, and rows."""

    def __init__(self, plan, told=sys.stdout):
        self.plan, self.told = plan, told
        self.rows = Rows.load()
        self.of = {it.name: it for it in self.rows.rows}
        self.kit, self.work, self.out = pathlib.Path(plan.kit), pathlib.Path(plan.work), pathlib.Path(plan.out)
        self.rehearsal, self.scale = plan.rehearsal, plan.scale
        self.binary = self.kit / "bin/warploom"
        self.card = facts.Card(plan.rehearsal)
        self.wanted = set(plan.wanted)
        self.done = set()

    # --- programs and places

    def program(self, name):
        """A program of the kit that was built before."""
        return self.kit / "bin" / name

    def script(self, name):
        """A Python script of the kit, with the interpreter of this process."""
        return [sys.executable, "-B", self.kit / "tests/gpu" / name]

    def absent(self):
        """Modes that this host lacks."""
        return set(self.plan.absent)

    def mode(self, word):
        """The mode, or what stands in for it on this host."""
        return self.rows.substituted(self.rows.modes[word], self.absent())

    def ours(self):
        """The names of the modes whose programs are tenants of a cluster."""
        return [it.name for it in self.rows.expand("ours")]

    def place(self, name, variables=None):
        """Where programs of a mode run. In a rehearsal every mode is a cluster: ours, or the twin."""
        mode = self.rows.modes[name]
        state = self.plan.states.get(name)
        environment = clusters.base_environment(self.kit / "bin")
        if state:
            environment |= {"WARPLOOM_CLUSTER_STATE_DIR": state, "WARPLOOM_CLIENT_RUNTIME_TABLES": "on"}
        site = self.work / "site"
        if site.is_dir():
            environment["PYTHONPATH"] = str(site)
        return places.Place(mode=name, how=mode.how, binary=str(self.binary), environment=environment,
                            tenants=state is not None, state_dir=state,
                            variables={**dict(mode.variables), **(variables or {})})

    def cluster(self, name, settings=()):
        """A cluster of this step's own, to be entered; it ends with the step."""
        device = "cpu" if self.rehearsal else "cuda"
        return clusters.Cluster(name, self.binary, self.work / self.plan.step / name,
                                (f"worker.device={device}", *settings), self.kit / "bin")

    def joined(self, name):
        """The cluster of a mode, for its commands; the session starts and watches it."""
        cluster = clusters.Cluster(name, self.binary, self.work, (), self.kit / "bin")
        cluster.environment["WARPLOOM_CLUSTER_STATE_DIR"] = self.plan.states[name]
        return cluster

    def mps(self):
        """The MPS daemon, to be entered, or None where this host has none."""
        program = None if "mps" in self.plan.absent else mps.control()
        return mps.Daemon(program, self.work / self.plan.step / "mps") if program else None

    # --- time

    def left(self):
        """Seconds until the session ends this step."""
        return self.plan.until - time.monotonic()

    def turns(self, count=5):
        """Numbers of repetitions: five, or two in a rehearsal."""
        return range(2 if self.rehearsal else count)

    def seconds(self, full, least=0.05):
        """A length of time, shortened in a rehearsal."""
        return max(full * self.scale, least) if self.rehearsal else full

    # --- rows

    def wants(self, name, mode=None):
        """True if a row is still to be measured, in that mode or in any."""
        return any(row == name and mode in (None, of) for row, of in self.wanted - self.done)

    def modes_of(self, name):
        """The modes of a row that are still to be measured."""
        return [of for row, of in self.plan.wanted if row == name and (row, of) not in self.done]

    def tell(self, name, mode, values=(), baseline=(), config="", reason=None, value=None, against=None):
        """Tells a row: the median of its values, or why there is none.

        `baseline` has the values of the baseline; for a unit of `ratio` and without a `value` the row is
        the median of `values` over the median of `baseline`, turn by turn where both have as many.
        `against` names the baseline that was measured in place of the row's own.
        """
        row = self.of[name]
        values, baseline = [it for it in values if it is not None], [it for it in baseline if it is not None]
        beside = statistics.median(baseline) if baseline else None
        if reason is None and value is None:
            value, values = _value(row, values, baseline)
        spread = values or ([value] if value is not None else [])
        bad = [it for it in (value, beside, *spread) if it is not None and not math.isfinite(it)]
        if reason is None and (bad or value is None):
            reason = "the value is not finite" if bad else "no value was measured"
        if reason is None and row.baseline and beside is None:
            reason = f"no value of the baseline, {against or row.baseline}"
        known = reason is None
        self._print({
            "metric": name, "mode": mode, "phase": row.phase,
            "value": value if known else None, "unit": row.unit,
            "baseline": against or row.baseline, "baseline_value": None if bad else beside,
            "min": min(spread) if known else None, "max": max(spread) if known else None,
            "reps": len(spread) if known else 0, "config": config,
            "reason": None if known else _line(reason), "again": False,
            "gpu": self.card.name, "driver": self.card.driver, "clocks": self.card.clocks(),
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "rehearsal": self.rehearsal, "command": self.plan.command,
        })
        self.done.add((name, mode))

    def rest(self, reason):
        """Tells of each row that is still wanted why it has no value."""
        for name, mode in self.plan.wanted:
            if (name, mode) not in self.done:
                self.tell(name, mode, reason=reason)

    def note(self, text):
        """Writes a line to the session's log."""
        print(f"{self.plan.step}: {text}", file=sys.stderr, flush=True)

    def _print(self, result):
        self.told.write(json.dumps(result, allow_nan=False) + "\n")
        self.told.flush()


def _value(row, values, baseline):
    """The value of a row and its repetitions."""
    if row.unit != "ratio" or not baseline:
        return (statistics.median(values) if values else None), values
    if not values or not all(baseline):
        return None, []
    if len(values) == len(baseline):
        turns = [ours / theirs for ours, theirs in zip(values, baseline)]
    else:
        turns = [it / statistics.median(baseline) for it in values]
    return statistics.median(values) / statistics.median(baseline), turns


def _line(text):
    return " ".join(str(text).split())[:400]
