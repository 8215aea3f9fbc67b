#!/usr/bin/env python3
"""Measures Warploom on the GPU of this host, against the same host without Warploom, in three phases.

    tests/gpu/session.py --phase 1 --until 510 --out results --kit target/gpu-kit.tar.xz
    tests/gpu/session.py --phase 1 --until 510 --out again --kit FILE --have results/results.jsonl
    tests/gpu/session.py --rehearse --json        # all phases without a GPU, scaled down

Each row is in results.jsonl, on the disk, before the next one is measured; a run that was cut off goes on
with --have. `tests/gpu/rows.json` lists the rows, `tests/gpu/README.md` says how they are measured.
"""

import argparse
import importlib
import json
import os
import pathlib
import shlex
import signal
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

from gpukit import archive, conductor, rehearsal, results, step  # noqa: E402

DEFAULT_KIT = HERE.parents[1] / "target/gpu-kit.tar.xz"


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--phase", type=int, choices=(1, 2, 3), nargs="+", help="the phases to run, in order")
    parser.add_argument("--until", type=float, default=510, metavar="SECONDS",
                        help="the session ends by itself after so long (default: 510)")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="results.jsonl, summary.md and logs")
    parser.add_argument("--kit", type=pathlib.Path, default=DEFAULT_KIT, metavar="FILE",
                        help="what tests/gpu/kit.py packed (default: target/gpu-kit.tar.xz)")
    parser.add_argument("--have", type=pathlib.Path, nargs="+", default=[], metavar="FILE",
                        help="results of earlier runs: their rows are not measured again")
    parser.add_argument("--only", nargs="+", default=[], metavar="STEP", help="these steps only")
    parser.add_argument("--rehearse", action="store_true",
                        help="all phases without a GPU: the CPU worker, and a second cluster as the native baseline")
    parser.add_argument("--json", action="store_true", help="with --rehearse: one object for each figure")
    parser.add_argument("--as-rehearsal", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--child", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.child and not options.rehearse:
        if not options.phase or not options.out:
            parser.error("--phase and --out are needed, or --rehearse")
        for path in (options.kit, *options.have):
            if not path.is_file():
                parser.error(f"{path} is no file; tests/gpu/kit.py packs a kit")
    return options


def child(path):
    """Runs one step; its rows go to stdout."""
    conductor.watch_parent()
    plan = step.Plan.read(path)
    hands = step.Step(plan, told=os.fdopen(os.dup(1), "w"))
    # What a library prints is no row.
    os.dup2(2, 1)
    importlib.import_module(f"gpukit.steps.{plan.step}").run(hands)
    return 0


def interrupted(*_):
    """Turns SIGTERM into an end that stops what runs."""
    raise KeyboardInterrupt


def session(options):
    """Runs phases; exit code 1 if rows are missing."""
    signal.signal(signal.SIGTERM, interrupted)
    command = shlex.join([pathlib.Path(sys.argv[0]).name, *sys.argv[1:]])
    had = [it for path in options.have for it in results.read(path)]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpu-kit-") as folder:
        kit, digest = archive.unpack(options.kit, pathlib.Path(folder) / "kit")
        run = conductor.Conductor(kit, options.out, options.until - (time.monotonic() - began), had,
                                  options.as_rehearsal, f"{command}; kit {digest[:12]}")
        try:
            missing = run.run(options.phase, options.only)
        except KeyboardInterrupt:
            run.note("interrupted")
            missing = ["interrupted"]
        finally:
            run.stop()
    if run.overrun:
        print(f"steps beyond their budget: {', '.join(run.overrun)}", file=sys.stderr)
    (options.out / "overrun.json").write_text(json.dumps(run.overrun))
    return 1 if missing else 0


def main():
    """Runs what the command line asks for."""
    options = arguments()
    if options.child:
        return child(options.child)
    if options.rehearse:
        return rehearsal.main(options)
    return session(options)


if __name__ == "__main__":
    sys.exit(main())
