"""The traces of Numba programs that know nothing of Warploom, with spans of their own and without."""

import dataclasses
import json
import pathlib
import secrets
import shutil
import subprocess
import sys
import time
import zipfile

from . import outcome, wheels
from .chart import Collector
from .cluster import Cluster
from .joined import Made, awaited

PEERS = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = PEERS / "programs/traced.py"
PYTHON = PEERS.parents[1] / "ops/python"

#: The parent that a program is started with.
PARENT = (secrets.token_hex(16), secrets.token_hex(8))
INHERITED = {"TRACEPARENT": f"00-{PARENT[0]}-{PARENT[1]}-01"}
#: Spans of the program go nowhere.
QUIET = {f"OTEL_{signal}_EXPORTER": "none" for signal in ("TRACES", "METRICS", "LOGS")}
#: Seconds for a program.
LIMIT = 300


@dataclasses.dataclass
class Program:
    """A program of a tenant of its own."""

    tenant: str
    command: list
    variables: dict = dataclasses.field(default_factory=dict)

    @property
    def inherited(self):
        """The parent of all its requests that have no other, or nothing."""
        return PARENT if "TRACEPARENT" in self.variables else None


class Started:
    """A way to start traced.py on a library, with what it takes to name parents."""

    def __init__(self, stage, folder):
        self.python = wheels.environment(stage.options.tools, "traces-requirements.txt")
        self.packages = wheels.packages(self.python.parents[1])
        self.path = f"{_wheel(folder)}:{self.packages}"

    def program(self, tenant, python, parents, arguments, variables=None):
        """A program of Python whose parents are: none, inherited, spans or set."""
        command = [python, PROGRAM, *arguments]
        variables = {**(variables or {}), "PYTHONPATH": self.path}
        if parents == "inherited":
            variables |= INHERITED
        elif parents == "spans":
            # As people start theirs.
            command = [python, self.packages / "bin/opentelemetry-instrument", *command, "--parents", "spans"]
            variables |= QUIET
        elif parents == "set":
            command += ["--parents", "set"]
        return Program(tenant, command, variables)


def traces(stage, row):
    """Programs without a parent, with one, with spans, and with threads: each request has a trace, once, and a right
    one. Before that, the tests of the wheel's Python."""
    folder = fresh(stage, "traces")
    started = Started(stage, folder)
    _tests(stage, row, started.python)
    count = ("--requests", requests(stage))
    two = (*count, "--threads", 2)
    programs = [started.program(tenant, stage.python, parents, arguments) for tenant, parents, arguments in (
        ("plain", "none", count), ("parent", "inherited", count), ("spans", "spans", count),
        ("threads", "none", two), ("threads-spans", "spans", two))]
    with Collector(stage, folder) as collector:
        with cluster_of(stage, folder, collector) as cluster:
            for program in programs:
                judge(row, cluster, collector, program)


def fresh(stage, name):
    """A folder without what an earlier run received: it is not to be counted."""
    folder = stage.keep / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def cluster_of(stage, folder, collector, **options):
    """A cluster that exports to a collector."""
    settings = (f"telemetry.otlp=http://{collector.address}",)
    cluster = Cluster(stage.options.binary, folder / "cluster", settings=settings, **options)
    # A post without an answer in time is sent again, and would be there twice.
    cluster.environment["OTEL_EXPORTER_OTLP_TIMEOUT"] = "60000"
    return cluster


def requests(stage):
    """Number of requests of a program."""
    return 200 if stage.options.fast else 1000


def judge(row, cluster, collector, program, limit=LIMIT):
    """Runs a program, and compares its traces with what it made. Returns that."""
    began = time.monotonic()
    ran = cluster.run(program.command, limit, tenant=program.tenant, variables=program.variables)
    said, wrong, made = {}, ran.failed, None
    if not wrong:
        made = Made(program.tenant, ran.told, program.inherited)
        keep(collector, made)
        said, wrong = awaited(collector, made)
    count(row, program.tenant, wrong)
    row.notes.append(f"{program.tenant}: {figures(said)}; {ran.seconds:.1f} s, traces "
                     f"{time.monotonic() - began - ran.seconds:.1f} s after it")
    return made


def keep(collector, made):
    """Keeps what a program told, beside what was received."""
    collector.out.with_name(f"{made.tenant}.json").write_text(json.dumps(made.told))


def count(row, name, wrong):
    """Counts a comparison."""
    row.passed, row.failed = row.passed + (not wrong), row.failed + bool(wrong)
    if wrong:
        row.fail(f"{name}: {wrong}")


def figures(said):
    """The figures of traces in words."""
    cover = "".join(f", {key} {said[key]:.4f}" for key in ("cover_p50", "cover_min") if said.get(key) is not None)
    few = "".join(f", {said[key]} {key}" for key in ("incomplete", "repeated") if said.get(key))
    return f"{said.get('requests', 0)} requests joined, {said.get('launches', 0)} launches{cover}{few}"


def _tests(stage, row, python):
    """The tests of the wheel's Python, all of them."""
    junit, log = stage.keep / "traces-tests.xml", stage.keep / "traces-tests.log"
    junit.unlink(missing_ok=True)
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={junit}", PYTHON / "tests"]
    ran = subprocess.run(command, env=stage.cluster.environment, cwd=stage.keep, timeout=300, capture_output=True,
                         text=True, check=False)
    log.write_text(ran.stdout + ran.stderr)
    if not junit.is_file():
        raise RuntimeError(f"pytest wrote no {junit.name}: see {log}")
    tests = outcome.read(junit)
    outcome.judge(row, tests, {})
    if skipped := sorted(name for name, came in tests.items() if came == "skipped"):
        row.failed += 1
        row.fail(f"skipped: {', '.join(skipped[:5])}")
    row.notes.append(f"{row.passed} tests of the wheel's Python")


def _wheel(folder):
    """The folder of the unpacked wheel. Its binaries are of no use: `warploom run` brings those under test."""
    binaries, unpacked = folder / "binaries", folder / "wheel"
    binaries.mkdir()
    for name in ("warploom", "libwarploom_cuda.so"):
        (binaries / name).symlink_to("/bin/true")
    subprocess.run([sys.executable, PYTHON / "build.py", "--binaries", binaries, "--out", binaries], check=True,
                   capture_output=True)
    (wheel,) = binaries.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    return unpacked
