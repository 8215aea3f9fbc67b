"""torch.compile and torch.cuda: functions, models and the calls of `torch.cuda`, each against torch on the CPU."""

import concurrent.futures
import json
import os
import pathlib
import subprocess

from . import outcome, wheels
from .runtimes import ON

CASES = pathlib.Path(__file__).resolve().parents[1] / "torch"
PAGE = CASES.parents[2] / "docs/howto/pytorch.md"
EXPECTED = CASES.parent / "expected" / "torch.txt"
#: The longest first, so that none is left over at the end.
MODULES = ("models", "functions", "seeded")
#: What has the device for itself: it takes all of the tenant's memory, which ends others' sessions.
ALONE = ("cuda_api",)
#: Cases of one process: starting torch takes seconds, and so does losing what a process has learned.
TOGETHER = 12
#: Seconds that a process may take for its start and for each of its cases.
START, EACH = 120, 600


def torch(stage, row):
    """Every case of tests/peers/torch, in several processes, with compiled kernels kept for the next run."""
    same_lines(CASES / "head.py")
    python = interpreter(stage.options)
    cache = kept(stage.options, python)
    told = []
    for modules, jobs in ((MODULES, stage.options.jobs), (ALONE, 1)):
        groups = [(module, names) for module in modules for names in _groups(python, module)]
        with concurrent.futures.ThreadPoolExecutor(max(1, jobs)) as pool:
            for part in pool.map(lambda it: _group(stage, python, cache, *it), groups):
                told += part
    tests = {it["case"]: "failed" if "error" in it else "passed" for it in told}
    outcome.judge(row, tests, outcome.expected(EXPECTED))
    for it in told:
        if "error" in it and (row.failures[it["case"]] is None or stage.options.keep):
            row.notes.append(f"{it['case']}: {it['error']}")
    differences = [(it["difference"], it["case"]) for it in told if it.get("difference") is not None]
    if differences:
        row.notes.append("largest difference from the CPU: {:.1e}, {}".format(*max(differences)))
    made, used = (sum(it.get(which, 0) for it in told) for which in ("compiled", "kept"))
    row.notes.append(f"{made} graphs compiled anew, {used} taken from {cache}")
    _write_down(stage.options, python, cache)


def same_lines(program):
    """Compares the lines that a program sets with those that the page tells people to set."""
    lines = [it for it in program.read_text().splitlines() if it.startswith(("inductor.", "for it in"))]
    if len(lines) != 3 or "\n".join(lines) not in PAGE.read_text():
        raise RuntimeError(f"{PAGE.name} has other lines than {program.name}")


def interpreter(options):
    """Python with torch: the one that was named, or an environment of our own."""
    return options.torch_python or wheels.environment(options.tools, "torch-requirements.txt")


def kept(options, python):
    """The folder for what these versions compile, beside the tools."""
    asked = "import torch, triton; print(f'torch-{torch.__version__}-triton-{triton.__version__}')"
    said = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=False)
    if said.returncode:
        raise wheels.Missing(f"{python} has no torch: {said.stderr.strip()[-200:]}")
    return _folder(options) / said.stdout.strip()


def _folder(options):
    return options.tools.parent / "torch"


def _write_down(options, python, cache):
    """Tells `warploom bench client` what to measure with."""
    text = json.dumps({"python": str(python), "cache": str(cache)})
    (_folder(options) / "environment.json").write_text(text + "\n")


def variables(cache):
    """Where torch and Triton keep what they compile. A process compiles by itself: there are several."""
    return {**ON, "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"), "TRITON_CACHE_DIR": str(cache / "triton"),
            "TORCHINDUCTOR_COMPILE_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def _groups(python, module):
    """The names of a module's cases, in groups; all of a model in one, for they share what is compiled."""
    said = subprocess.run([python, CASES / "cases.py", "--list", module], check=True, text=True,
                          stdout=subprocess.PIPE)
    groups = {}
    for at, name in enumerate(said.stdout.splitlines()):
        which = name.rsplit(" ", 1)[0] if module == "models" else at // TOGETHER
        groups.setdefault(which, []).append(name)
    return groups.values()


def _group(stage, python, cache, module, names):
    """Runs cases; whatever ends their process is the failure of the one that was under way."""
    told, left = [], list(names)
    while left:
        ran = stage.cluster.run([python, CASES / "cases.py", module, *left], START + EACH * len(left),
                                variables=variables(cache))
        _log(stage.keep / "torch.log", ran.err)
        lines = [json.loads(line) for line in ran.out.splitlines() if line.startswith("{")]
        done = [it for it in lines if "case" in it]
        told += done
        begun = [it["begins"] for it in lines if "begins" in it] or left[:1]
        left = left[len(done):]
        if left:
            told.append({"case": begun[-1] if len(begun) > len(done) else left[0],
                         "error": ran.failed or "its process ended before"})
            left = left[1:]
        elif ran.failed:
            told.append({"case": f"the end of {names[-1]}", "error": ran.failed})
    return [{**it, "case": f"{module}.{it['case']}".replace(" ", "_")} for it in told]


def _log(path, text):
    with path.open("a") as file:
        file.write(text + os.linesep)
