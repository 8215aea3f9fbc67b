"""The CUDA runtime, every published version of it: a kernel through each, shared and static."""

import pathlib
import subprocess

from . import fatbin, wheels

PROGRAMS = pathlib.Path(__file__).resolve().parents[1] / "programs"

#: What a person says who may use the runtime so.
ON = {"WARPLOOM_CLIENT_RUNTIME_TABLES": "on"}


def runtime(stage, row):
    """A kernel through each published version of the CUDA runtime; without the setting, none."""
    folder = wheels.libraries(stage.options.tools, "runtime-requirements.txt")
    image = stage.keep / "add_one.fatbin"
    image.write_bytes(fatbin.of_ptx((PROGRAMS / "add_one.ptx").read_text()))
    loading = stage.keep / "runtime"
    _compile(loading, "-ldl")
    versions = sorted(folder.iterdir(), key=lambda it: [int(part) for part in it.name.split(".")])
    done = []
    for version in versions:
        (shared,) = version.glob("nvidia/*/lib/libcudart.so.*")
        ways = [("shared", [loading, image, shared])]
        if archives := list(version.glob("nvidia/*/lib/libcudart_static.a")):
            linked = stage.keep / f"runtime-{version.name}"
            more = version.glob("nvidia/*/lib/libculibos.a")
            _compile(linked, "-DLINKED", *archives, *more, "-ldl", "-lrt", "-lpthread")
            ways.append(("static", [linked, image]))
        for way, command in ways:
            ran = stage.cluster.run(command, 120, variables=ON)
            if ran.failed is None and "right 1000" in ran.out:
                row.passed += 1
                done.append(way)
            else:
                row.failed += 1
                row.fail(f"{version.name} {way}: {ran.failed or ran.out.strip()}")
        refused = stage.cluster.run(ways[-1][1], 120)
        if refused.code == 0 or refused.err.count("--cuda-runtime") != 1:
            row.failed += 1
            row.fail(f"{version.name} without the setting: {refused.err.strip() or refused.out}")
        else:
            row.passed += 1
    row.notes.append(f"{len(versions)} versions, {versions[0].name} to {versions[-1].name}: "
                     f"{done.count('shared')} shared, {done.count('static')} static")


def _compile(output, *arguments):
    source = PROGRAMS / "runtime.c"
    compiled = subprocess.run(["gcc", "-O1", "-o", output, source, *arguments],
                              capture_output=True, text=True, check=False)
    if compiled.returncode:
        raise RuntimeError(compiled.stderr.strip())
