"""The two recordings: what the driver's calls cost, and what the driver answers. Native, without a cluster of ours."""

import json
import time

import recordings

from ..processes import Ended

# A rehearsal has no other driver than that of a cluster.
CLUSTERS = True


def run(step):
    """Writes costs.json and driver.json into the session's folder; a developer commits them."""
    native, program = step.place("native"), step.program("probe")
    head = (step.card.name, step.card.driver, time.strftime("%Y-%m-%d", time.gmtime()))
    if step.wants("costs_measured", "native"):
        ran = native.run([program, "--scale", step.scale], min(40, step.left() - 1))
        made = recordings.costs_from(ran.out.splitlines(), *head)
        recorded = recordings.entries(recordings.costs())
        lacking = sorted(set(recorded) - set(recordings.entries(made)))
        if not lacking:
            (step.out / "costs.json").write_text(recordings.text(made))
        missing = ", ".join(" ".join(it) for it in lacking)[:200]
        step.tell("costs_measured", "native", [float(len(made["calls"]))], config=recordings.resting(made),
                  reason=f"{ran.failed or 'lines are missing'}: {missing}" if lacking else None)
    if any(step.wants(it, "native") for it in ("driver_entries", "driver_differences")):
        try:
            made = recordings.driver_from(_object(native.run([program, "driver"], min(20, step.left() - 1))), *head)
        except Ended as why:
            return step.rest(why)
        (step.out / "driver.json").write_text(recordings.text(made))
        recorded = recordings.driver()
        other = recordings.differences(recorded, made)
        for it in other if not step.rehearsal else ():
            step.note(f"{' '.join(it['key'])}: recorded {it['recorded']}, measured {it['measured']}")
        if step.wants("driver_entries", "native"):
            step.tell("driver_entries", "native", [float(len(recordings.entries(made)))])
        if step.wants("driver_differences", "native"):
            step.tell("driver_differences", "native", [float(len(other))], config=recordings.resting(recorded))


def _object(ran):
    if ran.failed:
        raise Ended(ran.failed)
    try:
        return json.loads(ran.out.strip().splitlines()[-1])
    except (IndexError, json.JSONDecodeError):
        raise Ended("the program told no object") from None
