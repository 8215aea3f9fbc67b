"""A plugin of pytest: lists a suite's tests, or runs those that were drawn, and writes down each.

It is told by variables: PEERS_LIST is the file that gets the list; PEERS_DRAWN has the names of the
tests to run, as JSON, and PEERS_RESULTS gets a line of JSON for each of them.
"""

import json
import os
import re
import time

import pytest
from _pytest.skipping import evaluate_skip_marks

#: Which lines of a failure's text say what is wrong.
TELLING = r"\S*(Error|Exception|Warning)\b|Not equal to|Mismatched|Max \w+ difference"
#: How much of a failure's text is kept.
KEPT = 4000


def names(items):
    """Each test with a name of its own: of tests of one name the second has `#2` behind it."""
    seen = {}
    for item in items:
        seen[item.nodeid] = seen.get(item.nodeid, 0) + 1
        more = f"#{seen[item.nodeid]}" if seen[item.nodeid] > 1 else ""
        yield item.nodeid + more, item


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    named = list(names(items))
    if path := os.environ.get("PEERS_LIST"):
        skipped = {name for name, item in named if evaluate_skip_marks(item)}
        with open(path, "w") as out:
            json.dump({"tests": [name for name, _ in named if name not in skipped],
                       "skipped": len(skipped)}, out)
        return
    with open(os.environ["PEERS_DRAWN"]) as drawn:
        wanted = set(json.load(drawn))
    kept = [(name, item) for name, item in named if name in wanted]
    config.hook.pytest_deselected(items=[item for name, item in named if name not in wanted])
    items[:] = [item for _, item in kept]
    config.pluginmanager.register(Writer({item: name for name, item in kept}))
    for name in wanted - {name for name, _ in kept}:
        write(name, "failed", "the suite has no such test in this process")


def write(name, outcome, text=""):
    line = {"test": name, "outcome": outcome, "why": short(text), "at": time.time()}
    if outcome == "failed":
        line["text"] = text[:KEPT]
    with open(os.environ["PEERS_RESULTS"], "a") as out:
        out.write(json.dumps(line) + "\n")


def short(text):
    """A failure's first line, and the errors that it is about."""
    lines = text.splitlines() or [""]
    errors = [line for line in lines[1:] if re.match(TELLING, line)]
    return "; ".join(line[:200] for line in dict.fromkeys([lines[0], *errors[:4]]))


class Writer:
    """Writes down what came of each test as soon as it is known."""

    def __init__(self, name_of):
        self.name_of, self.reports = name_of, {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item, nextitem):
        name = self.name_of[item]
        write(name, "began")
        self.reports = {}
        result = yield
        write(name, *self.came())
        if self.reports.get("failed") is not None and lost():
            # CUDA answers nothing else in this process: a fresh one goes on.
            os._exit(1)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if report.failed:
            said = str(call.excinfo.value) if call.excinfo else str(report.longrepr)
            kind = call.excinfo.type.__name__ if call.excinfo else "failed"
            self.reports.setdefault("failed", f"{kind}: {said}")
        elif report.skipped:
            expected = hasattr(report, "wasxfail")
            self.reports.setdefault("xfailed" if expected else "skipped", str(report.longrepr))
        return report

    def came(self):
        for outcome in ("failed", "xfailed", "skipped"):
            if outcome in self.reports:
                return outcome, self.reports[outcome]
        return "passed", ""


def lost():
    """Whether the device is lost to this process."""
    import cupy
    try:
        cupy.cuda.runtime.deviceSynchronize()
    except cupy.cuda.runtime.CUDARuntimeError:
        return True
    return False
