#!/usr/bin/env python3
"""Clients that nobody here wrote, unmodified, on a cluster of this machine's own.

  tests/peers/run.py                         every suite; tinygrad's backend tests take hours
  tests/peers/run.py --fast                  a few minutes of it, as every test run does
  tests/peers/run.py --suite numba gpt2      these only
  tests/peers/run.py --suite cupy --resume   5,000 of CuPy's own tests, and with each run more
  tests/peers/run.py --suite traces-programs traces-kills   the traces of CuPy, nvcc and torch, and under kills
  tests/peers/run.py --suite fresh           Numba, CuPy, Triton, torch as their manuals install them, not pinned
  tests/peers/run.py --tinygrad ~/tinygrad   with tinygrad's backend tests, from a checkout
  tests/peers/run.py --suite triton-own --triton ~/triton   Triton's own tests, from a checkout

The clients come from PyPI, pinned by version and hash, into target/tools/peers-<hash>: for CPython
3.11 on Linux x86-64; only the suite `fresh` takes what pip resolves today. What cannot be had is
skipped, and said. docs/evidence/peers.md has results, and of each expected failure the reason. Exit
status: 0 as expected, 1 a suite failed, 2 wrong usage.
"""

import argparse
import dataclasses
import json
import pathlib
import shutil
import signal
import sys
import tempfile

sys.dont_write_bytecode = True
from harness import outcome, suites, wheels  # noqa: E402
from harness.cluster import Cluster  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, usage="%(prog)s [options]",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fast", action="store_true", help="the fast part")
    parser.add_argument("--suite", nargs="+", choices=list(suites.SUITES), metavar="NAME",
                        help=f"only these of {', '.join(suites.SUITES)}")
    parser.add_argument("--tinygrad", type=pathlib.Path, metavar="CHECKOUT",
                        help="a checkout of tinygrad's repository, for its test/backend")
    parser.add_argument("--triton", type=pathlib.Path, metavar="CHECKOUT",
                        help="a checkout of Triton's repository, for its tests of the language")
    parser.add_argument("--torch-python", type=pathlib.Path, metavar="PATH",
                        help="the interpreter of an environment that has what torch-requirements.txt names "
                             "already (5.6 GB)")
    for name in ("warp", "jax"):
        parser.add_argument(f"--{name}-python", type=pathlib.Path, metavar="PATH",
                            help=f"the interpreter of an environment that has what {name}-requirements.txt "
                                 "names already")
    parser.add_argument("--jobs", type=int, default=2, help="processes of a large suite (2)")
    parser.add_argument("--sample", metavar="N", type=_sample,
                        help="tests of CuPy's suite (5000), or of Triton's own (all): a number, or all")
    parser.add_argument("--seed", type=int, help="what draws them (a fresh one, which is printed)")
    parser.add_argument("--resume", type=pathlib.Path, nargs="?", metavar="DIR",
                        const=ROOT / "target/peers-cupy",
                        help="keeps what was drawn and its results there (target/peers-cupy), and "
                             "goes on from them: first with what was cut, then with the next ones")
    parser.add_argument("--again", action="store_true",
                        help="with --resume: those that failed, once more")
    parser.add_argument("--minutes", type=float, help="ends CuPy's suite then; --resume goes on")
    parser.add_argument("--json", action="store_true", help="one JSON object a suite, no table")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR",
                        help="where JUnit files and logs stay (default: a temporary folder)")
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "target/release/warploom",
                        help="warploom, with libwarploom_cuda.so beside it (target/release)")
    parser.add_argument("--tools", type=pathlib.Path, default=ROOT / "target/tools",
                        help="where the clients are installed (target/tools)")
    parser.add_argument("--where", action="store_true",
                        help="the interpreter of the installed clients; installs nothing")
    given = parser.parse_args()
    given.binary, given.tools = given.binary.resolve(), given.tools.resolve()
    given.resume = given.resume and given.resume.resolve()
    given.tinygrad = given.tinygrad and given.tinygrad.resolve()
    given.triton = given.triton and given.triton.resolve()
    # Not resolved: an environment's interpreter is a link, and says by its place which environment it is.
    for name in ("torch_python", "warp_python", "jax_python"):
        python = getattr(given, name)
        setattr(given, name, python and python.absolute())
    if not given.where and not given.binary.is_file():
        parser.error(f"{given.binary} is missing: cargo build --release, or --binary")
    if given.tinygrad and not (given.tinygrad / "test/backend").is_dir():
        parser.error(f"{given.tinygrad} has no test/backend")
    if given.triton and not (given.triton / "python/test/unit/language").is_dir():
        parser.error(f"{given.triton} has no python/test/unit/language")
    return given


def _sample(text):
    if text != "all" and not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is neither a number nor all")
    return text


def run(options, keep):
    """Runs the suites; yields what came of each."""
    every = [name for name in suites.SUITES if name not in suites.ASKED]
    names = options.suite or (suites.FAST if options.fast else every)
    if left := [name for name in suites.ASKED if name not in names]:
        print(f"peers: left out, for they install much: {', '.join(left)} "
              "(--suite runs them)", file=sys.stderr)
    # Programs for two devices need two workers.
    with Cluster(options.binary, keep / "cluster", 2 if "nvcc" in names else 1) as cluster:
        stage = suites.Stage(cluster, options, keep)
        for name in names:
            print(f"peers: {name} ...", file=sys.stderr, flush=True)
            row = suites.run(stage, name)
            rate = f", {row.rate:.1%}" if row.rate is not None else ""
            print(f"peers: {name}: {row.state}{rate}, {row.seconds:.0f} s", file=sys.stderr)
            for note in row.notes:
                print(f"peers:   {note}", file=sys.stderr, flush=True)
            yield row


def main():
    options = arguments()
    # What is asked to end ends its cluster and its programs first, as with Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if options.where:
        try:
            print(wheels.environment(options.tools, "requirements.txt", install=False))
        except wheels.Missing as missing:
            sys.exit(f"peers: {missing}")
        return 0
    keep = options.keep or pathlib.Path(tempfile.mkdtemp(prefix="peers-"))
    keep.mkdir(parents=True, exist_ok=True)
    rows = []
    for row in run(options, keep.resolve()):
        rows.append(row)
        if options.json:
            print(json.dumps({**dataclasses.asdict(row), "rate": row.rate}), flush=True)
    if not options.json:
        print("\n".join(outcome.table(rows)))
    failed = any(row.state == "FAILED" for row in rows)
    if failed or options.keep:
        print(f"peers: JUnit files and logs are in {keep}", file=sys.stderr)
    else:
        shutil.rmtree(keep, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
