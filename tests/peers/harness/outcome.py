"""What came of a suite: counts, the failures that are expected, the table."""

import dataclasses
import fnmatch
import xml.etree.ElementTree as ElementTree


@dataclasses.dataclass
class Outcome:
    """One row of the table."""

    suite: str
    #: passed, FAILED or skipped.
    state: str = "passed"
    passed: int = 0
    failed: int = 0
    #: Skipped by the client's own suite; we skip nothing.
    skipped: int = 0
    #: Fail where they pass for everybody: the client's suite says so itself.
    xfailed: int = 0
    seconds: float = 0.0
    #: The smallest rate that passes.
    bound: float | None = None
    #: Figures, and why it failed or was skipped.
    notes: list = dataclasses.field(default_factory=list)
    #: Of each failure its reason, from the list of expected ones; nothing where it is not listed.
    failures: dict = dataclasses.field(default_factory=dict)

    @property
    def rate(self):
        """Passed of all that this device can be asked for."""
        counted = self.passed + self.failed
        return self.passed / counted if counted else None

    def fail(self, why):
        self.state = "FAILED"
        self.notes.append(why)
        return self

    def skip(self, why):
        self.state = "skipped"
        self.notes.append(f"SKIPPED: {why}")
        return self


def read(path):
    """The tests of a JUnit file: name, and passed, failed, skipped or xfailed."""
    rank = ["passed", "xfailed", "skipped", "failed"]
    tests = {}
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            came = "failed"
        elif skipped is not None:
            came = "xfailed" if "xfail" in (skipped.get("type") or "") else "skipped"
        else:
            came = "passed"
        name = ".".join(part for part in (case.get("classname"), case.get("name")) if part)
        # A test whose teardown fails as well has two entries.
        tests[name] = max(tests.get(name, "passed"), came, key=rank.index)
    return tests


def expected(path):
    """Patterns of tests and the reason above them, from a file of `# reason` and names."""
    reasons, reason, fresh = {}, "", True
    for line in path.read_text().splitlines() if path.is_file() else ():
        if line.startswith("#"):
            reason = line[1:].strip() if fresh else f"{reason} {line[1:].strip()}"
            fresh = False
        elif line.strip():
            reasons[line.strip()] = reason
            fresh = True
        else:
            fresh = True
    return reasons


def judge(outcome, tests, reasons):
    """Counts tests, and fails the suite for failures that nobody explained or for too many."""
    for name, came in tests.items():
        setattr(outcome, came, getattr(outcome, came) + 1)
        if came == "failed":
            known = (why for pattern, why in reasons.items() if fnmatch.fnmatchcase(name, pattern))
            outcome.failures[name] = next(known, None)
    unknown = sorted(name for name, why in outcome.failures.items() if why is None)
    if unknown:
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        outcome.fail(f"not in the list of expected failures: {', '.join(unknown[:5])}{more}")
    healed = [pattern for pattern in reasons if tests.get(pattern) == "passed"]
    if healed:
        outcome.notes.append(f"listed as failing, but passed: {', '.join(healed)}")
    if not outcome.passed + outcome.failed:
        outcome.fail("no test ran")
    elif outcome.bound is not None and outcome.rate < outcome.bound:
        outcome.fail(f"{outcome.rate:.1%} is less than {outcome.bound:.0%}")
    return outcome


def table(outcomes):
    """The outcomes as lines of text."""
    head = ("suite", "", "passed", "failed", "skipped", "xfailed", "rate", "seconds")
    rows = [head]
    for it in outcomes:
        counts = [str(it.passed), str(it.failed), str(it.skipped), str(it.xfailed)]
        rate = f"{it.rate:.1%}" if it.rate is not None else "-"
        rows.append((it.suite, it.state, *counts, rate, f"{it.seconds:.0f}"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    for row, it in zip(rows, [None, *outcomes]):
        cells = [cell.ljust(width) if column < 2 else cell.rjust(width)
                 for column, (cell, width) in enumerate(zip(row, widths))]
        yield "  ".join(cells).rstrip()
        yield from (f"    {note}" for note in (it.notes if it else ()))
