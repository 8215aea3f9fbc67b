"""Triton: our tests of its language, with and without PyTorch, and its own suite."""

from . import outcome, wheels
from .runtimes import ON

TESTS = wheels.PEERS / "triton"
EXPECTED = wheels.PEERS / "expected"

#: The environment of the suite of torch.compile, which has Triton in it.
WITH_TORCH = "torch-requirements.txt"

#: What of Triton's own suite is of its language: a device of compute capability 8.0 is asked for
#: everything there that it does not skip itself.
OWN = "python/test/unit/language"


def triton(stage, row):
    """Our tests of triton.language: arrays by the driver API alone, then as PyTorch's tensors."""
    row.bound = 1.0
    ways = [("driver", "triton-requirements.txt", {})]
    if (wheels.PEERS / WITH_TORCH).is_file():
        # PyTorch has the CUDA runtime in it.
        ways.append(("torch", WITH_TORCH, ON))
    else:
        row.notes.append(f"without PyTorch only: {WITH_TORCH} is not there")
    tests = {}
    for arrays, requirements, variables in ways:
        python = wheels.environment(stage.options.tools, requirements)
        ran = stage.pytest(f"{row.suite}-{arrays}",
                           ["--rootdir", TESTS, TESTS, "--arrays", arrays, *stage.workers()],
                           python=python, variables={**_cache(stage), **variables}, cwd=TESTS,
                           limit=3600, timeout=300)
        tests.update({f"{arrays}: {name}": came for name, came in ran.items()})
        passed = sum(came == "passed" for came in ran.values())
        row.notes.append(f"arrays of {arrays}: {passed} of {len(ran)} passed")
    outcome.judge(row, tests, outcome.expected(EXPECTED / "triton.txt"))


def triton_own(stage, row):
    """Triton's own tests of its language, from a checkout."""
    checkout = stage.options.triton
    if checkout is None:
        row.skip("it is in Triton's repository only: --triton CHECKOUT")
        return
    if not (wheels.PEERS / WITH_TORCH).is_file():
        row.skip(f"it needs PyTorch: {WITH_TORCH} is not there")
        return
    row.bound = 0.95
    python = wheels.environment(stage.options.tools, WITH_TORCH)
    tests = stage.pytest(row.suite, ["--rootdir", checkout, OWN, *stage.workers()], python=python,
                         variables={**_cache(stage), **ON}, cwd=checkout, limit=6 * 3600, timeout=300)
    outcome.judge(row, tests, outcome.expected(EXPECTED / "triton-own.txt"))


def _cache(stage):
    """Compiled kernels are kept for one run, and not in the user's home."""
    return {"TRITON_CACHE_DIR": str(stage.keep / "triton-cache"), "TRITON_HOME": str(stage.keep)}
