"""Clients as their own documentation installs them: what pip resolves today, each in an environment of its own."""

import shutil
import subprocess
import sys

from . import plugin as wheel
from . import wheels
from .wheels import PEERS

PROGRAMS = PEERS / "programs"

#: By what is installed: the program that is run on it, whether it has NVIDIA's CUDA runtime, and whether it is
#: a test as well.
CLIENTS = {
    "numba-cuda[cu12]": ("fresh_numba.py", False, True),
    "numba-cuda[cu13]": ("fresh_numba.py", False, True),
    "cupy-cuda12x[ctk]": ("fresh_cupy.py", True, False),
}
#: What stands before a program; the last of them is a shell.
WRAPPERS = (["env", "FRESH=1"], ["nice", "-n", "1"], ["timeout", "600"], ["bash", "-c", 'exec "$0" "$@"'])


def fresh(stage, row):
    """Numba and CuPy as pip installs them, directly and behind what starts programs, and under pytest."""
    row.notes.append(wheel.build(stage))
    (ours,) = stage.keep.glob("*.whl")
    for what in CLIENTS:
        place = stage.keep / "fresh"
        try:
            _client(stage, row, what, _installed(place, what, ours))
        finally:
            # Each takes up to 3 GB.
            shutil.rmtree(place, ignore_errors=True)


def _client(stage, row, what, python):
    """What is run on one of them."""
    program, runtime, tested = CLIENTS[what]
    row.notes.append(f"{what}: {_versions(python)}")
    arguments = ["--cuda-runtime"] if runtime else []
    for before in ([], *WRAPPERS):
        ran = stage.cluster.run([*before, python, PROGRAMS / program], 600, arguments=arguments)
        _count(row, ran.failed, f"{what}, {before[0] if before else 'directly'}")
    if tested:
        _count(row, _pytest(stage, python, program), f"{what}, pytest --warploom")


def _installed(place, what, ours):
    """The interpreter of an environment in which pip has installed this, and our wheel."""
    wheels.ran([sys.executable, "-m", "venv", place])
    python = place / "bin" / "python"
    wheels.ran([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", what, "pytest", ours])
    return python


def _versions(python):
    """What pip resolved, as far as it matters here."""
    listed = subprocess.run([python, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"],
                            check=True, capture_output=True, text=True).stdout.split()
    named = ("numba", "cupy", "cuda-bindings", "cuda-core", "nvidia-nvjitlink", "nvidia-cusparse")
    return ", ".join(it.replace("==", " ") for it in listed if it.startswith(named))


def _pytest(stage, python, program):
    """What is wrong with `pytest --warploom` on this program as a test, or nothing."""
    tests = stage.keep / "fresh-tests"
    tests.mkdir(exist_ok=True)
    shutil.copy(PROGRAMS / program, tests / "test_fresh.py")
    environment = {name: it for name, it in stage.cluster.environment.items() if not name.startswith("WARPLOOM_")}
    ran = subprocess.run([python, "-m", "pytest", "--warploom", "-p", "no:cacheprovider"], cwd=tests, timeout=600,
                         env=environment, capture_output=True, text=True, check=False)
    wanted = ("1 passed", "kernels run: 1, launches: 1")
    if ran.returncode or not all(text in ran.stdout for text in wanted):
        return f"exit {ran.returncode}: {(ran.stdout + ran.stderr).strip()[-400:]}"
    return None


def _count(row, wrong, name):
    if wrong is None:
        row.passed += 1
    else:
        row.failed += 1
        row.fail(f"{name}: {wrong}")
