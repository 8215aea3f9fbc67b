"""A rehearsal: all phases without a GPU, and a run that is killed in the middle and goes on."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from . import archive, processes, results
from .rows import Rows

#: A session that is killed has told so many rows of phase 1 before.
KILLED_AFTER = 25

#: A whole session of a rehearsal ends by itself after so long.
UNTIL_S = 600


def main(options):
    """Runs the rehearsal; exit code 1 if it shows a fault."""
    begun = time.monotonic()
    if not options.kit.is_file():
        print(f"{options.kit} is no file; tests/gpu/kit.py packs a kit", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="gpu-rehearsal-") as folder:
        folder = options.out or pathlib.Path(folder)
        whole, faults = _whole(options, folder / "whole")
        faults += _resumed(options, folder, whole)
    kit_mib = options.kit.stat().st_size / 2**20
    if kit_mib > archive.LARGEST / 2**20:
        faults.append(f"the kit has {kit_mib:.1f} MiB")
    phases = sorted({it.phase for it in Rows.load().rows})
    missing = Rows.load().missing(whole, ["mps"], phases)
    faults += [f"missing: {it}" for it in missing]
    took = time.monotonic() - begun
    _tell(options, {"kit_mib": (kit_mib, "MiB"), "rehearse_s": (took, "s"),
                    "rehearse_rows_missing": (len(missing), "rows")})
    print(*(f"rehearsal: {it}" for it in faults), f"rehearsal: {len(whole)} rows, {took:.0f} s, "
          f"{len(faults)} faults", sep="\n", file=sys.stderr)
    return 1 if faults else 0


def _tell(options, figures):
    for name, (value, unit) in figures.items():
        if options.json:
            print(json.dumps({"metric": name, "value": value, "unit": unit, "baseline": None,
                              "baseline_value": None, "min": value, "max": value, "reps": 1,
                              "config": "session.py --rehearse"}))
        else:
            print(f"{name:24} {value:8.1f} {unit}")


def _command(options, out, phases, have=()):
    more = ["--have", *map(str, have)] if have else []
    session = pathlib.Path(__file__).resolve().parents[1] / "session.py"
    return [sys.executable, "-B", str(session), "--as-rehearsal", "--phase", *map(str, phases),
            "--until", str(UNTIL_S), "--out", str(out), "--kit", str(options.kit), *more]


def _whole(options, out):
    """A session of all phases: its results, and its faults."""
    phases = sorted({it.phase for it in Rows.load().rows})
    code = subprocess.run(_command(options, out, phases), check=False).returncode
    faults = [f"the session ended with {code}"] if code else []
    overrun = json.loads((out / "overrun.json").read_text()) if (out / "overrun.json").exists() else []
    faults += [f"{it} took longer than its budget" for it in overrun]
    told = results.read(out / "results.jsonl")
    real = {it.name for it in Rows.load().rows if not it.rehearsed}
    faults += [f"{it['metric']} ({it['mode']}) has no value: {it['reason']}" for it in told
               if it["again"] or it["value"] is None and it["metric"] not in real]
    return told, faults


def _resumed(options, folder, whole):
    """Kills a session of phase 1 and goes on with its results; how it differs from the whole one."""
    first, second = folder / "killed", folder / "resumed"
    process = subprocess.Popen(_command(options, first, [1]), start_new_session=True)
    file = first / "results.jsonl"
    until = time.monotonic() + UNTIL_S
    while process.poll() is None and time.monotonic() < until:
        if file.exists() and len(file.read_bytes().splitlines()) >= KILLED_AFTER:
            break
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = [it for it in results.read(file) if results.final(it)]
    code = subprocess.run(_command(options, second, [1], [file]), check=False).returncode
    processes.end_session(process.pid)
    faults = [f"the resumed session ended with {code}"] if code else []
    after = {(it["metric"], it["mode"]): it for it in results.read(second / "results.jsonl")}
    kept = [it for it in before if after.get((it["metric"], it["mode"])) != it]
    faults += [f"the resumed session measured {it['metric']} ({it['mode']}) again" for it in kept]
    lines = (second / "results.jsonl").read_text().splitlines()
    if len(lines) != len(after):
        faults.append(f"the resumed session has {len(lines)} lines for {len(after)} rows")
    for it in whole:
        key = it["metric"], it["mode"]
        if it["phase"] == 1 and (after.get(key, {}).get("value") is None) != (it["value"] is None):
            faults.append(f"the resumed session differs in {key[0]} ({key[1]})")
    if not KILLED_AFTER <= len(before) < len(after):
        faults.append(f"the session was killed after {len(before)} of {len(after)} rows")
    return faults
