"""Clients as their own documentation installs them: what pip resolves today, each in an environment of its own."""

import re
import shutil
import subprocess
import sys
import typing

from . import plugin as wheel
from . import wheels
from .torch import same_lines
from .wheels import PEERS

PROGRAMS = PEERS / "programs"


class Tests(typing.NamedTuple):
    """One run of `pytest --warploom` on a program: its further arguments, how it ends, patterns of what it says."""

    arguments: tuple
    code: int
    said: tuple


class Client(typing.NamedTuple):
    """A client, and the runs of its program."""

    #: Arguments for pip: the client, and the packages that its program takes beside it.
    install: tuple
    #: The program, which is a file of tests as well.
    program: str
    #: Further arguments of `warploom run`.
    arguments: tuple
    tests: tuple


RUNTIME = "--warploom-cuda-runtime"
#: Tests of a client with NVIDIA's CUDA runtime in it, without the option that answers the runtime.
UNANSWERED = Tests(("-x",), 1, ("1 failed in", "kernels run: 0, launches: 0", f"CUDA runtime was refused: {RUNTIME}"))
NUMBA = ("fresh_numba.py", (), (Tests((), 0, ("1 passed in", "kernels run: 1, launches: 1")),))
CLIENTS = [
    Client(("numba-cuda[cu12]",), *NUMBA),
    Client(("numba-cuda[cu13]",), *NUMBA),
    Client(("cupy-cuda12x[ctk]",), "fresh_cupy.py", ("--cuda-runtime",), (
        Tests((RUNTIME,), 0, ("2 passed in", "kernels run: [1-9]")), UNANSWERED)),
    # The tuner launches one kernel in two ways, and the better one once more.
    Client(("triton", "numpy"), "fresh_triton.py", (), (Tests((), 0, ("4 passed in", "kernels run: 3, launches: 6")),)),
    # Eager operations are machine code. cuBLAS has some kernels as PTX, and other ones in each version.
    Client(("torch",), "fresh_torch.py", ("--cuda-runtime",), (
        Tests((RUNTIME,), 0, ("(5 passed, 3|6 passed, 2) skipped in", "kernels run: [1-9]",
                              r"(?s)(SKIPPED .*/libtorch_cuda\.so has no PTX.*){2}")),
        Tests((RUNTIME, "-k", "eager_reduction"), 1, ("1 skipped, 7 deselected in", "No kernel ran")), UNANSWERED)),
]
#: Programs that start others; the last of them is a shell.
WRAPPERS = (["env", "FRESH=1"], ["nice", "-n", "1"], ["timeout", "1800"], ["bash", "-c", 'exec "$0" "$@"'])
#: Seconds for a program, and for its tests.
LIMIT = 1800
#: The packages whose versions are reported.
NAMED = ("numba", "cupy", "triton", "torch", "cuda-bindings", "cuda-core", "nvidia-nvjitlink", "nvidia-cusparse==",
         "nvidia-cusparse-", "nvidia-cublas")


def fresh(stage, row):
    """Each client as pip installs it, directly and behind what starts programs, and under pytest."""
    same_lines(PROGRAMS / "fresh_torch.py")
    row.notes.append(wheel.build(stage))
    (ours,) = stage.keep.glob("*.whl")
    for client in CLIENTS:
        place = stage.keep / "fresh"
        try:
            _client(stage, row, client, _installed(place, client, ours))
        except wheels.Missing as missing:
            # The others may be there; a failure stays one.
            state = row.state
            row.skip(f"{client.install[0]}: {missing}")
            row.state = "FAILED" if state == "FAILED" else row.state
        finally:
            # Each takes up to 6 GB.
            shutil.rmtree(place, ignore_errors=True)


def _client(stage, row, client, python):
    """Runs a client's program in every way, and its tests."""
    what = client.install[0]
    row.notes.append(f"{what}: {_versions(python)}")
    for before in ([], *WRAPPERS):
        ran = stage.cluster.run([*before, python, PROGRAMS / client.program], LIMIT, variables=_kept(stage),
                                arguments=client.arguments)
        _count(row, ran.failed, f"{what}, {before[0] if before else 'directly'}")
    for tests in client.tests:
        wrong = _pytest(stage, python, client.program, tests)
        _count(row, wrong, " ".join([f"{what}, pytest --warploom", *tests.arguments]))


def _installed(place, client, ours):
    """The interpreter of an environment in which pip has installed this, and our wheel."""
    wheels.ran([sys.executable, "-m", "venv", place])
    python = place / "bin" / "python"
    wheels.ran([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                *client.install, "pytest", ours])
    return python


def _versions(python):
    """What pip resolved, as far as it matters here."""
    listed = subprocess.run([python, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"],
                            check=True, capture_output=True, text=True).stdout.split()
    return ", ".join(it.replace("==", " ") for it in listed if it.startswith(NAMED))


def _kept(stage):
    """Variables that keep compiled kernels out of the user's home, and from one run's programs to the next."""
    return {"TRITON_CACHE_DIR": str(stage.keep / "fresh-triton"),
            "TORCHINDUCTOR_CACHE_DIR": str(stage.keep / "fresh-inductor"),
            "CUPY_CACHE_DIR": str(stage.keep / "fresh-cupy")}


def _pytest(stage, python, program, tests):
    """What is wrong with a run of `pytest --warploom` on a program, or nothing."""
    folder = stage.keep / "fresh-tests"
    folder.mkdir(exist_ok=True)
    shutil.copy(PROGRAMS / program, folder / "test_fresh.py")
    environment = {name: it for name, it in stage.cluster.environment.items() if not name.startswith("WARPLOOM_")}
    ran = subprocess.run([python, "-m", "pytest", "--warploom", "-rs", "-p", "no:cacheprovider", *tests.arguments],
                         cwd=folder, timeout=LIMIT, env={**environment, **_kept(stage)}, capture_output=True,
                         text=True, check=False)
    missing = [said for said in tests.said if not re.search(said, ran.stdout)]
    if ran.returncode != tests.code or missing:
        return f"exit {ran.returncode}, not said {missing}: {(ran.stdout + ran.stderr).strip()[-400:]}"
    return None


def _count(row, wrong, name):
    if wrong is None:
        row.passed += 1
    else:
        row.failed += 1
        row.fail(f"{name}: {wrong}")
