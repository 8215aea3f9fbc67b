#!/usr/bin/env python3
"""A job server of PyTorch: the jobs of `jobs.json` whose server is `torch`. `protocol.py` says what it does.

    torch_server.py                         serves requests, a JSON line each, until the end of stdin
    torch_server.py --list                  its jobs
    torch_server.py --device cpu --tiny     tiny shapes on PyTorch's CPU build: a test of the scripts
"""

import argparse
import importlib
import json
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from protocol import Server  # noqa: E402

#: Nothing is downloaded; few processes compile for a host that has other tenants.
VARIABLES = {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error",
             "TORCHINDUCTOR_COMPILE_THREADS": "8"}


def main():
    """Serves until the end of stdin."""
    whole = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=whole)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="tiny shapes")
    parser.add_argument("--list", action="store_true", help="prints the jobs, a JSON line each")
    options = parser.parse_args()
    if options.list:
        for it in json.loads((HERE / "jobs.json").read_text()):
            if it["server"] == "torch":
                print(json.dumps(it))
        return
    for name, value in VARIABLES.items():
        os.environ.setdefault(name, value)
    # The server takes the answers' pipe before PyTorch is imported: what that prints is no answer.
    server = Server(lambda name: jobs.Torch(options, name), lambda: jobs.facts(options))
    jobs = importlib.import_module("torch_jobs")
    server.serve()


if __name__ == "__main__":
    main()
