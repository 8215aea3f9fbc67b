"""`warploom conform` on NVIDIA's own driver, and on Warploom's by way of a cluster: the checks that each fails."""

import concurrent.futures
import json
import time

CLUSTERS = True

#: The areas of ops/conform, in their order. Each is a run of its own: one that is lost costs no other.
AREAS = ("uninitialised", "no-context", "nulls", "handles", "values", "optional", "devices", "contexts", "memory",
         "pointers", "copies", "modules", "functions", "launches", "old-launches", "streams", "captures", "events",
         "graphs", "virtual-memory", "pools", "arrays", "textures", "printing", "forks", "numerics")
#: In a rehearsal a CPU worker answers, of a second cluster in place of NVIDIA's driver, and these are enough.
REHEARSED = ("devices", "streams", "events")
#: The driver that the loader finds: NVIDIA's, or Warploom's under `warploom run`.
LIBRARY = "libcuda.so.1"
#: Lists the checks that Warploom's driver is known to fail.
PAGE = "docs/reference/conformance.md"
ROWS = ("conform_checks", "conform_failures")
AT_ONCE = 4


def run(step):
    """Runs the areas natively, then as a tenant; all that a mode told is in a file beside the rows."""
    documented, told = deviations(step.kit), {}
    modes = ["native", *step.ours()]
    differing = step.modes_of("conform_differences")
    for at, mode in enumerate(modes):
        compared = mode in differing or mode == "native" and differing
        if not compared and not any(step.wants(it, mode) for it in ROWS):
            continue
        until = time.monotonic() + (step.left() - 2) / (len(modes) - at)
        told[mode] = _suite(step, mode, until)
        lines = "".join(f"{json.dumps(it)}\n" for it in told[mode])
        (step.out / f"conform-{mode}.jsonl").write_text(lines)
        _tell(step, mode, told[mode], set() if mode == "native" else documented)
    for mode in differing:
        _compare(step, mode, told["native"], told[mode])


def deviations(kit):
    """The checks that the page documents as deviations of Warploom's driver."""
    lines = (kit / PAGE).read_text().splitlines()
    return {it.split("|")[1].strip() for it in lines if it.startswith("| cu")}


def _suite(step, mode, until):
    """The results of all areas in a mode, in their order."""
    areas = REHEARSED if step.rehearsal else AREAS
    with concurrent.futures.ThreadPoolExecutor(2 if step.rehearsal else AT_ONCE) as pool:
        parts = pool.map(lambda it: _area(step, mode, it, until), areas)
        return [it for part in parts for it in part]


def _area(step, mode, area, until):
    """The results of an area; one more, of the verdict `lost`, if it did not come to its end."""
    ran = step.place(mode).run([step.binary, "conform", "--only", area, "--libcuda", LIBRARY, "--json"],
                               until - time.monotonic())
    results = [it for it in map(_object, ran.out.splitlines()) if "verdict" in it]
    # Exit code 1 with results says that some failed.
    if results and ran.code in (0, 1):
        return results
    why = ran.failed or "it told no results"
    return [*results, {"area": area, "function": area, "check": "the area is run", "verdict": "lost", "saw": why}]


def _object(line):
    try:
        told = json.loads(line)
    except json.JSONDecodeError:
        return {}
    return told if isinstance(told, dict) else {}


def _name(result):
    return f"{result['function']}: {result['check']}"


def _tell(step, mode, results, documented):
    """Tells how many checks were made and how many fail: their names with the row, what they saw in the log."""
    lost = [it for it in results if it["verdict"] == "lost"]
    made = len(results) - len(lost)
    failed = [it for it in results if it["verdict"] in ("failed", "lost")]
    known = [it for it in failed if _name(it) in documented]
    failed = [it for it in failed if it not in known]
    for it in failed:
        step.note(f"{mode}: {_name(it)}: {it.get('saw', '')}")
    lacking = sorted({it["function"] for it in results if it["verdict"] == "absent"})
    reason = None if made else f"no area told results: {lost[0]['saw']}"
    if step.wants("conform_checks", mode):
        step.tell("conform_checks", mode, [float(made)], reason=reason,
                  config=f"the driver lacks: {', '.join(lacking) or 'none'}")
    if step.wants("conform_failures", mode):
        names = "; ".join(map(_name, failed)) or "none"
        step.tell("conform_failures", mode, [float(len(failed))], reason=reason,
                  config=f"failed: {names}" + (f". Documented: {'; '.join(map(_name, known))}" if known else ""))


def _compare(step, mode, native, ours):
    """Tells on how many checks two drivers differ. What NVIDIA's driver is too old for is no difference."""
    lost = {it["area"] for it in (*native, *ours) if it["verdict"] == "lost"}
    one, two = ({(it["area"], _name(it)): it["verdict"] for it in told if it["verdict"] != "lost"}
                for told in (native, ours))
    differing = []
    for key in dict.fromkeys([*one, *two]):
        verdicts = one.get(key, "not told"), two.get(key, "not told")
        if verdicts[0] not in (verdicts[1], "absent") and not (key[0] in lost and "not told" in verdicts):
            differing.append(f"{key[1]} ({verdicts[0]} natively, {verdicts[1]} as a tenant)")
    beside = f"not compared in full: {', '.join(sorted(lost))}. " if lost else ""
    step.tell("conform_differences", mode, [float(len(differing))], config=beside + "; ".join(differing),
              reason=None if one and two else "no area told results of both drivers")
