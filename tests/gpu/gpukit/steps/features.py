"""What libraries for Hopper use, and what programs expect of CUDA: 1 if a program finds it right, 0 if not."""

import concurrent.futures
import json
import os
import shlex
import shutil
import subprocess

CLUSTERS = True
LIMIT_S = 25


def features(kit):
    """The features of `features/features.json`: name, source, definition."""
    return json.loads((kit / "tests/gpu/features/features.json").read_text())


def run(step):
    """Runs each program natively, all at once, then as a tenant, one after another."""
    wanted = [it for it in features(step.kit) if step.wants(f"feature_{it['name']}")]
    programs, failed = _programs(step, wanted)
    native = step.place("native")
    # One program's fault may end others on the GPU only where they share a context: natively they do not.
    with concurrent.futures.ThreadPoolExecutor(2 if step.rehearsal else 8) as pool:
        ran = dict(zip(programs, pool.map(lambda it: native.run(programs[it], _limit(step)), programs)))
    for it in wanted:
        row = f"feature_{it['name']}"
        for mode in step.modes_of(row):
            if it["name"] in failed:
                step.tell(row, mode, reason=failed[it["name"]])
            else:
                _tell(step, row, mode, ran[it["name"]], programs[it["name"]])


def _tell(step, row, mode, native, program):
    if native.skipped:
        return step.tell(row, mode, reason=f"the host cannot: {native.skipped}")
    step.joined(mode).serves(min(20, max(step.left() - 1, 0.1)))
    ours = step.place(mode).run(program, _limit(step))
    step.tell(row, mode, [float(ours.code == 0)], [float(native.code == 0)],
              config=ours.failed or native.failed or (ours.out.strip().splitlines() or [""])[-1][:200])


def _limit(step):
    return max(min(LIMIT_S, step.left() - 1), 0.1)


def _programs(step, wanted):
    """The command of each program by its feature, and why some have none."""
    if step.rehearsal:
        return {it["name"]: [step.program("features"), it["name"]] for it in wanted}, {}
    if not shutil.which("nvcc"):
        return {}, {it["name"]: "no nvcc" for it in wanted}
    folder = step.work / step.plan.step
    with concurrent.futures.ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
        made = dict(zip((it["name"] for it in wanted), pool.map(lambda it: _compiled(step, it, folder), wanted)))
    good = {name: [folder / name] for name, why in made.items() if not why}
    return good, {name: why for name, why in made.items() if why}


def _compiled(step, feature, folder):
    source = step.kit / "tests/gpu/features" / feature["source"]
    first = source.read_text().splitlines()[0]
    more = shlex.split(first.split(":", 1)[1]) if first.startswith("// nvcc:") else []
    arch = [] if any(it.startswith("-arch") for it in more) else ["-arch=native"]
    try:
        made = subprocess.run(["nvcc", "-O2", "-std=c++17", *arch, "-o", folder / feature["name"], source, *more],
                              capture_output=True, text=True, check=False, timeout=90)
    except subprocess.TimeoutExpired:
        return "nvcc took more than 90 s"
    if made.returncode:
        return f"nvcc: {(made.stderr.strip().splitlines() or ['no message'])[-1]}"
    return None
