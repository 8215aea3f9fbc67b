"""The workflow files of docs/howto/ci, step by step in fresh environments, with a wheel made just now."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from . import plugin as wheel
from . import wheels

PEERS = pathlib.Path(__file__).resolve().parents[1]
FILES = PEERS.parents[1] / "docs/howto/ci"


def workflows(stage, row):
    """A repository of CUDA C++ and one of Python, tested as docs/howto/ci says."""
    made = wheel.build(stage)
    row.notes.append(made)
    cpp, python = stage.keep / "cpp", stage.keep / "python"
    cpp.mkdir()
    shutil.copy(PEERS / "nvcc/vecadd.cu", cpp / "tests.cu")
    shutil.copy(PEERS / "nvcc/check.h", cpp)
    shutil.copytree(PEERS / "plugin", python)
    (python / "requirements.txt").write_text("pytest==8.4.2\n")
    for name, folder, wanted, code in (("cuda-cpp", cpp, "vecadd: well", 0),
                                       # Some of its tests are to fail.
                                       ("python", python, "4 failed, 9 passed, 1 skipped", 1)):
        ran = _run(stage, FILES / f"{name}.yml", folder)
        if ran.returncode == code and wanted in ran.stdout:
            row.passed += 1
        else:
            row.failed += 1
            row.fail(f"{name}: exit {ran.returncode}: {(ran.stdout + ran.stderr).strip()[-300:]}")


def _run(stage, file, folder):
    """Runs a workflow's steps as the service does: each in a shell, variables kept in a file."""
    environment = folder.with_name(f"{folder.name}-environment")
    wheels.ran([sys.executable, "-m", "venv", environment])
    kept = folder / "variables"
    kept.write_text("")
    steps = re.findall(r"run: \|\n((?: {10}.*\n)+)", file.read_text())
    script = "".join(f"set -a; . {kept}; set +a\n{re.sub('^ {10}', '', step, flags=re.M)}"
                     for step in steps)
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("WARPLOOM_", "NATS_", "PYTHON", "CUDA_"))}
    return subprocess.run(["bash", "-e", "-c", script], cwd=folder, capture_output=True, text=True,
                          check=False, env={**clean, "GITHUB_ENV": str(kept),
                                            "PIP_FIND_LINKS": str(stage.keep),
                                            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
                                            "PATH": f"{environment / 'bin'}:{clean['PATH']}"})
