"""What a real driver costs and answers, for tests without a GPU: `costs.json` and `driver.json`.

Until a session measures them they hold estimates. Each entry has its source, and `estimated`; what rests on an
estimate says so by `resting`.
"""

import json
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parents[1]
#: The parts of driver.json: each has entries by name, with a value.
PARTS = ("attributes", "limits", "occupancies", "errors")


def costs(path=FOLDER / "costs.json"):
    """The recording of what calls cost."""
    return json.loads(path.read_text())


def driver(path=FOLDER / "driver.json"):
    """The recording of what the driver answers."""
    return json.loads(path.read_text())


def entries(recording):
    """All entries of a recording, by name."""
    if "calls" in recording:
        return {f"{it['call']}, {it['config']}": it for it in recording["calls"]}
    return {f"{part} {name}": it for part in PARTS for name, it in recording[part].items()}


def resting(recording):
    """A note for results that rest on a recording: empty once every entry was measured."""
    all_of = entries(recording)
    estimated = sum(it["estimated"] for it in all_of.values())
    return f"rests on estimates: {estimated} of {len(all_of)} entries" if estimated else ""


def costs_from(lines, gpu, driver_version, date):
    """The recording that lines of `costs calls` make."""
    source = f"measured on {gpu}, driver {driver_version}"
    calls = [{**json.loads(it), "estimated": False, "source": source} for it in lines if it.startswith("{")]
    return {"gpu": gpu, "driver": driver_version, "measured": date, "calls": calls}


def driver_from(told, gpu, driver_version, date):
    """The recording that the object of `costs driver` makes."""
    source = f"measured on {gpu}, driver {driver_version}"

    def entry(value, **more):
        return {"value": value, **more, "estimated": False, "source": source}

    made = {"gpu": gpu, "driver": driver_version, "measured": date}
    for part in PARTS[:3]:
        made[part] = {name: entry(value) for name, value in told[part].items()}
    made["errors"] = {it["call"]: entry(it["code"], name=it["name"]) for it in told["errors"]}
    return made


def differences(recorded, measured):
    """Entries of driver.json that a measurement answers otherwise, by name: both values."""
    before, now = entries(recorded), entries(measured)
    return {name: (it["value"], now[name]["value"] if name in now else None) for name, it in before.items()
            if name not in now or now[name]["value"] != it["value"]}


def text(recording):
    """A recording as it is committed: an entry a line."""
    head = json.dumps({it: recording[it] for it in ("gpu", "driver", "measured")})[1:-1]
    if "calls" in recording:
        body = ",\n".join("  " + json.dumps(it) for it in recording["calls"])
        return f'{{\n {head},\n "calls": [\n{body}\n ]\n}}\n'
    parts = []
    for part in PARTS:
        body = ",\n".join(f"  {json.dumps(name)}: {json.dumps(it)}" for name, it in recording[part].items())
        parts.append(f' "{part}": {{\n{body}\n }}')
    return f"{{\n {head},\n" + ",\n".join(parts) + "\n}\n"
