"""Triton: our tests of its language, with and without PyTorch, and its own suite."""

import random

from . import outcome, wheels
from .runtimes import ON

TESTS = wheels.PEERS / "triton"
EXPECTED = wheels.PEERS / "expected"

#: Environments that have PyTorch, and what the tests need in one: the first that has it all is taken,
#: so that PyTorch, of 5 GB, is installed once where other suites of it run as well.
WITH_TORCH = ("torch-requirements.txt", "backend-requirements.txt")
NEEDED = {"torch", "triton", "numpy", "pytest", "pytest-timeout", "pytest-xdist"}

#: What of Triton's own suite is of its language: a device of compute capability 8.0 is asked for
#: everything there that it does not skip itself.
OWN = "python/test/unit/language"


def triton(stage, row):
    """Our tests of triton.language: arrays by the driver API alone, then as PyTorch's tensors."""
    row.bound = 1.0
    tests = {}
    # PyTorch has the CUDA runtime in it.
    for arrays, requirements, variables in (("driver", "triton-requirements.txt", {}),
                                            ("torch", _with_torch(), ON)):
        try:
            python = wheels.environment(stage.options.tools, requirements)
        except wheels.Missing as missing:
            if not tests:
                raise
            row.notes.append(f"SKIPPED with PyTorch: {missing}")
            continue
        ran = stage.pytest(f"{row.suite}-{arrays}",
                           ["--rootdir", TESTS, TESTS, "--arrays", arrays, *_workers(stage)],
                           python=python, variables={**_cache(stage, arrays), **variables}, cwd=TESTS,
                           limit=2 * 3600, timeout=300)
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
    row.bound = 0.95
    sampled = _sampled(stage, row)
    python = wheels.environment(stage.options.tools, _with_torch())
    more = wheels.merged(stage.options.tools, "triton-own-requirements.txt")
    # The tests import one another; PyTorch's own kernels are done on the host.
    variables = {**_cache(stage, "own"), **ON, "PYTHONPATH": f"{checkout / OWN}:{more}"}
    tests = stage.pytest(row.suite, ["-p", "host_kernels", *sampled,
                                     "--continue-on-collection-errors", "--rootdir", checkout, OWN, *_workers(stage)],
                         python=python, variables=variables, cwd=checkout, limit=6 * 3600, timeout=300)
    outcome.judge(row, tests, outcome.expected(EXPECTED / "triton-own.txt"))


def _sampled(stage, row):
    """Arguments for a sample where one is asked for: of its more than 20,000 tests most say the same of
    another type."""
    number = stage.options.sample
    if number in (None, "all"):
        return []
    seed = random.randrange(2**32) if stage.options.seed is None else stage.options.seed
    row.notes.append(f"{number} tests, drawn by seed {seed}")
    return ["-p", "sampled", "--sampled", number, "--sampled-seed", seed]


def _with_torch():
    """The requirements of an environment with PyTorch."""
    for name in WITH_TORCH:
        path = wheels.PEERS / name
        lines = path.read_text().splitlines() if path.is_file() else ()
        if NEEDED <= {line.split("==")[0] for line in lines}:
            return name
    raise RuntimeError(f"none of {', '.join(WITH_TORCH)} has {', '.join(sorted(NEEDED))}")


def _workers(stage):
    """Arguments for several processes, each with what is left, so that one may die."""
    return ["-n", str(stage.options.jobs), "--dist", "worksteal", "--max-worker-restart", "99"]


def _cache(stage, name):
    """Compiled kernels are kept for one run, and not in the user's home."""
    folder = stage.keep / f"triton-cache-{name}"
    return {"TRITON_CACHE_DIR": str(folder), "TRITON_HOME": str(folder)}
