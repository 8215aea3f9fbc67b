"""What all parts of the run use: commands, requests, and waits for events."""

import pathlib
import socket
import subprocess
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The local host's own servers are asked, whatever proxy the environment names.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
# Time within which what is waited for happens on a slow machine, seconds.
PATIENCE = 120


class Failed(Exception):
    """A check failed."""


class Missing(Exception):
    """Something cannot be had."""


def say(text):
    print(text, flush=True)


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
    """The first of so many free ports in a row."""
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
