"""Tests of a large suite, drawn by a seed: an order of all of them, of which each run does a part."""

import json
import random
import time

#: Outcomes that a test can have; `began` stands for one that was cut.
DONE = ("passed", "failed", "skipped", "xfailed")


class Drawn:
    """A folder with what was drawn and what came of it, which later runs go on from."""

    def __init__(self, folder, tests, seed):
        self.folder, self.tests = folder, tests
        folder.mkdir(parents=True, exist_ok=True)
        self._plan = folder / "plan.json"
        plan = json.loads(self._plan.read_text()) if self._plan.is_file() else None
        if plan and seed is not None and plan["seed"] != seed:
            raise RuntimeError(f"{folder} was drawn by seed {plan['seed']}, not {seed}")
        if plan and plan["tests"] != len(tests):
            raise RuntimeError(f"{folder} is of a suite with {plan['tests']} tests, not {len(tests)}")
        self.seed = plan["seed"] if plan else random.randrange(2**32) if seed is None else seed
        self.asked = plan["asked"] if plan else 0
        self.order = sorted(tests)
        random.Random(self.seed).shuffle(self.order)

    def ask(self, number, again=False):
        """Asks for so many tests more, unless some of those asked for earlier are still to be done;
        or for those again that failed."""
        if again:
            for test, (outcome, _) in self.came().items():
                if outcome == "failed":
                    self.write("again", test, "again", "")
        if self.asked and self.left():
            return
        self.asked = min(self.asked + number, len(self.order))
        self._plan.write_text(json.dumps(
            {"seed": self.seed, "asked": self.asked, "tests": len(self.tests)}))

    def left(self):
        """What was asked for and is not done."""
        done = self.came()
        return [test for test in self.order[:self.asked] if test not in done]

    def came(self):
        """What came of each test that is done: its outcome, and why."""
        return {test: (outcome, why) for test, (outcome, why) in self._last().items()
                if outcome in DONE}

    def cut(self, tests):
        """Those of these tests that began and did not end."""
        last = self._last()
        return [test for test in tests if last.get(test, ("",))[0] == "began"]

    def results(self, job):
        """The file that a job appends to, a line for each test."""
        return self.folder / f"results-{job}.jsonl"

    def write(self, job, test, outcome, why):
        with self.results(job).open("a") as out:
            out.write(json.dumps({"test": test, "outcome": outcome, "why": why,
                                  "at": time.time()}) + "\n")

    def _last(self):
        """The last that was written of each test."""
        told = []
        for path in self.folder.glob("results-*.jsonl"):
            for line in path.read_text().splitlines():
                try:
                    told.append(json.loads(line))
                except ValueError:
                    # A process that was killed wrote half a line: its test is done again.
                    continue
        return {line["test"]: (line["outcome"], line["why"])
                for line in sorted(told, key=lambda line: line["at"])}
