#!/usr/bin/env python3
"""Runs cases one after the other, with the program's interpreter and torch.

  cases.py MODULE [NAME ...]     these of a module's cases, or all
  cases.py --list MODULE         their names

Prints a line of JSON when a case begins, and one when it is done.
"""

import importlib
import json
import sys
import time
import traceback

import head  # noqa: F401
import torch
from torch._dynamo.utils import counters


def run(name, case):
    """One case, from the same state whatever ran before; what came of it."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    counters.clear()
    began = time.monotonic()
    told = {"case": name}
    try:
        told["difference"] = case()
    except Exception as error:  # pylint: disable=broad-except
        told["error"] = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
        traceback.print_exc()
    told["seconds"] = round(time.monotonic() - began, 2)
    kept = counters["inductor"]
    told["compiled"], told["kept"] = kept["fxgraph_cache_miss"], kept["fxgraph_cache_hit"]
    return told


def main():
    listing = sys.argv[1] == "--list"
    module, *names = sys.argv[2:] if listing else sys.argv[1:]
    cases = importlib.import_module(module).CASES
    for name in names or cases:
        if listing:
            print(name)
            continue
        print(json.dumps({"begins": name}), flush=True)
        print(json.dumps(run(name, cases[name])), flush=True)


if __name__ == "__main__":
    main()
