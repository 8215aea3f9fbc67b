#!/usr/bin/env python3
"""The recorded GPU: what its driver's calls cost (costs.json) and what the driver says (driver.json).

    tests/gpu/recordings.py --check                    the files' form; their keys are those of driver/probe.c
    tests/gpu/recordings.py --compare LINES OBJECT     lists what a measurement has otherwise
    tests/gpu/recordings.py --record LINES OBJECT --release 580.159.04 --date 2026-12-01

LINES is what `probe` printed, OBJECT what `probe driver` printed; - stands for none. Each entry says whether it
is an estimate, and where it comes from. estimates.md explains them.
"""

import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
COSTS, DRIVER = HERE / "costs.json", HERE / "driver.json"
#: What `probe driver` tells by number or by name, one value each.
TABLES = ("attributes", "limits", "function_attributes")
SINGLES = ("driver_version", "name", "total_memory")
MEASURED = "driver/probe.c"
#: Two times that differ by less than this factor are the same.
SAME = 1.5


def costs():
    """The recorded costs: gpu, driver, measured, calls, facts."""
    return json.loads(COSTS.read_text())


def driver():
    """The recorded answers of the driver."""
    return json.loads(DRIVER.read_text())


def entries(recording):
    """All entries of a recording: key to entry. A key is a tuple of words."""
    found = {}
    for it in recording.get("calls", []):
        found["call", it["call"], it["config"]] = it
    for it in recording.get("facts", []):
        found["fact", it["fact"], it["unit"]] = it
    for name in SINGLES:
        if name in recording:
            found[name,] = recording[name]
    for table in ("attributes", "limits"):
        for number, it in recording.get(table, {}).items():
            found[table, number] = it
    for kernel, values in recording.get("function_attributes", {}).items():
        for number, it in values.items():
            found["function_attributes", kernel, number] = it
    for it in recording.get("occupancies", []):
        found["occupancy", it["kernel"], str(it["block"]), str(it["dynamic"])] = it
    for it in recording.get("errors", []):
        found["error", it["call"]] = it
    return found


def estimated(recording):
    """The keys of entries that are estimates."""
    return [key for key, it in entries(recording).items() if it["estimated"]]


def resting(recording):
    """A note for results that rest on a recording: empty once every entry was measured."""
    guesses, count = len(estimated(recording)), len(entries(recording))
    return f"rests on estimates: {guesses} of {count} entries" if guesses else ""


# --- from a measurement


def _head(gpu, release, date):
    return {"gpu": gpu, "driver": release, "measured": date or datetime.date.today().isoformat()}


def _kept(key, measured, before):
    """The measured entry; where the driver refused it, the entry that was there before."""
    why = measured.pop("reason", None)
    if why is None or key not in before:
        return {**measured, "estimated": False, "source": MEASURED if why is None else f"{MEASURED}: {why}"}
    source = before[key]["source"].split("; not measured")[0]
    return {**before[key], "source": f"{source}; not measured: {why}"}


def costs_from(lines, gpu=None, release=None, date=None, before=None):
    """Costs in the committed form from the lines of `probe`: text, or a list of text or of objects.

    What the driver refused keeps the entry of the recording `before`, which is the committed one by default.
    """
    before = costs() if before is None else before
    known = entries(before)
    made = {**_head(gpu or before["gpu"], release, date), "calls": [], "facts": []}
    for line in lines.splitlines() if isinstance(lines, str) else lines:
        if isinstance(line, str) and not line.startswith("{"):
            continue
        it = json.loads(line) if isinstance(line, str) else dict(line)
        if "call" in it:
            made["calls"].append(_kept(("call", it["call"], it["config"]), it, known))
        elif "fact" in it:
            made["facts"].append(_kept(("fact", it["fact"], it["unit"]), it, known))
    return made


def driver_from(told, gpu=None, release=None, date=None):
    """The driver's answers in the committed form from the object of `probe driver`: text, or the object."""
    told = json.loads(told) if isinstance(told, str) else told
    mark = {"estimated": False, "source": MEASURED}
    made = _head(gpu or told["name"], release, date)
    for name in SINGLES:
        made[name] = {"value": told[name], **mark}
    for table in ("attributes", "limits"):
        made[table] = {number: {"value": it, **mark} for number, it in told[table].items()}
    made["function_attributes"] = {kernel: {number: {"value": it, **mark} for number, it in values.items()}
                                   for kernel, values in told["function_attributes"].items()}
    for name in ("occupancies", "errors"):
        made[name] = [{**it, **mark} for it in told[name]]
    return made


def _value(entry):
    return {name: it for name, it in entry.items() if name not in ("estimated", "source", "name")}


def _differs(ours, theirs):
    """Whether two entries differ: times by more than a factor, everything else at all."""
    for name in ours.keys() | theirs.keys():
        one, two = ours.get(name), theirs.get(name)
        if name in ("ns", "beside_ns") or (name == "value" and ours.get("unit") not in (None, "bool")):
            if (one is None) != (two is None):
                return True
            if one is not None and one != two and not (one > 0 < two and 1 / SAME < one / two < SAME):
                return True
        elif name != "beside_max_ns" and one != two:
            return True
    return False


def differences(recorded, measured):
    """What a measurement has otherwise: [{"key", "recorded", "measured"}]; None where one lacks the key."""
    ours, theirs = entries(recorded), entries(measured)
    found = []
    for key in [*ours, *(it for it in theirs if it not in ours)]:
        one = _value(ours[key]) if key in ours else None
        two = _value(theirs[key]) if key in theirs else None
        if one is None or two is None or _differs(one, two):
            found.append({"key": list(key), "recorded": one, "measured": two})
    return found


# --- the committed form: one entry a line


def text(recording):
    """The recording as JSON with one entry a line."""
    parts = []
    for name, it in recording.items():
        if isinstance(it, list):
            body = ",\n".join(f"  {json.dumps(entry)}" for entry in it)
            parts.append(f' "{name}": [\n{body}\n ]')
        elif name in TABLES:
            body = ",\n".join(f'  "{key}": {json.dumps(entry)}' for key, entry in it.items())
            parts.append(f' "{name}": {{\n{body}\n }}')
        else:
            parts.append(f' "{name}": {json.dumps(it)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


# --- the check


def listed(probe=None):
    """The keys that `probe` tells. Builds it with gcc if none is given."""
    with tempfile.TemporaryDirectory(prefix="probe-") as folder:
        if probe is None:
            probe = pathlib.Path(folder) / "probe"
            source = HERE / "driver/probe.c"
            subprocess.run(["gcc", "-O1", "-std=gnu11", f"-I{source.parent}", "-o", probe, source, "-ldl",
                            "-lm", "-lpthread"], check=True)
        told = subprocess.run([probe, "--list"], check=True, stdout=subprocess.PIPE, text=True).stdout
    keys = set()
    for it in map(json.loads, told.splitlines()):
        if "call" in it:
            keys.add(("call", it["call"], it["config"]))
        elif "fact" in it:
            keys.add(("fact", it["fact"], it["unit"]))
        elif "kernel" in it:
            keys.add(("occupancy", it["kernel"], str(it["block"]), str(it["dynamic"])))
        else:
            keys.add(("error", it["error"]))
    return keys


def wrong(probe=None):
    """What is wrong with the committed files: lines of text."""
    found, keys = [], set()
    for path, recording in ((COSTS, costs()), (DRIVER, driver())):
        ours = entries(recording)
        keys |= ours.keys()
        count = sum(len(it) for it in recording.values() if isinstance(it, list))
        if count != sum(key[0] in ("call", "fact", "occupancy", "error") for key in ours):
            found.append(f"{path.name}: two entries have the same key")
        for key, it in ours.items():
            if not isinstance(it.get("estimated"), bool) or not it.get("source"):
                found.append(f"{path.name}: {' '.join(key)}: no source, or not said if it is an estimate")
        if not recording["measured"] and any(not it["estimated"] for it in ours.values()):
            found.append(f"{path.name}: a measured entry, but no date")
        if path.read_text() != text(recording):
            found.append(f"{path.name}: not in the form that recordings.py writes")
    told = listed(probe)
    fixed = {it for it in keys if it[0] in ("call", "fact", "occupancy", "error")}
    found += [f"{' '.join(it)}: the probe does not tell it" for it in sorted(fixed - told)]
    found += [f"{' '.join(it)}: not recorded" for it in sorted(told - fixed)]
    return found


def _read(path):
    return None if str(path) == "-" else path.read_text()


def main():
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="check the committed files")
    what.add_argument("--compare", nargs=2, type=pathlib.Path, metavar=("LINES", "OBJECT"))
    what.add_argument("--record", nargs=2, type=pathlib.Path, metavar=("LINES", "OBJECT"))
    parser.add_argument("--probe", type=pathlib.Path, help="with --check: a probe that was built before")
    parser.add_argument("--gpu", help="the GPU that LINES came from")
    parser.add_argument("--release", help="the release of its driver")
    parser.add_argument("--date", help="the day of the measurement (default: today)")
    options = parser.parse_args()
    if options.check:
        found = wrong(options.probe)
        print("\n".join(found), file=sys.stderr, end="\n" if found else "")
        guesses = len(estimated(costs())) + len(estimated(driver()))
        print(f"{len(entries(costs())) + len(entries(driver()))} entries, {guesses} of them estimates")
        return 1 if found else 0
    lines, told = map(_read, options.compare or options.record)
    made = []
    if told:
        made.append((DRIVER, driver(), driver_from(told, options.gpu, options.release, options.date)))
    if lines:
        gpu = options.gpu or (made[0][2]["gpu"] if made else None)
        made.append((COSTS, costs(), costs_from(lines, gpu, options.release, options.date)))
    for path, recorded, measured in made:
        if options.record:
            path.write_text(text(measured))
        else:
            for it in differences(recorded, measured):
                print(json.dumps({"file": path.name, **it}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
