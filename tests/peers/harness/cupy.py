"""CuPy's own tests, from its source distribution: a sample of them, or all over several runs."""

import collections
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import time

from . import outcome, wheels
from .cluster import Cluster, stop
from .drawn import Drawn
from .runtimes import ON

PEERS = pathlib.Path(__file__).resolve().parents[1]
PLUGIN = PEERS / "pytest"
REQUIREMENTS = "cupy-requirements.txt"
#: Not there when its tests are listed: drawn are those that its suite runs without optional packages. There when
#: they run: some compare with SciPy where they find it, and where not with NumPy, which does other things.
SCIPY = "cupy-scipy.txt"

#: What the device says of itself. NVIDIA's libraries choose machine code for the GPUs that they know,
#: and PTX for one that is newer than they are: those of the requirements were made before this one.
MODEL = "worker.model=rtx5090"
#: What runs on one device; its suite's other folders test its build, its types and its examples.
FOLDERS = ("cupy_tests", "cupyx_tests")
MARKS = "not slow and not multi_gpu"

#: Seconds that a test may take, and a process to load its tests.
LIMIT, LOADING = 120, 300
#: Tests of a process.
CHUNK = 500
#: Tests of a sample.
SAMPLE = 5000


def cupy(stage, row):
    """A sample of CuPy's own tests, drawn by a seed; later runs may go on from it."""
    options = stage.options
    with Cluster(options.binary, stage.keep / "cupy-cluster", settings=[MODEL]) as cluster:
        _suite(Suite(cluster, options.tools, stage.keep), stage, row)


def _suite(suite, stage, row):
    options = stage.options
    tests, without = suite.tests()
    drawn = Drawn(options.resume or stage.keep / "cupy", tests, options.seed)
    drawn.ask(len(tests) if options.sample == "all" else int(options.sample or SAMPLE),
              options.again)
    left = drawn.left()
    row.notes.append(f"seed {drawn.seed}: {drawn.asked} of {len(tests)} tests asked for, "
                     f"{drawn.asked - len(left)} done earlier; {without}")
    try:
        _run(suite, drawn, left, options)
    finally:
        _judge(row, drawn)


class Suite:
    """The installed CuPy and its tests."""

    def __init__(self, cluster, tools, keep):
        self.cluster, self.tools, self.keep = cluster, tools, keep
        self.python = wheels.environment(tools, REQUIREMENTS)
        self.source = wheels.cupy_source(tools, self.python)
        self.folder = self.source / "tests"
        self.scipy = wheels.merged(tools, SCIPY)
        # A file of its tests asks nvcc for its version before it can be read.
        self.nvcc = wheels.merged(tools, "nvcc-requirements.txt") / "nvidia/cu13/bin/nvcc"
        self.nvcc.chmod(0o755)

    def tests(self):
        """All tests that its own marks do not skip here, and what was left out in words."""
        made_by = b"".join((PEERS / name).read_bytes() for name in (
            REQUIREMENTS, "cupy-source.txt", "harness/cupy.py", "pytest/drawn.py"))
        listed = self.tools / f"cupy-tests-{hashlib.sha256(made_by).hexdigest()[:16]}.json"
        if not listed.is_file():
            self._list(listed)
        told = json.loads(listed.read_text())
        return told["tests"], (
            f"{told['skipped']} are skipped by marks of its own, {len(told['unread'])} files cannot "
            f"be read without optional packages: {', '.join(sorted(told['unread']))}")

    def _list(self, listed):
        partial, log = self.keep / "cupy-tests.json", self.keep / "cupy-tests.log"
        with log.open("w") as out:
            process = self.start(["--collect-only", "-q", *FOLDERS], {"PEERS_LIST": str(partial)}, out)
            try:
                process.wait(1200)
            finally:
                stop(process)
        if not partial.is_file():
            raise RuntimeError(f"CuPy's tests could not be listed: see {log}")
        told = json.loads(partial.read_text())
        told["unread"] = sorted(set(re.findall(r"^ERROR (\S+\.py)", log.read_text(), re.M)))
        listed.write_text(json.dumps(told))

    def start(self, arguments, variables, out, *packages):
        """Starts its tests on the cluster, with folders of further packages."""
        variables = {
            **ON, **variables,
            "NVCC": str(self.nvcc),
            "CUPY_CACHE_DIR": str(self.tools / "cupy-kernels"),
            "PYTHONPATH": ":".join(map(str, (PLUGIN, self.folder, *packages))),
            # Names of tests hold the order of sets.
            "PYTHONHASHSEED": "0",
            # Loading some hundred files takes half as long from byte code. It lies by the path of its source, for
            # it holds that: in a folder that was moved, what looks for the source of a function would not find it.
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(self.tools / "cupy-byte-code"),
        }
        command = [self.python, "-m", "pytest", "-c", self.source / "pyproject.toml",
                   "--rootdir", self.folder, "-p", "drawn", "-p", "no:cacheprovider", "-q",
                   "--tb=native", "--continue-on-collection-errors", "-m", MARKS,
                   "--timeout", str(LIMIT), "--timeout-method", "thread", *arguments]
        return self.cluster.start(command, variables=variables, cwd=self.folder, stdout=out,
                                        stderr=subprocess.STDOUT)


class Job:
    """A process with a part of what is to be done."""

    def __init__(self, suite, drawn, number, tests):
        self.drawn, self.number, self.tests = drawn, number, tests
        names = drawn.folder / f"drawn-{number}.json"
        names.write_text(json.dumps(tests))
        self.log = drawn.folder / f"log-{number}.txt"
        self.began = time.time()
        with self.log.open("w") as out:
            self.process = suite.start(
                sorted({test.split("::")[0] for test in tests}),
                {"PEERS_DRAWN": str(names), "PEERS_RESULTS": str(drawn.results(number))}, out,
                suite.scipy)

    def ended(self):
        """Whether it is over; one that says nothing for too long is ended."""
        if self.process.poll() is not None:
            return True
        said = self.drawn.results(self.number)
        last = max(self.began + LOADING, said.stat().st_mtime if said.is_file() else 0)
        if time.time() < last + LIMIT + 60:
            return False
        stop(self.process)
        self.process.wait()
        return True

    def left(self):
        """What is left of it for a fresh process. A test that ended its process has failed."""
        why = f"took more than {LIMIT} s" if "Timeout" in self.log.read_text() else (
            f"ended its process ({self.process.returncode})")
        for test in self.drawn.cut(self.tests):
            self.drawn.write(self.number, test, "failed", why)
        done = self.drawn.came()
        left = [test for test in self.tests if test not in done]
        if len(left) == len(self.tests):
            said = self.log.read_text().strip().splitlines()[-1:]
            raise RuntimeError(f"a process of CuPy's tests did none of them: {said}, {self.log}")
        return left


def _run(suite, drawn, left, options):
    """Runs tests in parts, several processes at a time, each part until nothing of it is left."""
    parts = collections.deque(left[at:at + CHUNK] for at in range(0, len(left), CHUNK))
    until = time.monotonic() + 60 * options.minutes if options.minutes else None
    jobs = {}
    try:
        while parts or jobs:
            if until and time.monotonic() > until:
                return
            for number in range(options.jobs):
                if number not in jobs and parts:
                    jobs[number] = Job(suite, drawn, number, parts.popleft())
            time.sleep(0.5)
            for number, job in list(jobs.items()):
                if job.ended():
                    del jobs[number]
                    if rest := job.left():
                        parts.appendleft(rest)
                    print(f"peers:   {len(drawn.left())} tests left", file=sys.stderr, flush=True)
    finally:
        for job in jobs.values():
            stop(job.process)


def _judge(row, drawn):
    """Counts what is done; a failure is known by its test and by what it said."""
    row.bound = 0.95
    tests = {f"{test} | {why}" if came == "failed" else test: came
             for test, (came, why) in drawn.came().items()}
    outcome.judge(row, tests, outcome.expected(PEERS / "expected" / "cupy.txt"))
    reasons = collections.Counter(why or f"not listed: {name.split(' | ')[-1][:160]}"
                                  for name, why in row.failures.items())
    row.notes += [f"{count} failed: {why}" for why, count in reasons.most_common(40)]
    if left := drawn.left():
        row.notes.append(f"{len(left)} of those asked for are still to be done: --resume "
                         f"{drawn.folder} goes on")
