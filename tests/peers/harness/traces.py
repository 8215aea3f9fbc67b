"""The traces of Numba programs that know nothing of Warploom, with spans of their own and without."""

import collections
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

PEERS = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = PEERS / "programs/traced.py"
PYTHON = PEERS.parents[1] / "ops/python"
RULES = PEERS / "otlp/traces.py"

#: The parent that a program is started with.
PARENT = (secrets.token_hex(16), secrets.token_hex(8))
#: Of half of the requests the children cover at least this share.
COVER = 0.98
#: Seconds until all launches of a program must be in its traces, and until what is wrong then stays so.
DEADLINE, REST = 120, 45
#: Nanoseconds by which the clock of the client may differ from the program's.
CLOCK = 1_000_000
#: Spans of the program go nowhere.
QUIET = {f"OTEL_{signal}_EXPORTER": "none" for signal in ("TRACES", "METRICS", "LOGS")}

#: The programs: the tenant, arguments, variables, and whether OpenTelemetry starts them.
PROGRAMS = (
    ("plain", (), {}, False),
    ("parent", (), {"TRACEPARENT": f"00-{PARENT[0]}-{PARENT[1]}-01"}, False),
    ("spans", ("--spans",), QUIET, True),
    ("threads", ("--threads", "2"), {}, False),
    ("threads-spans", ("--threads", "2", "--spans"), QUIET, True),
)


def traces(stage, row):
    """Programs without a parent, with one, with spans, and with threads: each request has a trace, once, and a right
    one. Before that, the tests of the wheel's Python."""
    python = wheels.environment(stage.options.tools, "traces-requirements.txt")
    folder = stage.keep / "traces"
    # What an earlier run received is not to be counted.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    _tests(stage, row, python)
    packages = wheels.packages(python.parents[1])
    path = f"{_wheel(folder)}:{packages}"
    requests = 200 if stage.options.fast else 1000
    with Collector(stage, folder) as collector:
        settings = (f"telemetry.otlp=http://{collector.address}",)
        with Cluster(stage.options.binary, folder / "cluster", settings=settings) as cluster:
            for tenant, arguments, variables, instrumented in PROGRAMS:
                program = [stage.python, PROGRAM, "--requests", requests, *arguments]
                if instrumented:
                    program = [stage.python, packages / "bin/opentelemetry-instrument", *program]
                began = time.monotonic()
                ran = cluster.run(program, 300, tenant=tenant, variables={**variables, "PYTHONPATH": path})
                said, wrong = {}, ran.failed
                if not wrong:
                    (folder / f"{tenant}.json").write_text(json.dumps(ran.told))
                    said, wrong = _checked(collector, tenant, ran.told["requests"])
                row.passed, row.failed = row.passed + (not wrong), row.failed + bool(wrong)
                if wrong:
                    row.fail(f"{tenant}: {wrong}")
                cover = "".join(f", {key} {said[key]:.4f}" for key in ("cover_p50", "cover_min") if said.get(key))
                row.notes.append(f"{tenant}: {requests} requests{cover}; {ran.seconds:.1f} s, traces "
                                 f"{time.monotonic() - began - ran.seconds:.1f} s after it")


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


def _checked(collector, tenant, requests):
    """Waits for the traces of a tenant's requests; what the rules say of them, and what is wrong, or nothing."""
    launches = sum(it["launches"] for it in requests)
    began, before, since = time.monotonic(), None, time.monotonic()
    while True:
        said, wrong = _said(collector.out, tenant)
        # More may come as long as launches are missing.
        is_late = not said or said["executed"] < launches
        if not wrong:
            wrong = _differs(said, launches) or _unmatched(collector.lines(), tenant, requests)
        if not wrong:
            return said, None
        now = time.monotonic()
        if wrong != before:
            before, since = wrong, now
        if now > began + DEADLINE or (not is_late and now > since + REST):
            return said, wrong
        time.sleep(0.5)


def _said(received, tenant):
    """What traces.py says, and the rule that does not hold, or nothing."""
    if not received.is_file():
        return {}, "nothing was received"
    ran = subprocess.run([sys.executable, RULES, received, "--tenant", tenant], capture_output=True, text=True,
                         check=False)
    if ran.returncode:
        return {}, ran.stderr.strip()[:2000]
    return json.loads(ran.stdout), None


def _differs(said, launches):
    """What of the sums is not as it must be, or nothing."""
    for key, wanted in {"executed": launches, "launches": launches, "incomplete": 0, "repeated": 0,
                        "errors": {}}.items():
        if said[key] != wanted:
            return f"{key} {said[key]}, not {wanted}"
    # Each has a request, if only that of its end.
    if said["threads"] != list(range(1, len(said["threads"]) + 1)):
        return f"requests of threads {said['threads']}"
    if said["cover_p50"] < COVER:
        return f"cover_p50 {said['cover_p50']:.4f}, less than {COVER}"
    return None


def _unmatched(lines, tenant, requests):
    """Where the requests of the traces are not those of the program, or nothing."""
    theirs = [it for it in lines if it["kind"] == "span" and it["name"] == "request"
              and it["attributes"]["warploom.tenant"] == tenant]
    made, seen = collections.defaultdict(list), collections.defaultdict(list)
    for it in requests:
        made[it["thread"]].append(it)
    for it in sorted(theirs, key=lambda it: it["start"]):
        if it["attributes"]["warploom.launches"]:
            seen[it["attributes"]["thread.id"]].append(it)
    if (counts := sorted(map(len, seen.values()))) != sorted(map(len, made.values())):
        return f"{counts} requests with launches of each thread, {len(requests)} in all were made"
    for mine in made.values():
        # Threads have other numbers there: it is the one that is right for longest.
        right_until, wrong = max(_difference(tenant, mine, thread) for thread in seen.values())
        if right_until < len(mine):
            return wrong
    right = {_parent(tenant, it) for it in requests}
    # What waits outside of a span has none, unless the whole program has one.
    if tenant != "parent":
        right.add(None)
    roots = [it["trace"] for it in theirs if not it["parent"]]
    if len(set(roots)) != len(roots):
        return "requests without a parent share a trace"
    strangers = [it for it in theirs if _parent_of(it) not in right]
    return f"{len(strangers)} requests with another parent: {strangers[0]}" if strangers else None


def _difference(tenant, made, seen):
    """The place of the first request of a thread that is not what the program made, and what it is."""
    for place, (one, other) in enumerate(zip(made, seen)):
        if _parent_of(other) != _parent(tenant, one):
            return place, f"not the parent {_parent(tenant, one)}: {other}"
        if other["attributes"]["warploom.launches"] != one["launches"]:
            return place, f"not {one['launches']} launches: {other}"
        if other["start"] < one["began"] - CLOCK or other["end"] > one["ended"] + CLOCK:
            return place, f"not from {one['began']} to {one['ended']}: {other}"
    return min(len(made), len(seen)), f"a thread has {len(seen)} requests with launches, not {len(made)}"


def _parent(tenant, request):
    """The parent that a request of the program must have, or nothing."""
    if "span" in request:
        return request["trace"], request["span"]
    return PARENT if tenant == "parent" else None


def _parent_of(span):
    """The parent that a span has, or nothing."""
    return (span["trace"], span["parent"]) if span["parent"] else None
