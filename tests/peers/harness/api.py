"""Whatever the interface's document allows, and what it does not, asked by a fuzzer: no answer of the controller is a
failure of its own, or one that the document does not know."""

import json
import re
import subprocess
import urllib.request

from . import wheels
from .cluster import Cluster

#: How many requests each operation is asked that are drawn, beside those made from its schema.
DRAWN = "20"
#: A request that fits its schema may still make no sense (a group that is none, a key of another request): the
#: answer is a problem then. And whoever asks without a token for long hears 429 and not 401; who hears what is in
#: tests/end-to-end/control/roles.rs.
NOT_CHECKED = "positive_data_acceptance,ignored_auth"
#: Streams have no end that could be looked at.
STREAMS = "/events/"
#: What ends the fuzzer's own way in.
OWN = r"^/api/v1/(tokens/\{token\}|logout)$"


def api(stage, row):
    """schemathesis on the controller's own document: each operation, sense and nonsense, with a token and without."""
    python = wheels.environment(stage.options.tools, "api-requirements.txt")
    with Cluster(stage.options.binary, stage.keep / "api") as cluster:
        link = json.loads(_command(cluster, "controller", "link", "--json"))["link"]
        url = link.split("/login")[0]
        token = _command(cluster, "controller", "token", "create", "fuzzer", "--role", "operator").strip()
        document = f"{url}/api/v1/openapi.json"
        for name, arguments in (("all", ("--exclude-path-regex", f"{STREAMS}|{OWN}")),
                                ("own", ("--include-path-regex", OWN))):
            _fuzz(stage, row, python, [document, "--header", f"Authorization: Bearer {token}", *arguments], name)
        _sound(row, cluster, url, token)


def _command(cluster, *arguments):
    asked = subprocess.run([cluster.binary, *arguments], env=cluster.environment, cwd=cluster.folder,
                           capture_output=True, text=True, check=False)
    if asked.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: {asked.stderr.strip()}")
    return asked.stdout


def _fuzz(stage, row, python, arguments, name):
    """One run; its counts go into the row."""
    log = stage.keep / f"schemathesis-{name}.log"
    command = [python, "-m", "schemathesis.cli", "run", *arguments, "--exclude-checks", NOT_CHECKED,
               "--phases", "examples,coverage,fuzzing", "--max-examples", DRAWN, "--request-timeout", "30",
               "--no-color"]
    ran = subprocess.run(command, cwd=stage.keep, capture_output=True, text=True, timeout=900, check=False)
    log.write_text(ran.stdout + ran.stderr)
    cases = re.search(r"(\d+) generated", ran.stdout)
    failures = re.findall(r"^\s+❌ (ST\d+ .*)$", ran.stdout, re.MULTILINE)
    row.passed += int(cases[1]) if cases else 0
    if ran.returncode or not cases:
        row.failed += max(1, len(failures))
        row.fail(f"{'; '.join(failures) or 'schemathesis failed'}: see {log.name} of --keep")
    else:
        row.notes.append(f"{name}: {cases[0].split()[0]} requests")


def _sound(row, cluster, url, token):
    """After all that, the token is good, the cluster answers, and its order is whole."""
    for method, path in (("GET", "cluster"), ("POST", "order/verify")):
        request = urllib.request.Request(f"{url}/api/v1/{path}", method=method,
                                         headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            told = json.loads(answer.read())
        if told.get("ok", True):
            row.passed += 1
        else:
            row.failed += 1
            row.fail(f"{path}: {told}")
    if cluster.status() is None:
        row.failed += 1
        row.fail("no leader answers any more")
