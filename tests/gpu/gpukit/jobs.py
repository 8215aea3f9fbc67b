"""The jobs of `servers/jobs.json`, and the server of each."""

import json
import pathlib

FILE = pathlib.Path(__file__).resolve().parents[1] / "servers/jobs.json"


def jobs(group):
    """The jobs of a group: name, server, definition."""
    return [it for it in json.loads(FILE.read_text()) if it["group"] == group]


def server(step, which):
    """The command of a job server; in a rehearsal the stand-in serves all jobs."""
    if step.rehearsal:
        return [*step.script("servers/stand_in.py"), "--scale", step.scale]
    return step.script(f"servers/{which}_server.py")
