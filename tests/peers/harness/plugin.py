"""The Python wheel in a fresh environment, and its plugin of pytest on a repository's tests."""

import os
import pathlib
import shutil
import subprocess
import sys

from . import outcome, wheels

PEERS = pathlib.Path(__file__).resolve().parents[1]
BUILD = PEERS.parents[1] / "ops/python/build.py"

#: What must come of each test of tests/peers/plugin.
WANTED = {
    "test_first": "passed", "test_each[0]": "passed", "test_each[1]": "passed",
    "test_each[2147483648]": "passed", "test_wrong": "failed", "test_machine_code": "skipped",
    "test_machine_code_with_a_way_out": "passed", "test_trap": "failed",
    "test_behind_the_trap": "passed", "test_crash": "failed", "test_behind_the_crash": "passed",
    "test_captured": "passed", "test_without_a_device": "passed",
}
#: What it must say at its end; the process that crashed took its own counts along.
SAID = ("assert 42 == 43", "kernels run: 2, launches: 7, processes: 3", "no PTX: 2 of memory", "collected 14 items / 1 deselected / 13 selected",
        "3 failed, 9 passed, 1 skipped")


def plugin(stage, row):
    """`pytest --warploom` from the wheel: passes, failures, machine code, a trap, a crash."""
    row.notes.append(build(stage))
    (wheel,) = stage.keep.glob("*.whl")
    python = fresh(stage, wheel)
    tests = stage.keep / "repository"
    shutil.copytree(PEERS / "plugin", tests)
    junit = stage.keep / "plugin.xml"
    variables = {name: value for name, value in os.environ.items()
                 if not name.startswith(("WARPLOOM_", "NATS_", "PYTHON"))}
    ran = subprocess.run([python, "-m", "pytest", "--warploom", f"--junitxml={junit}", "-m", "not slow"],
                         cwd=tests, env=variables, capture_output=True, text=True, timeout=300,
                         check=False)
    (stage.keep / "plugin.log").write_text(ran.stdout + ran.stderr)
    came = {name.rsplit(".", 1)[-1]: it for name, it in outcome.read(junit).items()}
    for name, wanted in WANTED.items():
        if came.get(name) == wanted:
            row.passed += 1
        else:
            row.failed += 1
            row.fail(f"{name} {came.get(name, 'did not run')}, not {wanted}")
    more = sorted(set(came) - set(WANTED))
    missing = [text for text in SAID if text not in ran.stdout]
    if more or missing or ran.returncode != 1 or "to be shown" in ran.stdout:
        row.fail(f"tests beyond the wanted {more}, not said {missing}, exit {ran.returncode}")


def build(stage):
    """Makes the wheel of the binaries under test, in the folder of the run; what is said of it."""
    binaries = stage.keep / "binaries"
    binaries.mkdir(exist_ok=True)
    folder = stage.options.binary.parent
    for path in (folder / "warploom", folder / "libwarploom_cuda.so",
                 folder / "deps/libwarploom_cuda.so"):
        if path.is_file() and not (binaries / path.name).exists():
            (binaries / path.name).symlink_to(path)
    made = subprocess.run([BUILD, "--binaries", binaries, "--out", stage.keep], check=True,
                          capture_output=True, text=True).stdout.strip()
    return made.removeprefix(f"{stage.keep}/")


def fresh(stage, wheel):
    """The interpreter of a new environment that has the wheel and what it depends on."""
    place = stage.keep / "environment"
    wheels.ran([sys.executable, "-m", "venv", "--without-pip", place])
    python = place / "bin" / "python"
    install = [*wheels.PIP, "--python", python, "install", *wheels.QUIETLY, "--root-user-action=ignore"]
    wheels.ran([*install, "--only-binary", ":all:", "-r", PEERS / "plugin-requirements.txt"])
    # Its own hash is nobody's to pin: it was made just now.
    install.remove("--require-hashes")
    wheels.ran([*install, wheel])
    return python
