"""NVIDIA's MPS, where its control program is found."""

import os
import pathlib
import shutil
import subprocess
import time

from . import processes

CONTROL = "nvidia-cuda-mps-control"
#: Where drivers in containers put their programs, beside PATH.
FOLDERS = ("/usr/local/nvidia/bin", "/usr/bin", "/usr/local/cuda/bin")


def control(path=None):
    """The control program, or None."""
    places = os.pathsep.join([path or os.environ.get("PATH", ""), *FOLDERS])
    return shutil.which(CONTROL, path=places)


class Daemon:
    """The MPS daemon with a pipe folder of its own, in its default mode; ended on leaving."""

    def __init__(self, program, folder):
        self.program = program
        pipes, logs = pathlib.Path(folder) / "pipe", pathlib.Path(folder) / "log"
        for it in (pipes, logs):
            it.mkdir(parents=True, exist_ok=True)
        self.variables = {"CUDA_MPS_PIPE_DIRECTORY": str(pipes), "CUDA_MPS_LOG_DIRECTORY": str(logs)}
        self.logs, self.process = logs, None

    def __enter__(self):
        self.process = subprocess.Popen([self.program, "-f"], env={**os.environ, **self.variables},
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        until = time.monotonic() + 10
        while time.monotonic() < until and self.process.poll() is None:
            if self._ask("get_server_list").code == 0:
                return self
            time.sleep(0.1)
        said = " ".join(it.read_text(errors="replace")[-200:] for it in self.logs.glob("*.log"))
        self.__exit__()
        raise processes.Ended(f"{CONTROL} did not start: {said or 'no log'}")

    def _ask(self, words):
        return processes.run([self.program], 5, {**os.environ, **self.variables}, stdin=words + "\n")

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self._ask("quit -t 1")
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
