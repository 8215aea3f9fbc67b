"""Programs of CUDA C++, compiled by nvcc from its wheels as people compile theirs."""

import os
import pathlib
import shlex
import subprocess

from . import outcome, wheels
from .runtimes import ON

SOURCES = pathlib.Path(__file__).resolve().parents[1] / "nvcc"
EXPECTED = SOURCES.parent / "expected" / "nvcc.txt"


def nvcc(stage, row):
    """Every program of tests/peers/nvcc, with default flags and what its first lines name."""
    toolkit = wheels.toolkit(stage.options.tools)
    reasons = outcome.expected(EXPECTED)
    row.bound = 0.85
    for source in sorted(SOURCES.glob("*.cu")):
        if ".part." in source.name:
            continue
        said = _compiled(toolkit, source, stage.keep) or _ran(stage, source)
        if said is None:
            row.passed += 1
            continue
        row.failed += 1
        row.failures[source.stem] = reasons.get(source.stem)
        if source.stem not in reasons:
            row.fail(f"{source.stem}: {said}")
        elif stage.options.keep:
            row.notes.append(f"{source.stem}: {said}")


def _flags(source, which):
    """What the program's first lines say after `// nvcc:` or `// run:`."""
    lines = source.read_text().splitlines()[:5]
    found = (line.split(":", 1)[1] for line in lines if line.startswith(f"// {which}:"))
    return shlex.split(next(found, ""))


def _compiled(toolkit, source, keep):
    """Compiles a program, and the library that it names; what went wrong, or nothing."""
    environment = {**os.environ, "PATH": f"{toolkit / 'bin'}:{os.environ['PATH']}"}
    commands, library = [], _flags(source, "lib")
    archive = [keep / f"lib{source.stem}.a"] if library else []
    if library:
        commands.append(["-rdc=true", "-lib", "-o", *archive, *library])
    commands.append(["-o", keep / source.stem, source.name, *_flags(source, "nvcc"), *archive,
                     "-L", toolkit / "lib"])
    for command in commands:
        made = subprocess.run([toolkit / "bin/nvcc", *command], cwd=source.parent, env=environment,
                              capture_output=True, text=True, check=False)
        if made.returncode:
            return f"nvcc: {made.stderr.strip().splitlines()[-1:]}"
    return None


def _ran(stage, source):
    ran = stage.cluster.run([stage.keep / source.stem], 30, variables=ON,
                            arguments=_flags(source, "run"))
    if ran.failed is None and ran.out.strip().endswith(f"{source.stem}: well"):
        return None
    return ran.failed or f"it said {ran.out.strip().splitlines()[-1:]}"
