"""A cluster of this host's own, and programs on it."""

import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time


class Cluster:
    """`warploom up` in a folder of its own, with workers on the CPU, one as a rule; stopped on leaving."""

    def __init__(self, binary, folder, workers=1, settings=(), leaders=1):
        self.binary, self.folder, self.settings = binary, folder, settings
        self.workers, self.leaders = workers, leaders
        folder.mkdir(parents=True, exist_ok=True)
        ours = {name: value for name, value in os.environ.items()
                if not name.startswith("WARPLOOM_")}
        self.environment = {
            **ours,
            "WARPLOOM_CLUSTER_STATE_DIR": str(folder / "state"),
            # Compiled kernels are kept from one run to the next, but not in the user's home.
            "CACHEDB": str(folder.parent / "tinygrad.db"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.process = None

    def __enter__(self):
        log = (self.folder / "cluster.log").open("w")
        self.process = subprocess.Popen(
            [self.binary, "up", "--leaders", str(self.leaders), "--workers", str(self.workers),
             "--set", "worker.device=cpu",
             # Kernels made for a GPU's thousands of lanes take a while here; tests have limits.
             "--set", "worker.watchdog=600s", "--set", "up.tenants=default",
             *(part for setting in self.settings for part in ("--set", setting))],
            cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=log, text=True,
            # Ctrl-C is ours to handle: what runs on the cluster ends first.
            start_new_session=True)
        for line in self.process.stdout:
            if " is up at " in line:
                threading.Thread(target=self.process.stdout.read, daemon=True).start()
                return self
        raise RuntimeError(f"the cluster did not start: see {self.folder / 'cluster.log'}")

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def start(self, program, *, tenant="default", priority=None, variables=None, arguments=(),
              **options):
        """Starts a program under `warploom run`, with further arguments for that."""
        command = [self.binary, "run", "--stats", "--tenant", tenant, *arguments]
        if priority is not None:
            command += ["--priority", str(priority)]
        environment = {**self.environment, **(variables or {})}
        return subprocess.Popen([*command, "--", *map(str, program)], env=environment, text=True,
                                cwd=options.pop("cwd", self.folder), start_new_session=True,
                                **options)

    def run(self, program, limit, **options):
        """Runs one to its end: its result in JSON, what it wrote, and how often it waited."""
        process = self.start(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        return finish(process, limit)

    def roles(self, name):
        """The processes of a role: of each its arguments, by its number."""
        children = " ".join(it.read_text() for it in pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/children"))
        found = {}
        for child in map(int, children.split()):
            try:
                arguments = pathlib.Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0")[:-1]
            except OSError:
                continue
            if arguments[1:2] == [name]:
                found[child] = arguments
        return found

    def status(self):
        """What `warploom status` knows, or nothing where it cannot be had just now."""
        asked = subprocess.run([self.binary, "status", "--json"], env=self.environment,
                               cwd=self.folder, capture_output=True, text=True, check=False)
        return json.loads(asked.stdout) if asked.returncode == 0 else None


def finish(process, limit):
    """Waits for a program, and ends it where that takes more than so many seconds."""
    began = time.monotonic()
    try:
        out, err = process.communicate(timeout=limit)
        code = process.returncode
    except subprocess.TimeoutExpired:
        stop(process)
        out, err = process.communicate()
        code = None
    return Ran(code, out, err, time.monotonic() - began)


class Ran:
    """A program that ended, or was ended (`code` is nothing then)."""

    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    @property
    def failed(self):
        """Why it did not go well, in one line, or nothing."""
        if self.code == 0:
            return None
        what = "took too long" if self.code is None else f"ended with {self.code}"
        said = [line for line in self.err.splitlines() if line and not line.startswith("warploom: ")]
        return f"{what}: {said[-1] if said else 'it said nothing'}"

    @property
    def told(self):
        """The JSON object that it printed last."""
        return json.loads(self.out.strip().splitlines()[-1])

    @property
    def waits(self):
        """How often it waited for an answer."""
        counted = re.search(r"waited (\d+) times for an answer", self.err)
        return int(counted[1]) if counted else None


def stop(process):
    """Ends a program and all that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
