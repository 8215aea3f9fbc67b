"""Tests of the wheel's Python: no GPU, no cluster and no build of Rust. A C compiler makes a drop-in for them.

    pip install pytest opentelemetry-sdk opentelemetry-distro opentelemetry-instrumentation
    python -m pytest ops/python/tests
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import subprocess
import sys
from typing import Callable

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))


def compiled(folder: pathlib.Path, *flags: str) -> pathlib.Path:
    """A folder with a libcuda.so.1."""
    folder.mkdir()
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", *flags,
                    "-o", folder / "libcuda.so.1", HERE / "fake_libcuda.c"], check=True)
    return folder


@pytest.fixture(scope="session")
def drop_in(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder of a drop-in."""
    return compiled(tmp_path_factory.mktemp("libraries") / "drop-in")


@pytest.fixture(scope="session")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder of a libcuda that is not Warploom's."""
    return compiled(tmp_path_factory.mktemp("libraries") / "foreign", "-DFOREIGN")


@pytest.fixture(scope="session")
def library(drop_in: pathlib.Path) -> ctypes.CDLL:
    """The drop-in, loaded into this process for all tests."""
    library = ctypes.CDLL(str(drop_in / "libcuda.so.1"))
    library.fake_parent.restype = ctypes.c_char_p
    return library


@pytest.fixture
def parent(library: ctypes.CDLL) -> Callable[[], str]:
    """Tells the calling thread's parent, "" for none."""
    return lambda: library.fake_parent().decode()


@pytest.fixture
def python(drop_in: pathlib.Path) -> Callable[..., str]:
    """Runs a program in a process of its own; its output. Keywords are variables, None removes one."""
    def run(program: str, *before: str, **variables: object) -> str:
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "LD_LIBRARY_PATH": str(drop_in),
                       "WARPLOOM_DROP_IN": str(drop_in)}
        for name, value in variables.items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = str(value)
        done = subprocess.run([*before, sys.executable, "-c", program], env=environment, text=True,
                              capture_output=True, timeout=60)
        # OpenTelemetry warns of the configurator that a test leaves out.
        complaints = [it for it in done.stderr.splitlines() if not it.startswith("Configuration of configurator not")]
        assert done.returncode == 0 and not complaints, done.stderr
        return done.stdout.strip()
    return run
