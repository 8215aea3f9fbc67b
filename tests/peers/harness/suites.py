"""The suites: which client does what on a cluster, and what must come of it."""

import json
import pathlib
import shutil
import subprocess
import time

from . import large, outcome, tenants, wheels
from .api import api
from .arrays import jax, warp
from .chart import chart
from .cluster import stop
from .cupy import cupy
from .fresh import fresh
from .outcome import Outcome
from .nvcc import nvcc
from .nvml import nvml
from .plugin import plugin
from .runtimes import runtime
from .triton import triton, triton_own
from .torch import torch
from .traces import traces
from .traces_kills import traces_kills
from .traces_programs import traces_programs
from .workflows import workflows

PEERS = pathlib.Path(__file__).resolve().parents[1]
PROGRAMS = PEERS / "programs"

#: tinygrad's backend that sends PTX of its own making.
TINYGRAD = {"DEV": "CUDA:PTX"}

#: What of test_tiny.py computes on tinygrad's CPU backend, whose compiler is clang.
TINY_ON_CPU = ["test_const", "test_eye"]

#: What of Numba's suite is run where time is short: memory, streams, events, contexts, linking of
#: PTX, shared memory, barriers, warps, reductions.
NUMBA_FAST = [
    "cudadrv.test_context_stack", "cudadrv.test_cuda_driver", "cudadrv.test_cuda_memory",
    "cudadrv.test_cuda_ndarray", "cudadrv.test_events", "cudadrv.test_host_alloc",
    "cudadrv.test_linker", "cudadrv.test_pinned", "cudadrv.test_streams", "cudapy.test_minmax",
    "cudapy.test_reduction", "cudapy.test_sm", "cudapy.test_sync", "cudapy.test_warp_ops",
]


class Stage:
    """What the suites share: the cluster, the environments, the options."""

    def __init__(self, cluster, options, keep):
        self.cluster, self.options, self.keep = cluster, options, keep

    @property
    def python(self):
        return wheels.environment(self.options.tools, "requirements.txt")

    def pytest(self, name, arguments, *, python=None, variables=None, cwd=None, limit, timeout):
        """Runs pytest on the cluster; the tests of its JUnit file, and its log."""
        junit, log = self.keep / f"{name}.xml", self.keep / f"{name}.log"
        junit.unlink(missing_ok=True)
        ours, variables = PEERS / "pytest", dict(variables or {})
        # Our plugin, behind what the suite brings.
        variables["PYTHONPATH"] = ":".join([*filter(None, [variables.get("PYTHONPATH")]), str(ours)])
        command = [python or self.python, "-m", "pytest", "-c", ours / "pytest.ini",
                   "--timeout", str(timeout), f"--junitxml={junit}", "-W", "ignore", *arguments]
        with log.open("w") as out:
            process = self.cluster.start(command, variables=variables, cwd=cwd or ours,
                                         stdout=out, stderr=subprocess.STDOUT)
            try:
                process.wait(limit)
            except subprocess.TimeoutExpired:
                stop(process)
        if not junit.is_file():
            raise RuntimeError(f"pytest wrote no {junit.name}: see {log}")
        return outcome.read(junit)

    def workers(self):
        """Arguments for several processes, each with whole files, so that one may die."""
        return ["-n", str(self.options.jobs), "--dist", "loadfile", "--max-worker-restart", "99"]


def numba(stage, row):
    """Numba's own suite for its CUDA target, as its wheel has it."""
    if stage.options.fast:
        names = [f"numba.cuda.tests.{name}" for name in NUMBA_FAST]
    else:
        row.bound = 0.9
        names = ["numba.cuda.tests"]
    # Left out: inter-process memory, which is the suite `ipc`, and Numba's own runtime on the device.
    tests = stage.pytest(row.suite, ["--pyargs", *names, *stage.workers(),
                                     "-k", "not ipc and not nrt"], limit=3600, timeout=180)
    outcome.judge(row, tests, outcome.expected(PEERS / "expected" / "numba-cuda.txt"))


def ipc(stage, row):
    """Numba's own tests of memory that processes share."""
    python = wheels.environment(stage.options.tools, "ipc-requirements.txt")
    tests = stage.pytest(row.suite, ["--pyargs", "numba.cuda.tests", "-k", "ipc"], python=python, limit=600, timeout=180)
    outcome.judge(row, tests, {})


def tiny(stage, row):
    """tinygrad's test_tiny.py."""
    python = stage.python
    source = wheels.tinygrad_source(stage.options.tools, python)
    left_out = []
    if shutil.which("clang") is None:
        row.notes.append(f"no clang: {', '.join(TINY_ON_CPU)} run on tinygrad's CPU backend "
                         "and are left out")
        for name in TINY_ON_CPU:
            left_out += ["--deselect", f"test/test_tiny.py::TestTiny::{name}"]
    tests = stage.pytest(row.suite, ["--rootdir", source, "test/test_tiny.py", *left_out],
                         variables=TINYGRAD, cwd=source, limit=900, timeout=300)
    outcome.judge(row, tests, outcome.expected(PEERS / "expected" / "tinygrad-tiny.txt"))


def backend(stage, row):
    """tinygrad's test/backend, from a checkout."""
    checkout = stage.options.tinygrad
    if checkout is None:
        row.skip("it is in tinygrad's repository only: --tinygrad CHECKOUT")
        return
    python = wheels.environment(stage.options.tools, "backend-requirements.txt")
    row.bound = 0.9
    row.notes.append(f"tinygrad {_revision(checkout)}")
    if shutil.which("clang") is None:
        row.notes.append("no clang: tinygrad's CPU backend is missing, and what compares with it fails")
    # As their own continuous integration does.
    left_out = ["--ignore", "test/backend/test_multitensor.py"]
    tests = stage.pytest(row.suite, ["--rootdir", checkout, "test/backend", *left_out,
                                     *stage.workers()],
                         python=python, variables={**TINYGRAD, "PYTHONPATH": str(checkout)},
                         cwd=checkout, limit=6 * 3600, timeout=300)
    outcome.judge(row, tests, outcome.expected(PEERS / "expected" / "tinygrad-backend.txt"))


def _revision(checkout):
    asked = subprocess.run(["git", "-C", str(checkout), "rev-parse", "--short=12", "HEAD"],
                           capture_output=True, text=True, check=False)
    return asked.stdout.strip() or "of an unknown commit"


def mlp(stage, row):
    """A perceptron of MNIST's size learns on tinygrad; the losses are NumPy's."""
    ran = stage.cluster.run([stage.python, PROGRAMS / "mlp.py"], 600, variables=TINYGRAD)
    if _count(row, ran):
        told = ran.told
        row.notes.append(f"{told['steps']} losses from {told['first_loss']:.3f} to "
                         f"{told['last_loss']:.3f}, at most {told['difference']:.1e} from NumPy's")


def core(stage, row):
    """cuda.core compiles CUDA C++ to PTX with NVRTC, and launches it."""
    ran = stage.cluster.run([stage.python, PROGRAMS / "cuda_core.py"], 300)
    if _count(row, ran):
        row.notes.append(f"{ran.told['checked']} elements checked on {ran.told['device']}")


def c(stage, row):
    """A C program linked with libcuda."""
    sources = PEERS.parent / "end-to-end" / "programs"
    said = subprocess.run([stage.cluster.binary, "env"], env=stage.cluster.environment, check=True,
                          cwd=stage.cluster.folder, capture_output=True, text=True).stdout
    folder = next(line for line in said.splitlines() if "WARPLOOM_DROP_IN" in line)
    folder = folder.split("=", 1)[1].split("#")[0].strip().strip("'\";")
    program = stage.keep / "vector_add"
    subprocess.run(["gcc", "-O1", "-o", program, sources / "vector_add.c", f"-L{folder}", "-lcuda"],
                   check=True)
    kernels = PEERS.parent / "kernels" / "vector_add.ptx"
    if _count(row, ran := stage.cluster.run([program, kernels], 120)):
        row.notes.append(ran.out.strip())


def gpt2(stage, row):
    """A model of GPT-2's architecture on tinygrad: its tokens are those of the CPU backend."""
    program = [stage.python, PROGRAMS / "gpt2.py"]
    short, whole = (stage.cluster.run([*program, "--tokens", str(tokens)], 1800, variables=TINYGRAD)
                    for tokens in (16, 64))
    if not _count(row, short) or not _count(row, whole):
        return
    tokens, seconds = whole.told["tokens"], whole.told["seconds"]
    # The first steps compile.
    steady = seconds[8:]
    row.notes.append(f"{len(steady) / sum(steady):.2f} tokens a second, "
                     f"{(whole.waits - short.waits) / 48:.2f} waits per token")
    if shutil.which("clang") is None:
        row.skip("tinygrad's CPU backend needs clang: the tokens are not compared")
        return
    host = subprocess.run(program, env={**stage.cluster.environment, "DEV": "CPU"},
                          capture_output=True, text=True, check=True)
    if json.loads(host.stdout)["tokens"] != tokens or len(set(tokens)) < 8:
        row.passed, row.failed = 1, 1
        row.fail(f"the tokens are not those of tinygrad's CPU backend: {tokens}")
    else:
        row.notes.append(f"{len(tokens)} tokens, {len(set(tokens))} of them different, equal "
                         "tinygrad's CPU backend")


def two(stage, row):
    """Two clients at once as tenants of different priority."""
    tenants.together(stage, row, PROGRAMS, TINYGRAD)


def memory(stage, row):
    """tinygrad programs that hold much memory: the same weights ten times, trainings that do not fit."""
    large.weights(stage, row, PROGRAMS / "weights.py", TINYGRAD)
    large.trainings(stage, row, PROGRAMS / "weights.py", TINYGRAD)


def files(stage, row):
    """Files of weights that gguf and safetensors write: what they hold is not sent."""
    python = wheels.environment(stage.options.tools, "files-requirements.txt")
    large.files(stage, row, [python, PROGRAMS / "weight_files.py"])


def _count(row, ran):
    if ran.failed is None:
        row.passed += 1
        return True
    row.failed += 1
    row.fail(ran.failed)
    return False


#: All suites in their order; those of the fast part.
SUITES = {it.__name__.replace("_", "-"): it for it in (core, c, nvml, tiny, mlp, numba, ipc, gpt2, two, memory,
                                                       files, api, traces, traces_programs, traces_kills,
                                                       backend, plugin, runtime, nvcc, workflows,
                                                       triton, triton_own, torch, cupy,
                                                       warp, jax, chart, fresh)}
FAST = ("core", "c", "nvml", "tiny", "mlp", "numba", "files", "api", "traces", "plugin")
#: What installs much more than those, and so runs where it is asked for only.
ASKED = ("traces-programs", "traces-kills", "runtime", "nvcc", "workflows", "triton", "triton-own", "torch", "cupy",
         "warp", "jax", "chart", "fresh")


def run(stage, name):
    """Runs one suite; whatever goes wrong is in its row."""
    row = Outcome(name)
    began = time.monotonic()
    try:
        SUITES[name](stage, row)
    except wheels.Missing as missing:
        row.skip(str(missing))
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        row.fail(str(error))
    row.seconds = time.monotonic() - began
    return row
