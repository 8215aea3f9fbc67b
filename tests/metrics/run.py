#!/usr/bin/env python3
"""Metrics with a real Prometheus: pages, dashboard and alerts of a cluster of this machine's own.

  tests/metrics/run.py                  all of it, about four minutes
  tests/metrics/run.py --strict         the same; what cannot be had is a failure

Prometheus and promtool are found on PATH, or in target/tools/prometheus, where Debian's package is unpacked
(apt-get download, dpkg -x: root is not needed). Without them it says so and skips. Checked are: alert rules
and their tests; with tenants at work, the page of each leader, worker, tracer and controller by `promtool check
metrics`; that a Prometheus reads all of them, with exemplars; that it answers every query of
ops/grafana/warploom.json with data; and that no alert fires. Then each alert is made to fire by a fault of the
cluster (faults.py), by the same rules with shorter times (monitor.py). Exit status: 0 as expected or skipped, 1
something failed, 2 wrong usage.
"""

import argparse
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

from cluster import Cluster
from common import PATIENCE, ROOT, Failed, Missing, ask, ran, say, until
from faults import LASTING, MENDED, UNMADE, Live, check_faults, check_mended, check_table
from monitor import RULES, TIMES, Prometheus

TOOLS = ROOT / "target/tools/prometheus"
# The alerts on the cost of a day are tested apart, for their tests last for days.
RULE_TESTS = [ROOT / "ops/prometheus/alerts_test.yml", ROOT / "tests/metrics/cost_test.yml"]
DASHBOARD = ROOT / "ops/grafana/warploom.json"
# Names and labels of NVIDIA's exporter are not ours to choose.
NOT_OURS = re.compile(r"^DCGM_\w+ ")


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
    for tests in RULE_TESTS:
        ran([promtool, "test", "rules", tests])
    check_table()
    say("  alert rules, and their tests")


def live(binary, prometheus, promtool, folder):
    """A cluster at work, read by Prometheus: first a healthy one, then one with faults."""
    with Cluster(binary, folder) as cluster:
        cluster.work()
        controller = cluster.said["controllers"][0]["url"]
        token = cluster.does("controller", "token", "create", "prometheus", "--role", "viewer",
                             "--operation", "cluster.read").strip()
        operator = cluster.does("controller", "token", "create", "operator", "--role", "operator").strip()
        pages = cluster.said["metrics"]
        for name, url in pages.items():
            check_page(promtool, name, ask(url))
        check_page(promtool, "the controller", ask(f"{controller}/metrics", token))
        targets = [urllib.parse.urlsplit(url).netloc for url in pages.values()]
        address = urllib.parse.urlsplit(controller).netloc
        with Prometheus(prometheus, folder, targets, address, token) as read:
            all_of_it = Live(cluster, read, controller, operator)
            verified = all_of_it.verify()
            if verified["ok"] is not True:
                raise Failed(f"the order is not as recorded: {verified}")
            check_healthy(read, len(targets) + 1)
            made = set()
            check_faults(all_of_it, MENDED, made)
            check_mended(all_of_it)
            until("all targets up", PATIENCE, lambda: read.targets_up(len(targets) + 1))
            check_faults(all_of_it, LASTING, made)
            for name, reason in UNMADE.items():
                say(f"  {name}: by promtool only, for {reason}")


def check_healthy(read, targets):
    """All is read, all queries are answered, and no alert fires."""
    until("all targets up", 60, lambda: read.targets_up(targets))
    say(f"  {targets} targets are up")
    read.watch()
    asked = list(queries())
    for title, query in asked:
        until(title, 60, lambda query=query: read.data(query))
    say(f"  {len(asked)} queries of the dashboard have data")
    adds_up(read)
    labels = until("exemplars", 60, lambda: read.exemplars("warploom_request_duration_seconds_bucket"))
    bad = [it for it in labels if not re.fullmatch(r"[0-9a-f]{32}", it.get("trace_id", ""))]
    if bad:
        raise Failed(f"exemplars: {bad}")
    say(f"  {len(labels)} exemplars name traces")
    # The longest time that a rule looks back to on a healthy cluster: a cost is compared after two days.
    before = f"warploom_core_credits_total offset {TIMES['2d']}"
    until("two days", PATIENCE, lambda: read.data(before))
    rules = until("rules", 60, read.rules)
    if read.fired():
        raise Failed(f"alerts of a healthy cluster: {read.fired()}")
    read.targets_up(targets)
    say(f"  {len(rules)} rules, of which none fires")


def adds_up(read):
    """What Prometheus computes of tenants is what it computes of their device."""
    for parts, whole in (
            ("sum(warploom_core_credits_total)", "sum(warploom_gpu_credits_total)"),
            ("sum(DCGM_FI_DEV_FB_USED) * 1048576", "sum(warploom_vram_resident_bytes)"),
            ("sum(hw_gpu_memory_usage_bytes)", "sum(warploom_vram_resident_bytes)"),
            ("sum(hw_gpu_memory_limit_bytes)", "sum(warploom_cluster_capacity_bytes)"),
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
