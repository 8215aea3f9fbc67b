#!/usr/bin/env python3
"""Everything that needs a GPU, on a host that has one: the device's conformance, CUDA C++ and Python clients.

    cargo test --release -p device-cuda --no-run      # prints the path of the conformance test
    cargo build --release
    tests/gpu/run.py --conformance target/release/deps/conformance-...

Each client program runs on the GPU without Warploom first, then as a tenant of a cluster with one worker on
that GPU. nvcc, and what a client imports, are the host's; a client whose package is missing is skipped, and
the table says so.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "peers"))

from harness.cluster import Cluster  # noqa: E402
from harness.nvcc import SOURCES, _flags  # noqa: E402
from harness.runtimes import ON  # noqa: E402

SETTINGS = ["worker.device=cuda", "worker.watchdog=60s"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--warploom", type=pathlib.Path, default=ROOT / "target/release/warploom")
    parser.add_argument("--conformance", type=pathlib.Path, help="the test of the crate device-cuda; skipped without")
    parser.add_argument("--suite", nargs="+", default=["conformance", "nvcc", "clients", "rates"])
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--flags", default="", help="more flags for nvcc: -arch=native for machine code of this GPU, without PTX")
    parser.add_argument("--limit", type=float, default=40, help="seconds for one program")
    parser.add_argument("--json", action="store_true", help="one object for each program")
    return parser.parse_args()


class Table:
    """Results, one line each, as they come."""

    def __init__(self, as_json):
        self.as_json, self.bad, self.count = as_json, 0, 0

    def row(self, suite, name, native, ours, note=""):
        self.count += 1
        self.bad += native == "well" and ours != "well"
        if self.as_json:
            print(json.dumps({"suite": suite, "program": name, "native": native, "warploom": ours, "note": note}), flush=True)
        else:
            print(f"{suite:12} {name:18} {native:8} {ours:8} {note}"[:150], flush=True)


def ran(command, limit, environment=None):
    """What came of a program: well, failed or skipped; and its last words."""
    began = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=environment, check=False)
    except subprocess.TimeoutExpired as late:
        said = (late.stderr or b"").decode(errors="replace")
        return "failed", f"took more than {limit:.0f} s; {said[-200:]}"
    said = done.stdout.strip().splitlines()[-1:]
    told = [line for line in done.stderr.splitlines() if line.strip()]
    if done.returncode == 77:
        return "skipped", " ".join(said)
    if done.returncode == 0 and said and "well" in said[0]:
        return "well", f"{time.monotonic() - began:.1f} s; {said[0].partition('well')[2].strip(' ;')}"
    return "failed", f"{done.returncode}: {(told or said or ['it said nothing'])[-1]}"


def ours(cluster, command, limit):
    """A program as a tenant of the cluster."""
    until = time.monotonic() + 20
    # After a fault there is another worker soon.
    while not any(not it["lost"] for it in cluster.status()["workers"]) and time.monotonic() < until:
        time.sleep(0.2)
    whole = [cluster.binary, "run", "--tenant", "default", "--", *map(str, command)]
    return ran(whole, limit, {**cluster.environment, **ON})


def nvcc(options, table, cluster, folder):
    """The programs of tests/peers/nvcc: PTX and machine code, as nvcc makes them."""
    if not shutil.which("nvcc"):
        return table.row("nvcc", "all", "skipped", "skipped", "no nvcc")
    sources = [it for it in sorted(SOURCES.glob("*.cu")) if ".part." not in it.name and options.only in it.name]

    def compiled(source):
        library = _flags(source, "lib")
        archive = [folder / f"lib{source.stem}.a"] if library else []
        more = options.flags.split()
        commands = [["-rdc=true", "-lib", *more, "-o", *archive, *library]] if library else []
        commands.append([*more, "-o", folder / source.stem, source.name, *_flags(source, "nvcc"), *archive])
        for command in commands:
            made = subprocess.run(["nvcc", *map(str, command)], cwd=source.parent, capture_output=True, text=True, check=False)
            if made.returncode:
                return made.stderr.strip().splitlines()[-1:]
        return None

    def native(source):
        wrong = compiled(source)
        if wrong:
            return "failed", f"nvcc: {wrong}"
        if _flags(source, "run"):
            return "skipped", "two devices"
        return ran([folder / source.stem], options.limit)

    # A kernel's fault ends everybody on the GPU, and some are meant to have one: one after another.
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for source, (came, note) in zip(sources, pool.map(native, sources)):
            if came == "skipped":
                table.row("nvcc", source.stem, came, came, note)
            else:
                table.row("nvcc", source.stem, came, *ours(cluster, [folder / source.stem], options.limit))


def clients(options, table, cluster, _):
    """Python programs of several libraries, each of which compares its results with NumPy's."""
    programs = [it for it in sorted((HERE / "programs").glob("*.py")) if options.only in it.name]
    limit = 3 * options.limit
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = pool.map(lambda it: ran([sys.executable, it], limit), programs)
        for program, (came, note) in zip(programs, results):
            if came == "skipped":
                table.row("clients", program.stem, came, came, note)
            else:
                table.row("clients", program.stem, came, *ours(cluster, [sys.executable, program], limit))


def rates(options, table, cluster, folder):
    """Launches and copies of one program, without Warploom and with it, in turns: medians of five turns."""
    program = folder / "rates"
    made = subprocess.run(["nvcc", "-O2", "-o", program, HERE / "bench/rates.cu"], capture_output=True, text=True, check=False)
    if made.returncode:
        return table.row("rates", "all", "failed", "failed", made.stderr.strip()[-200:])
    told = {"native": [], "warploom": []}
    for _ in range(5):
        for who, command, environment in (
                ("native", [program], None),
                ("warploom", [cluster.binary, "run", "--tenant", "default", "--", program], {**cluster.environment, **ON})):
            done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=options.limit)
            if done.returncode:
                return table.row("rates", who, "failed", "failed", done.stderr.strip()[-200:])
            told[who].append(json.loads(done.stdout))
    for name in told["native"][0]:
        theirs, ours = (statistics.median(it[name] for it in told[who]) for who in told)
        table.row("rates", name, f"{theirs:.4g}", f"{ours:.4g}", f"ratio {ours / theirs:.3f}")


def main():
    options = arguments()
    table = Table(options.json)
    if "conformance" in options.suite and options.conformance:
        done = subprocess.run([options.conformance, "--nocapture"], capture_output=True, text=True, check=False)
        passed = done.returncode == 0 and "SKIPPED" not in done.stderr
        last = (done.stdout + done.stderr).strip().splitlines()
        table.row("conformance", "device-cuda", "well", "well" if passed else "failed", "" if passed else " | ".join(last[-6:]))
    suites = [it for it in (nvcc, clients, rates) if it.__name__ in options.suite]
    if suites:
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            with Cluster(options.warploom.resolve(), folder / "cluster", settings=SETTINGS) as cluster:
                status = cluster.status()
                print([it["device"] for it in status["workers"]], file=sys.stderr)
                for suite in suites:
                    suite(options, table, cluster, folder)
                if table.bad:
                    log = (folder / "cluster/cluster.log").read_text().splitlines()
                    print(*log[-20:], sep="\n", file=sys.stderr)
    print(f"{table.count} rows, {table.bad} that run without Warploom fail with it", file=sys.stderr)
    return 1 if table.bad else 0


if __name__ == "__main__":
    sys.exit(main())
