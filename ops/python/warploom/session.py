"""The cluster and the children of a test session."""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading

from . import binary, environment

#: Names the pipes in a child's environment.
PIPES = "WARPLOOM_PYTEST"


def is_child():
    """Whether this process runs the tests of another."""
    return PIPES in os.environ


class Failed(Exception):
    """The session cannot go on; its text says why."""


#: From <sys/prctl.h>.
PR_SET_PDEATHSIG = 1


def _end_with_parent():
    """In a new process: it is told to end when the one that started it is gone, however it went."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


class Cluster:
    """`warploom up` for the session's life."""

    def __init__(self, folder, model):
        self.environment = {name: value for name, value in environment().items()
                            if not name.startswith("WARPLOOM_")}
        self.environment["WARPLOOM_CLUSTER_STATE_DIR"] = str(folder / "state")
        log = folder / "cluster.log"
        command = [binary(), "up", "--leaders", "1", "--set", "worker.device=cpu",
                   # Kernels made for a GPU's thousands of lanes take a while here.
                   "--set", "worker.watchdog=600s"]
        if model:
            command += ["--set", f"worker.model={model}"]
        with log.open("w") as errors:
            self.process = subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE,
                                            stderr=errors, text=True, start_new_session=True,
                                            preexec_fn=_end_with_parent)
        for line in self.process.stdout:
            if " is up at " in line:
                # What it says goes on, and nobody is to wait for a reader.
                threading.Thread(target=self.process.stdout.read, daemon=True).start()
                return
        self.process.wait()
        raise Failed(f"the cluster did not start: {log.read_text().strip()}")

    def stop(self):
        """Ends it, and all that it started."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Child:
    """A process that collects the tests, and runs those that it is told to."""

    def __init__(self, cluster, stats, invocation, runtime):
        self.stats = stats
        to_read, theirs_to_write = os.pipe()
        theirs_to_read, to_write = os.pipe()
        variables = {**cluster.environment, PIPES: f"{theirs_to_read},{theirs_to_write}",
                     "WARPLOOM_STATS": str(stats)}
        command = [binary(), "run", *(["--cuda-runtime"] if runtime else []), "--",
                   sys.executable, "-m", "pytest", "-p", "warploom.pytest_child", *invocation.args]
        self.process = subprocess.Popen([str(part) for part in command], env=variables,
                                        cwd=invocation.dir, preexec_fn=_end_with_parent,
                                        pass_fds=(theirs_to_read, theirs_to_write))
        os.close(theirs_to_read)
        os.close(theirs_to_write)
        self.reader, self.writer = os.fdopen(to_read), os.fdopen(to_write, "w")

    def collected(self):
        """What it says while it collects, the list of tests last."""
        for said in self._heard():
            if "died" in said:
                raise Failed(f"the process that collects the tests {said['died']}")
            yield said
            if "items" in said:
                return

    def run(self, nodeid, following):
        """Has it run a test; what it says of it."""
        with contextlib.suppress(BrokenPipeError):
            self.writer.write(json.dumps({"run": nodeid, "next": following}) + "\n")
            self.writer.flush()
        for said in self._heard():
            yield said
            if "died" in said or "done" in said:
                return

    def _heard(self):
        for line in self.reader:
            yield json.loads(line)
        yield {"died": _how(self.process.wait())}

    def end(self):
        """Ends it; what it says of its work."""
        with contextlib.suppress(BrokenPipeError):
            self.writer.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.close()
        try:
            return [json.loads(line) for line in self.stats.read_text().splitlines()]
        except FileNotFoundError:
            return []


def _how(code):
    # `run` exits with 128 and the signal where one ended the program.
    if code > 128:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(code - 128).name}"
    return f"ended with {code}"


def total(stats):
    """The sums of what all processes said."""
    sums = {"kernels": 0, "launches": 0, "tables": 0, "missed": [], "refused": {}}
    names = set()
    for said in (one for of_child in stats for one in of_child):
        names.update(said["kernels"])
        sums["launches"] += said["launches"]
        sums["tables"] += said["tables_refused"]
        sums["missed"] += [name for name in said["missed"] if name not in sums["missed"]]
        for file, count in said["without_ptx"].items():
            sums["refused"][file] = sums["refused"].get(file, 0) + count
    sums["kernels"] = len(names)
    return sums
