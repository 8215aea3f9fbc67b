"""Programs of nvcc, as machine code, and of CUDA's Python libraries: those that pass natively, and as a tenant."""

import concurrent.futures
import os
import shlex
import shutil
import subprocess
import sys

CLUSTERS = True
LIMIT_S = 30
#: In a rehearsal these run in place of nvcc's: PTX instead of machine code.
STAND_INS = {"steady": ("--until-steps", 3, "--scale", 0.02), "micro": ("waits", 0.02),
             "culprit": ("assert", "--scale", 0.02), "hog": ("--bytes", 1 << 20, "--turns", 1)}


def run(step):
    """Runs each suite natively with several processes, then as a tenant one by one."""
    for row, found in (("nvcc_passed", _nvcc), ("clients_passed", _clients)):
        if step.wants(row):
            programs, why = found(step)
            if why:
                for mode in step.modes_of(row):
                    step.tell(row, mode, reason=why)
            else:
                _suite(step, row, programs)


def _suite(step, row, programs):
    """Counts programs that pass; a kernel's fault may end all on the GPU, so tenants run one after another."""
    native = step.place("native")
    with concurrent.futures.ThreadPoolExecutor(_threads(step)) as pool:
        ran = dict(zip(programs, pool.map(lambda it: native.run(programs[it], _limit(step)), programs)))
    passes = [name for name in programs if ran[name].code == 0]
    for mode in step.modes_of(row):
        failed = {}
        for name in passes:
            step.joined(mode).serves(min(20, max(step.left() - 1, 0.1)))
            if why := step.place(mode).run(programs[name], _limit(step)).failed:
                failed[name] = why
        for name, why in failed.items():
            step.note(f"{name}: {why}")
        step.tell(row, mode, [float(len(passes) - len(failed))], [float(len(passes))],
                  config=f"failed: {', '.join(failed) or 'none'}; {len(programs) - len(passes)} fail natively or are "
                         f"skipped")


def _limit(step):
    return max(min(LIMIT_S, step.left() - 1), 0.1)


def _threads(step):
    return 2 if step.rehearsal else min(16, os.cpu_count() or 1)


def _nvcc(step):
    """The programs of tests/peers/nvcc as machine code of this GPU."""
    if step.rehearsal:
        return {name: [step.program(name), *words] for name, words in STAND_INS.items()}, None
    if not shutil.which("nvcc"):
        return {}, "no nvcc"
    sources = [it for it in sorted((step.kit / "tests/peers/nvcc").glob("*.cu")) if ".part." not in it.name]
    sources = [it for it in sources if not flags(it, "run")]
    folder = step.work / step.plan.step
    with concurrent.futures.ThreadPoolExecutor(_threads(step)) as pool:
        made = dict(zip(sources, pool.map(lambda it: _compiled(it, folder), sources)))
    for source, why in made.items():
        if why:
            step.note(f"nvcc {source.name}: {why}")
    return {it.stem: [folder / it.stem] for it, why in made.items() if not why}, None


def flags(source, which):
    """What the first lines of a program say after `// nvcc:`, `// lib:` or `// run:`."""
    lines = source.read_text().splitlines()[:5]
    found = (it.split(":", 1)[1] for it in lines if it.startswith(f"// {which}:"))
    return shlex.split(next(found, ""))


def _compiled(source, folder):
    """Compiles a program, and the library that it names; what went wrong, or None."""
    library = flags(source, "lib")
    archive = [folder / f"lib{source.stem}.a"] if library else []
    commands = [["-rdc=true", "-lib", "-arch=native", "-o", *archive, *library]] if library else []
    commands.append(["-arch=native", "-o", folder / source.stem, source.name, *flags(source, "nvcc"), *archive])
    for words in commands:
        made = subprocess.run(["nvcc", *map(str, words)], cwd=source.parent, capture_output=True, text=True,
                              check=False, timeout=120)
        if made.returncode:
            return (made.stderr.strip().splitlines() or ["no message"])[-1]
    return None


def _clients(step):
    """The programs of tests/gpu/programs."""
    scripts = sorted((step.kit / "tests/gpu/programs").glob("*.py"))
    return {it.stem: [sys.executable, "-B", it] for it in scripts}, None
