#!/usr/bin/env python3
"""Runs every job of `jobs.json` once, tiny, on PyTorch's and JAX's CPU builds: a test on request.

    PYTHON tests/gpu/servers/check.py        an interpreter that has torch, torchvision, transformers, timm, jax
"""

import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def main():
    """Prepares, runs and digests each job; exit code 1 if one fails or has two digests."""
    jobs = json.loads((HERE / "jobs.json").read_text())
    bad = 0
    for which in ("torch", "jax"):
        names = [it["name"] for it in jobs if it["server"] == which]
        asked = [line for name in names for line in (
            {"do": "prepare", "jobs": [name]}, {"do": "run", "seconds": 0.05}, {"do": "steps", "count": 2},
            {"do": "requests", "rate": 50, "seconds": 0.1, "seed": 1}, {"do": "digest"}, {"do": "digest"})]
        ran = subprocess.run([sys.executable, "-B", HERE / f"{which}_server.py", "--device", "cpu", "--tiny"],
                             input="".join(json.dumps(it) + "\n" for it in asked), stdout=subprocess.PIPE,
                             text=True, check=False)
        told = [json.loads(it) for it in ran.stdout.splitlines()]
        for place, name in enumerate(names):
            mine = told[6 * place:6 * place + 6]
            reasons = [it.get("reason") for it in mine if not it["ok"]]
            right = len(mine) == 6 and not reasons and mine[4]["digest"] == mine[5]["digest"]
            bad += not right
            print(f"{which:6} {name:20} {'right' if right else 'wrong'}  {reasons[:1] or mine[4:]}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
