"""A Prometheus that reads a cluster, with the alerts of ops/prometheus in quick motion."""

import json
import math
import re
import signal
import subprocess
import urllib.error
import urllib.parse

from common import ROOT, Failed, ask, ports, until

RULES = ROOT / "ops/prometheus/alerts.yml"
# The times of the rules and those of the run. A rule with a time that is not here is to be thought about: the run
# fails. A day is as long as the run can wait for two of them.
TIMES = {"15s": "1s", "3m": "6s", "5m": "10s", "15m": "60s", "1h": "2m", "1d": "20s", "2d": "40s", "7d": "10m"}
# Until something has lasted for so long, an alert is pending. A page that is late on a busy machine is no fault.
LASTS = "5s"
# How often groups with an interval of their own are evaluated.
OFTEN = "1s"
# What a tenant may cost in a day without an alert, and in the run's day.
FLOORS = ("> 3600\n", "> 0.1\n")


def quick(rules):
    """The rules with the run's times."""
    def time(text):
        if text not in TIMES:
            raise Failed(f"monitor.py: no time of the run stands for {text}")
        return TIMES[text]
    rules = re.sub(r"^(\s+for: )\w+$", rf"\g<1>{LASTS}", rules, flags=re.MULTILINE)
    rules = re.sub(r"^(\s+interval: )\w+$", rf"\g<1>{OFTEN}", rules, flags=re.MULTILINE)
    rules = re.sub(r"\[(\w+)\]", lambda it: f"[{time(it[1])}]", rules)
    rules = re.sub(r"\[(\w+):(\w+)\]", lambda it: f"[{time(it[1])}:{time(it[2])}]", rules)
    rules = re.sub(r"\boffset (\w+)", lambda it: f"offset {time(it[1])}", rules)
    if FLOORS[0] not in rules:
        raise Failed("monitor.py: the floor of the cost is another one")
    return rules.replace(*FLOORS)


class Prometheus:
    """A Prometheus that reads a cluster."""

    def __init__(self, binary, folder, targets, controller, token):
        self.url = f"http://127.0.0.1:{ports(1)}"
        (folder / "token").write_text(token)
        (folder / "alerts.yml").write_text(quick(RULES.read_text()))
        self.config, self.rule_file = folder / "prometheus.yml", folder / "alerts.yml"
        self.settings = {
            "global": {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"},
            "scrape_configs": [
                {"job_name": "warploom", "static_configs": [{"targets": targets}]},
                {"job_name": "warploom-controller",
                 "authorization": {"credentials_file": str(folder / "token")},
                 "static_configs": [{"targets": [controller]}]},
            ],
        }
        # JSON is YAML.
        self.config.write_text(json.dumps(self.settings))
        self.log = (folder / "prometheus.log").open("w")
        self.command = [binary, f"--config.file={self.config}",
                        f"--storage.tsdb.path={folder / 'data'}", "--enable-feature=exemplar-storage",
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

    def watch(self):
        """Loads the rules. Before the first pages are read, no leader would be there."""
        self.config.write_text(json.dumps({**self.settings, "rule_files": [str(self.rule_file)]}))
        self.process.send_signal(signal.SIGHUP)

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

    def value(self, query):
        """The number that answers a query."""
        return float(self.data(query)[0]["value"][1])

    def rules(self):
        """All rules, once each was evaluated."""
        rules = [rule for group in self.get("rules")["groups"] for rule in group["rules"]]
        bad = [(rule["name"], rule["health"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"]
        if bad or not rules:
            raise Failed(f"rules: {bad}")
        return rules

    def firing(self):
        """The rules that fire now."""
        return [rule["name"] for rule in self.rules() if rule["state"] == "firing"]

    def fired(self):
        """The names of alerts that fire or have fired."""
        result = self.get("query", query='count_over_time(ALERTS{alertstate="firing"}[1h])')["result"]
        return {series["metric"]["alertname"] for series in result}

    def exemplars(self, query):
        """The labels of the exemplars of the last minutes."""
        now = self.get("query", query="time()")["result"][0]
        found = self.get("query_exemplars", query=query, start=float(now) - 600, end=now)
        labels = [exemplar["labels"] for series in found for exemplar in series["exemplars"]]
        if not labels:
            raise Failed(f"no exemplars for {query}")
        return labels
