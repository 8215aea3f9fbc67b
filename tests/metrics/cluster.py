"""`warploom up` with metrics, tenants at work, and a collector for their traces."""

import contextlib
import http.server
import json
import os
import re
import signal
import subprocess
import threading

from common import PATIENCE, ROOT, Failed, ask, ports, ran, until

LEADERS = 2
# Tenant, workload, and the milliseconds between two of its requests.
TENANTS = (("chat", "chat", 20), ("train", "train", 20), ("spend", "search", 1000))
# Memory that sessions may have together, MiB. The tenants above hold a tenth of it.
CAPACITY = 64


class Collector(http.server.BaseHTTPRequestHandler):
    """A collector that takes everything: requests are traced, and buckets have exemplars."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Collectors(http.server.ThreadingHTTPServer):
    """Serves them. A connection may end at any time: the tracer is killed, too."""

    def handle_error(self, *_):
        pass


class Cluster:
    """A cluster of this machine's own."""

    def __init__(self, binary, folder):
        self.binary, self.folder, self.said, self.processes, self.tenants = binary, folder, None, [], []
        ours = {name: value for name, value in os.environ.items() if not name.startswith("WARPLOOM_")}
        self.environment = {**ours, "WARPLOOM_CLUSTER_STATE_DIR": str(folder / "state")}
        self.collector = Collectors(("127.0.0.1", 0), Collector)

    def __enter__(self):
        threading.Thread(target=self.collector.serve_forever, daemon=True).start()
        # The roles are leaders, a worker and a tracer.
        settings = ["worker.device=cpu", f"worker.capacity={CAPACITY}MiB", "metrics.dcgm=on",
                    f"up.metrics={ports(LEADERS + 2)}", "controller.listen=127.0.0.1:0",
                    "controller.prices=0.0001,0.00002,EUR",
                    f"telemetry.otlp=http://127.0.0.1:{self.collector.server_port}",
                    "up.tenants=" + ",".join(name for name, _, _ in TENANTS)]
        up = self.start(["up", "--json", "--leaders", str(LEADERS), "--workers", "1",
                         *(part for it in settings for part in ("--set", it))], "cluster")
        line = up.stdout.readline()
        if not line:
            raise Failed(f"the cluster did not start: {(self.folder / 'cluster.log').read_text()}")
        self.said = json.loads(line)
        threading.Thread(target=up.stdout.read, daemon=True).start()
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            stop(process)
        self.collector.shutdown()

    def start(self, arguments, name):
        """Starts a command that goes on."""
        with (self.folder / f"{name}.log").open("w") as log:
            process = subprocess.Popen([self.binary, *arguments], env=self.environment, cwd=self.folder,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                                       start_new_session=True)
        self.processes.append(process)
        return process

    def does(self, *arguments):
        """Runs a command to its end."""
        return ran([self.binary, *arguments], env=self.environment, cwd=self.folder)

    def work(self):
        """Sets the tenants to work."""
        self.does("tenant", "set", TENANTS[0][0], "--slo", "10s")
        for name, workload, think in TENANTS:
            process = self.start(["demo-tenant", f"--tenant={name}", f"--workload={workload}", "--seed=7",
                                  f"--think-ms={think}", f"--evidence={self.folder / name}.jsonl",
                                  "--set", f"broker.credentials={self.said['credentials']}"], name)
            if not process.stdout.readline():
                raise Failed(f"{name} does not work: {(self.folder / f'{name}.log').read_text()}")
            threading.Thread(target=process.stdout.read, daemon=True).start()
            self.tenants.append((name, process))
        for _, process in self.tenants:
            process.stdin.write("go\n")
            process.stdin.flush()

    def check_work(self):
        """No tenant has ended."""
        for name, process in self.tenants:
            if process.poll() is not None:
                raise Failed(f"{name} has ended: {(self.folder / f'{name}.log').read_text()}")

    @contextlib.contextmanager
    def hog(self, tenant, mebibytes):
        """Work of a tenant that does not end, with that much memory."""
        # Equal bytes would be kept once.
        content = self.folder / "hog.bin"
        content.write_bytes(os.urandom(mebibytes << 20))
        process = self.start(["submit", "--tenant", tenant, str(ROOT / "tests/kernels/saxpy.ptx"), "saxpy",
                              "--grid", "1", "--block", "4", "--arg", "u32:4", "--arg", "f32:2",
                              "--arg", "f32*4=1", "--arg", f"f32*{mebibytes << 18}:{content}", "--out", "2",
                              "--repeat", "2000000000"], "hog")
        threading.Thread(target=process.stdout.read, daemon=True).start()
        try:
            yield process
        finally:
            stop(process)
            self.processes.remove(process)

    def page(self, role):
        """The metrics of a role; empty while it does not run."""
        try:
            return ask(self.said["metrics"][role])
        except OSError:
            return ""

    def process(self, role):
        """The process of a role, by its page: it may have been started again."""
        found = re.search(r'process_pid="(\d+)"', self.page(role))
        if not found:
            raise Failed(f"the page of {role} names no process")
        return int(found[1])

    def candidates(self):
        """The processes of all leader candidates."""
        return [self.process(role) for role in self.said["metrics"] if role.startswith("leader")]

    def leader(self):
        """The process that leads, and its epoch."""
        def leading():
            for role in self.said["metrics"]:
                found = re.search(r"^warploom_epoch\{.*\} (\d+)", self.page(role), re.MULTILINE)
                if found and int(found[1]) > 0:
                    return self.process(role), int(found[1])
            raise Failed("no candidate leads")
        return until("a leader", PATIENCE, leading)


def stop(process):
    """Ends a process."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def stopped(processes):
    """These processes stand still."""
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)


@contextlib.contextmanager
def stuttering(process, stands=0.8, runs=0.1):
    """This process stands still for most of the time, seconds by seconds."""
    over = threading.Event()

    def stutter():
        while not over.is_set():
            with stopped([process]):
                over.wait(stands)
            over.wait(runs)
    thread = threading.Thread(target=stutter)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
