#!/usr/bin/env python3
"""Runs every job of `jobs.json` once, tiny, on PyTorch's and JAX's CPU builds: a test on request.

    PYTHON tests/gpu/servers/check.py [--server torch] [--only NAME ...]

The interpreter needs what requirements.txt beside this file names.
"""

import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
#: What each job is asked; two digests must be the same, and a reason is no digest.
ASKED = ({"do": "run", "seconds": 0.05, "least": 2}, {"do": "steps", "count": 2},
         {"do": "requests", "rate": 50, "seconds": 0.1, "seed": 1}, {"do": "digest"}, {"do": "digest"})
#: A server that knows no job, or gets nonsense, goes on.
WRONG = ('{"do": "prepare", "jobs": ["none"]}', '{"do": "steps", "count": 1}', "nonsense", "[]",
         '{"do": "fly"}')


def arguments():
    """The command line."""
    whole = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=whole)
    parser.add_argument("--server", choices=("torch", "jax"), nargs="+", default=["torch", "jax"])
    parser.add_argument("--only", nargs="+", help="these jobs only")
    return parser.parse_args()


def asked(which, lines):
    """The answers of a new server to lines."""
    program = [sys.executable, "-B", HERE / f"{which}_server.py", "--device", "cpu", "--tiny"]
    ran = subprocess.run(program, input="".join(it + "\n" for it in lines), stdout=subprocess.PIPE, text=True,
                         check=False, timeout=900)
    return [json.loads(it) for it in ran.stdout.splitlines()]


def wrong_of(which, names):
    """What is wrong with a server's jobs, a line each."""
    told = asked(which, [*WRONG, *(json.dumps(it) for name in names
                                   for it in ({"do": "prepare", "jobs": [name]}, *ASKED)),
                         json.dumps({"do": "facts"})])
    if len(told) != len(WRONG) + (1 + len(ASKED)) * len(names) + 1:
        return [f"{which}: {len(told)} answers only, the last one is {told[-1:]}"]
    bad = [f"{which}: {line} was served" for line, it in zip(WRONG, told) if it["ok"]]
    for place, name in enumerate(names):
        begin = len(WRONG) + place * (1 + len(ASKED))
        mine = told[begin:begin + 1 + len(ASKED)]
        reasons = [it["reason"] for it in mine if it.get("reason")]
        if not reasons and mine[-1]["digest"] != mine[-2]["digest"]:
            reasons = ["two digests"]
        print(f"{which:6} {name:22} {'; '.join(reasons) or mine[-1]['digest'][:16]}", flush=True)
        bad += [f"{name}: {it}" for it in reasons]
    print(f"{which:6} {told[-1]}")
    return bad


def together(names):
    """What is wrong with jobs that run at once as threads of one server."""
    told = asked("torch", [json.dumps(it) for it in ({"do": "prepare", "jobs": names}, *ASKED[:3])])
    right = len(told) == 4 and all(it["ok"] for it in told) and len(told[1]["steps"]) == len(names)
    return [] if right else [f"{names} at once: {told}"]


def main():
    """Exit code 1 if a job fails or has two digests."""
    options = arguments()
    jobs = json.loads((HERE / "jobs.json").read_text())
    bad = []
    for which in options.server:
        names = [it["name"] for it in jobs
                 if it["server"] == which and (not options.only or it["name"] in options.only)]
        bad += wrong_of(which, names) if names else []
    if "torch" in options.server and not options.only:
        bad += together(["middle", "launch", "decode"])
    for it in bad:
        print(it, file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
