"""Warp and JAX: our tests of each, against NumPy."""

from . import outcome, wheels
from .runtimes import ON

#: Warp sends PTX to a driver that is as new as the toolkit in it.
TOOLKIT = "13.4"


def warp(stage, row):
    """Warp: kernels in every type, and what its library has: sorts, trees, meshes, volumes, graphs, tiles."""
    variables = {"WARPLOOM_CLIENT_DRIVER_VERSION": TOOLKIT, "WARP_CACHE_PATH": str(stage.keep / "warp-kernels")}
    _suite(stage, row, stage.options.warp_python, variables)


def jax(stage, row):
    """JAX: operations, loops, gradients, random numbers, products, networks."""
    # What it tells of itself goes to stderr, and there is much of it.
    _suite(stage, row, stage.options.jax_python, {"TF_CPP_MIN_LOG_LEVEL": "2"})


def _suite(stage, row, python, variables):
    """The tests of a folder by the name of the suite, in the interpreter named or in one of our own."""
    tests = wheels.PEERS / row.suite
    python = python or wheels.environment(stage.options.tools, f"{row.suite}-requirements.txt")
    came = stage.pytest(row.suite, ["--rootdir", tests, tests], python=python,
                        variables={**ON, **variables}, cwd=tests, limit=3600, timeout=900)
    outcome.judge(row, came, outcome.expected(wheels.PEERS / "expected" / f"{row.suite}.txt"))
