"""The rows of `rows.json`: what is measured, in which modes, against what."""

import json
import math
import pathlib
from dataclasses import dataclass

FILE = pathlib.Path(__file__).resolve().parents[1] / "rows.json"

#: The group of modes in which programs are tenants of a Warploom cluster.
OURS = "ours"
#: Baselines that are no mode: the same mode without the others, and a copy of pinned memory.
REFERENCES = ("alone", "pinned_copy")


@dataclass(frozen=True)
class Mode:
    """One way to run a program: its name, how it runs, and the settings of its cluster."""

    name: str
    how: str
    settings: tuple = ()
    variables: tuple = ()
    instead_of: str | None = None


@dataclass(frozen=True)
class Step:
    """Rows that are measured together: seconds that the step needs beside those of its rows."""

    name: str
    phase: int
    start_s: float
    rehearse_s: float


@dataclass(frozen=True)
class Row:
    """One figure. `budget_s` covers all of its modes; `better` is `higher` or `lower`.

    A row that is not `rehearsed` needs a GPU: in a rehearsal it may have a reason in place of a value.
    """

    name: str
    phase: int
    step: str
    unit: str
    definition: str
    baseline: str | None
    modes: tuple
    budget_s: float
    better: str
    goal: float | None = None
    rehearsed: bool = True


class Rows:
    """All rows, steps and modes, in the order of the file."""

    def __init__(self, table):
        self.modes = {name: Mode(name=name, how=it["how"], settings=tuple(it.get("settings", ())),
                                 variables=tuple(it.get("variables", {}).items()),
                                 instead_of=it.get("instead_of"))
                      for name, it in table["modes"].items()}
        self.steps = [Step(**it) for it in table["steps"]]
        self.rows = [Row(**{**it, "modes": tuple(it["modes"])}) for it in table["rows"]]
        self._check()

    @classmethod
    def load(cls, path=FILE):
        """Reads the file."""
        return cls(json.loads(path.read_text()))

    def _check(self):
        names = [it.name for it in self.rows]
        twice = {it for it in names if names.count(it) > 1}
        steps = {it.name: it.phase for it in self.steps}
        wrong = [f"{it} is listed twice" for it in sorted(twice)]
        for row in self.rows:
            if steps.get(row.step) != row.phase:
                wrong.append(f"{row.name}: phase {row.phase} has no step {row.step}")
            for mode in (*row.modes, *([row.baseline] if row.baseline else [])):
                if not self.expand(mode) and mode not in REFERENCES:
                    wrong.append(f"{row.name}: there is no mode {mode}")
            if row.better not in ("higher", "lower"):
                wrong.append(f"{row.name}: better is {row.better}")
        if wrong:
            raise ValueError("; ".join(wrong))

    def expand(self, mode):
        """The modes that a row's word stands for: a mode, `ours`, or one with a substitute (`mps`)."""
        if mode == OURS:
            return [it for it in self.modes.values() if it.how == "tenant"]
        return [self.modes[mode]] if mode in self.modes else []

    def substituted(self, mode, absent):
        """The mode itself, or what stands in for it where it is absent on this host."""
        if mode.name not in absent:
            return mode
        return next((it for it in self.modes.values() if it.instead_of == mode.name), mode)

    def keys(self, row, absent=()):
        """The keys (row, mode) that a complete session has of a row."""
        modes = [self.substituted(it, absent) for word in row.modes for it in self.expand(word)]
        return [(row.name, it.name) for it in modes]

    def of_step(self, step):
        """The rows of a step."""
        return [it for it in self.rows if it.step == step]

    def budget(self, step, wanted, rehearsal=False):
        """Seconds that a step may take for the rows that are still wanted."""
        if rehearsal:
            return step.rehearse_s
        return step.start_s + sum(it.budget_s for it in self.of_step(step.name) if it.name in wanted)

    def missing(self, results, absent=(), phases=(1, 2, 3)):
        """What a complete session lacks in these results: a line for each key, with the reason."""
        told = {(it.get("metric"), it.get("mode")): it for it in results}
        lines = []
        for row in self.rows:
            if row.phase in phases:
                for key in self.keys(row, absent):
                    if reason := lacks(row, told.get(key)):
                        lines.append(f"{key[0]} ({key[1]}): {reason}")
        return lines


def lacks(row, result):
    """Why a result does not count as one of this row; nothing if it does."""
    if result is None:
        return "no result"
    value = result.get("value")
    if value is None:
        return None if result.get("reason") else "neither a value nor a reason"
    if not _finite(value):
        return f"the value is {value}"
    if row.baseline and not _finite(result.get("baseline_value")):
        return f"no value of its baseline, {row.baseline}"
    for field in ("min", "max"):
        if not _finite(result.get(field)):
            return f"no {field}"
    for field in ("gpu", "driver", "clocks", "mode", "reps"):
        if result.get(field) in (None, ""):
            return f"no {field}"
    return None


def _finite(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
