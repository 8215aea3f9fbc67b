"""Tools that show GPUs, unmodified: what they say is what CUDA says."""

import json
import pathlib
import subprocess

from . import wheels

PROGRAMS = pathlib.Path(__file__).resolve().parents[1] / "programs"


def nvml(stage, row):
    """nvidia-ml-py, gpustat, nvitop and `nvidia-smi` beside a program that holds memory."""
    tools = stage.options.tools
    python = wheels.environment(tools, "nvml-requirements.txt")
    gpustat = wheels.gpustat_source(tools, python)
    variables = {"PYTHONPATH": str(gpustat), "TERM": "xterm-256color"}
    ran = stage.cluster.run([python, PROGRAMS / "nvml_tools.py"], 300, variables=variables)
    if ran.failed is not None:
        row.failed += 1
        row.fail(ran.failed)
        return
    told = ran.told
    for tool, seen in told["seen"].items():
        if seen == told["cuda"]:
            row.passed += 1
        else:
            row.failed += 1
            row.fail(f"{tool} says {seen}, CUDA {told['cuda']}")
    row.notes.append(f"{', '.join(told['versions'])}: memory, process, name and UUID are CUDA's")
    _no_cluster(stage, row, python, variables)


def _no_cluster(stage, row, python, variables):
    """Without a cluster gpustat says so, and ends."""
    said = subprocess.run([stage.cluster.binary, "env", "--json"], env=stage.cluster.environment,
                          cwd=stage.cluster.folder, check=True, capture_output=True, text=True)
    paths = {"LD_LIBRARY_PATH": json.loads(said.stdout)["LD_LIBRARY_PATH"]}
    alone = subprocess.run([python, "-m", "gpustat"], env={**stage.cluster.environment, **variables, **paths},
                           capture_output=True, text=True, timeout=30, check=False)
    if alone.returncode != 0 and "Driver Not Loaded" in alone.stdout + alone.stderr:
        row.passed += 1
    else:
        row.failed += 1
        row.fail(f"gpustat without a cluster: {alone.returncode}, {alone.stdout}{alone.stderr}")
