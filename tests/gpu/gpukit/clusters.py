"""Clusters of the host: started, watched, started again where one was lost."""

import json
import os
import signal
import subprocess
import threading
import time

from . import processes

#: Tenants of each cluster: programs find them there and need not make them.
TENANTS = ("default", *(f"t{it}" for it in range(8)), "urgent", "other")
#: Settings of each cluster: long kernels allowed, no page.
USUAL = (f"up.tenants={','.join(TENANTS)}", "worker.watchdog=60s", "up.controllers=0")


def base_environment(tools):
    """The environment of programs: the kit's own binaries first, nothing of a cluster of the host."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WARPLOOM_")}
    return {**kept, "PATH": f"{tools}:{kept.get('PATH', '')}", "PYTHONDONTWRITEBYTECODE": "1"}


class Cluster:
    """`warploom up` in a folder of its own."""

    def __init__(self, name, binary, folder, settings, tools):
        self.name, self.binary, self.folder, self.settings = name, binary, folder, settings
        self.environment = {**base_environment(tools), "WARPLOOM_CLUSTER_STATE_DIR": str(folder / "state"),
                            "WARPLOOM_CLIENT_RUNTIME_TABLES": "on"}
        self.process = None
        self.log = folder / f"{name}.log"

    def start(self, limit_s=60):
        """Starts the cluster and waits until it is up."""
        self.folder.mkdir(parents=True, exist_ok=True)
        words = [it for setting in (*USUAL, *self.settings) for it in ("--set", setting)]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [self.binary, "up", "--leaders", "1", "--workers", "1", *words], cwd=self.folder, text=True,
                env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        late = threading.Timer(limit_s, self.process.kill)
        late.start()
        try:
            for line in self.process.stdout:
                if " is up at " in line:
                    threading.Thread(target=self.process.stdout.read, daemon=True).start()
                    return self
        finally:
            late.cancel()
        raise processes.Ended(f"cluster {self.name} did not start: {' | '.join(self.last_lines(4))}")

    def stop(self, limit_s=10):
        """Ends the cluster; kills it if that takes too long."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(limit_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    __enter__ = start

    def __exit__(self, *_):
        self.stop()

    def lost(self):
        """True if the cluster's process has ended."""
        return self.process is not None and self.process.poll() is not None

    def last_lines(self, count=200):
        """The last lines of its log."""
        return self.log.read_text(errors="replace").splitlines()[-count:] if self.log.exists() else []

    def told(self, *words, limit_s=10):
        """The JSON that a command of the cluster prints, or None."""
        ran = processes.run([self.binary, *words, "--json"], limit_s, self.environment, self.folder)
        try:
            return json.loads(ran.out) if ran.code == 0 else None
        except json.JSONDecodeError:
            lines = [it for it in ran.out.splitlines() if it.strip()]
            return [json.loads(it) for it in lines]

    def command(self, *words, limit_s=10):
        """Runs a command of the cluster; raises if it fails."""
        ran = processes.run([self.binary, *words], limit_s, self.environment, self.folder)
        if ran.failed:
            raise processes.Ended(f"warploom {' '.join(words)}: {ran.failed}")
        return ran.out

    def serves(self, limit_s=30):
        """Waits until a worker serves; false if none does in time."""
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            status = self.told("status")
            if status and any(not it["lost"] for it in status["workers"]):
                return True
            time.sleep(0.1)
        return False


class Supervisor:
    """Watches clusters and starts again those that were lost."""

    def __init__(self, note):
        self.clusters, self.note = [], note
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def add(self, cluster):
        """Starts a cluster, watched from then on."""
        cluster.start()
        self.clusters.append(cluster)
        return cluster

    def _watch(self):
        while not self.done.wait(0.5):
            for cluster in self.clusters:
                if cluster.lost():
                    self.note(f"cluster {cluster.name} was lost (exit code {cluster.process.returncode}); "
                              f"its last lines:", cluster.last_lines())
                    try:
                        cluster.start()
                    except processes.Ended as failed:
                        self.note(str(failed), [])

    def stop(self):
        """Ends the watch and all clusters."""
        self.done.set()
        self.thread.join()
        for cluster in self.clusters:
            cluster.stop()
