#!/usr/bin/env python3
"""Metrics with a real Prometheus: pages, dashboard and alerts of a cluster of this machine's own.

  tests/metrics/run.py                  all of it, about a minute
  tests/metrics/run.py --strict         the same; what cannot be had is a failure

Prometheus and promtool are found on PATH, or in target/tools/prometheus, where Debian's package is unpacked
(apt-get download, dpkg -x: nobody need be root). Without them it says so and skips. Checked are: alert rules
and their tests; with tenants at work, the page of each leader, worker and controller by `promtool check
metrics`; that a Prometheus reads all of them; that it answers every query of ops/grafana/warploom.json with
data; and that no alert fires. Exit status: 0 as expected or skipped, 1 something failed, 2 wrong usage.
"""

import argparse
import json
import math
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ROOT / "target/tools/prometheus"
RULES, RULE_TESTS = ROOT / "ops/prometheus/alerts.yml", ROOT / "ops/prometheus/alerts_test.yml"
DASHBOARD = ROOT / "ops/grafana/warploom.json"
LEADERS = 2
TENANTS = (("chat", "chat"), ("train", "train"))
# Names and labels of NVIDIA's exporter are not ours to choose.
NOT_OURS = re.compile(r"^DCGM_\w+ ")
# The local host's own servers are asked, whatever proxy the environment names.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Failed(Exception):
    """A check failed."""


class Missing(Exception):
    """Something cannot be had."""


def say(text):
    print(text, flush=True)


def tools():
    """Where Prometheus and promtool are: found, or installed."""
    for folder in (None, TOOLS / "usr/bin"):
        found = [shutil.which(name, path=folder and str(folder)) for name in ("prometheus", "promtool")]
        if all(found):
            return found
    for name in ("apt-get", "dpkg"):
        if shutil.which(name) is None:
            raise Missing(f"neither prometheus and promtool nor {name} are there")
    with tempfile.TemporaryDirectory() as folder:
        got = subprocess.run(["apt-get", "download", "prometheus"], cwd=folder, capture_output=True,
                             text=True, check=False)
        packages = list(pathlib.Path(folder).glob("*.deb"))
        if got.returncode != 0 or not packages:
            raise Missing(f"apt-get download prometheus: {got.stderr.strip()}")
        TOOLS.mkdir(parents=True, exist_ok=True)
        subprocess.run(["dpkg", "-x", packages[0], TOOLS], check=True)
    return [str(TOOLS / "usr/bin" / name) for name in ("prometheus", "promtool")]


def ran(command, **options):
    """Runs a command to its end, which must be a good one."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout


def ask(url, token=None, method="GET", body=None):
    """What is answered to a request."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, data=body, headers=headers, method=method)
    with OPENER.open(request, timeout=60) as answer:
        return answer.read().decode()


def until(what, patience, look):
    """Waits until `look` gives something; it says why not by what it raises."""
    asked, why = time.monotonic(), None
    while time.monotonic() - asked < patience:
        try:
            found = look()
            if found is not None:
                return found
        except (Failed, OSError) as error:
            why = error
        time.sleep(0.5)
    raise Failed(f"{what}: not after {patience} s: {why}")


def ports(count):
    """The first of so many ports in a row that nobody listens on."""
    for _ in range(100):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = probe.getsockname()[1]
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            return first
        except (OSError, OverflowError):
            continue
    raise Failed("no ports in a row are free")


class Cluster:
    """`warploom up` with metrics, and tenants at work."""

    def __init__(self, binary, folder):
        self.binary, self.folder, self.said, self.processes = binary, folder, None, []
        ours = {name: value for name, value in os.environ.items() if not name.startswith("WARPLOOM_")}
        self.environment = {**ours, "WARPLOOM_CLUSTER_STATE_DIR": str(folder / "state")}

    def __enter__(self):
        settings = ["worker.device=cpu", "metrics.dcgm=on", f"up.metrics={ports(LEADERS + 1)}",
                    "controller.listen=127.0.0.1:0", "up.tenants=" + ",".join(name for name, _ in TENANTS)]
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
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

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
        workers = []
        for name, workload in TENANTS:
            process = self.start(["demo-tenant", f"--tenant={name}", f"--workload={workload}", "--seed=7",
                                  "--think-ms=20", f"--evidence={self.folder / name}.jsonl",
                                  "--set", f"broker.credentials={self.said['credentials']}"], name)
            if not process.stdout.readline():
                raise Failed(f"{name} does not work: {(self.folder / f'{name}.log').read_text()}")
            threading.Thread(target=process.stdout.read, daemon=True).start()
            workers.append(process)
        for process in workers:
            process.stdin.write("go\n")
            process.stdin.flush()


def check_page(promtool, name, text):
    """Has promtool read a page: nothing to complain of but names that are NVIDIA's."""
    if not text.strip():
        raise Failed(f"the page of {name} is empty")
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True,
                          check=False)
    complaints = [line for line in (done.stdout + done.stderr).splitlines()
                  if line.strip() and not NOT_OURS.match(line)]
    if complaints or done.returncode not in (0, 3):
        raise Failed(f"promtool check metrics of {name}: {done.returncode} {complaints}")
    say(f"  page of {name}: {len(text.splitlines())} lines")


class Prometheus:
    """A Prometheus that reads a cluster."""

    def __init__(self, binary, folder, targets, controller, token):
        self.url = f"http://127.0.0.1:{ports(1)}"
        (folder / "token").write_text(token)
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [
                {"job_name": "warploom", "static_configs": [{"targets": targets}]},
                {"job_name": "warploom-controller", "scrape_interval": "2s",
                 "authorization": {"credentials_file": str(folder / "token")},
                 "static_configs": [{"targets": [controller]}]},
            ],
        }
        # JSON is YAML.
        (folder / "prometheus.yml").write_text(json.dumps(config))
        self.log = (folder / "prometheus.log").open("w")
        self.command = [binary, f"--config.file={folder / 'prometheus.yml'}",
                        f"--storage.tsdb.path={folder / 'data'}",
                        f"--web.listen-address={self.url.removeprefix('http://')}"]
        self.process = None

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)
        until("Prometheus", 60, lambda: ask(f"{self.url}/-/ready"))
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()

    def get(self, path, **query):
        """An answer of its interface."""
        try:
            text = ask(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}")
        except urllib.error.HTTPError as error:
            raise Failed(f"{path} {query}: {error.read().decode()}") from error
        return json.loads(text)["data"]

    def targets_up(self, count):
        """All targets, once each is up."""
        targets = self.get("targets")["activeTargets"]
        down = [(it["scrapeUrl"], it["health"], it["lastError"]) for it in targets if it["health"] != "up"]
        if down or len(targets) != count:
            raise Failed(f"{len(targets)} targets, not up: {down}")
        return targets

    def data(self, query):
        """The series that answer a query, once there are any."""
        result = self.get("query", query=query)["result"]
        values = [float(series["value"][1]) for series in result]
        if not values or not any(math.isfinite(value) for value in values):
            raise Failed(f"no data for {query}: {result}")
        return result


def queries():
    """The queries of the dashboard, as Grafana sends them."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    for panel in panels:
        for target in panel.get("targets", []):
            query = target["expr"].replace("$cluster", ".*").replace("$__rate_interval", "15s")
            yield panel["title"], query


def static(promtool):
    """What needs no cluster."""
    ran([promtool, "check", "rules", RULES])
    ran([promtool, "test", "rules", RULE_TESTS])
    say("  alert rules, and their tests")


def live(binary, prometheus, promtool, folder):
    """A cluster at work, read by Prometheus."""
    with Cluster(binary, folder) as cluster:
        cluster.work()
        controller = cluster.said["controllers"][0]["url"]
        token = cluster.does("controller", "token", "create", "prometheus", "--role", "viewer",
                             "--operation", "cluster.read").strip()
        operator = cluster.does("controller", "token", "create", "operator", "--role", "operator").strip()
        verified = json.loads(ask(f"{controller}/api/v1/order/verify", operator, "POST", b""))
        if verified["ok"] is not True:
            raise Failed(f"the order is not as recorded: {verified}")
        pages = cluster.said["metrics"]
        for name, url in pages.items():
            check_page(promtool, name, ask(url))
        check_page(promtool, "the controller", ask(f"{controller}/metrics", token))
        targets = [urllib.parse.urlsplit(url).netloc for url in pages.values()]
        address = urllib.parse.urlsplit(controller).netloc
        with Prometheus(prometheus, folder, targets, address, token) as read:
            count = len(targets) + 1
            until("all targets up", 60, lambda: read.targets_up(count))
            say(f"  {count} targets are up")
            asked = list(queries())
            for title, query in asked:
                until(title, 60, lambda query=query: read.data(query))
            say(f"  {len(asked)} queries of the dashboard have data")
            adds_up(read)
            check_alerts(read)
            read.targets_up(count)
            lose_worker(cluster, read)


def adds_up(read):
    """What Prometheus computes of tenants is what it computes of their device."""
    for parts, whole in (
            ("sum(warploom_core_credits_total)", "sum(warploom_gpu_credits_total)"),
            ("sum(DCGM_FI_DEV_FB_USED) * 1048576", "sum(warploom_vram_resident_bytes)"),
            ("sum(DCGM_FI_DEV_FB_USED) + sum(DCGM_FI_DEV_FB_FREE)",
             "sum(warploom_cluster_capacity_bytes) / 1048576")):
        def same(parts=parts, whole=whole):
            one, other = (float(read.data(query)[0]["value"][1]) for query in (parts, whole))
            if not math.isclose(one, other, rel_tol=1e-6):
                raise Failed(f"{parts} is {one}, {whole} is {other}")
            return True
        # The two are asked one after the other, and a page may be read between them.
        until(f"{parts} = {whole}", 60, same)
    say("  tenants add up to their device")


def check_alerts(read):
    """Every rule is evaluated, and nothing fires."""
    def evaluated():
        rules = [rule for group in read.get("rules")["groups"] for rule in group["rules"]]
        bad = [(rule["name"], rule["lastError"]) for rule in rules if rule["health"] != "ok"]
        if bad or not rules:
            raise Failed(f"rules: {bad}")
        return rules
    rules = until("rules", 60, evaluated)
    firing = [rule["name"] for rule in rules if rule["state"] == "firing"]
    if firing:
        raise Failed(f"alerts of a healthy cluster: {firing}")
    say(f"  {len(rules)} alerts, of which none fires")


def lose_worker(cluster, read):
    """A worker that is killed is told by its alert, and no other fires."""
    os.kill(cluster.said["workers"][0], signal.SIGKILL)
    def fired():
        firing = {alert["labels"]["alertname"] for alert in read.get("alerts")["alerts"]
                  if alert["state"] == "firing"}
        if firing != {"WarploomWorkerLost"}:
            raise Failed(f"alerts: {firing}")
        return firing
    until("the alert of a lost worker", 60, fired)
    say("  a worker that is killed is an alert")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "target/debug/warploom",
                        help="warploom (target/debug)")
    parser.add_argument("--strict", action="store_true", help="what cannot be had is a failure")
    given = parser.parse_args()
    if not given.binary.is_file():
        parser.error(f"{given.binary} is missing: cargo build, or --binary")
    try:
        prometheus, promtool = tools()
    except Missing as missing:
        say(f"skipped: {missing}")
        return 1 if given.strict else 0
    say(ran([prometheus, "--version"]).splitlines()[0])
    try:
        static(promtool)
        with tempfile.TemporaryDirectory(prefix="warploom-metrics-") as folder:
            live(given.binary.resolve(), prometheus, promtool, pathlib.Path(folder))
    except (Failed, OSError) as failed:
        say(f"FAILED: {failed}")
        return 1
    say("all as expected")
    return 0


if __name__ == "__main__":
    sys.exit(main())
