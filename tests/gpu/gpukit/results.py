"""The file of results: a row is on the disk before the next one is measured."""

import json
import os
import pathlib


def read(path):
    """The results of a file. A last line that was cut off is left out; the newest of a key counts."""
    newest = {}
    for line in pathlib.Path(path).read_text(errors="replace").splitlines():
        try:
            result = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(result, dict) and "metric" in result and "mode" in result:
            newest[result["metric"], result["mode"]] = result
    return list(newest.values())


def final(result):
    """True unless the step ended before it could measure the row: such a row is tried again."""
    return not result.get("again")


class Results:
    """Appends results to a file and syncs each one."""

    def __init__(self, path, had=()):
        self.path = pathlib.Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.newest = {}
        earlier = [*had, *(read(self.path) if self.path.exists() else ())]
        self._mend()
        self.file = self.path.open("ab")
        for result in earlier:
            key = result["metric"], result["mode"]
            if key not in self.newest or not final(self.newest[key]) or final(result):
                self.newest[key] = result
        here = {(it["metric"], it["mode"]) for it in read(self.path)}
        for key, result in self.newest.items():
            if key not in here:
                self._write(result)

    def _mend(self):
        """Ends a line that an interrupted run left without its end."""
        if self.path.exists() and (content := self.path.read_bytes()) and not content.endswith(b"\n"):
            with self.path.open("ab") as file:
                file.write(b"\n")

    def _write(self, result):
        self.file.write(json.dumps(result, allow_nan=False).encode() + b"\n")
        self.file.flush()
        os.fsync(self.file.fileno())

    def add(self, result):
        """Appends a result; the disk has it when this returns."""
        self._write(result)
        self.newest[result["metric"], result["mode"]] = result

    def has(self, key):
        """True if the row was measured, or cannot be measured on this host."""
        return key in self.newest and final(self.newest[key])

    def all(self):
        """The newest result of each key."""
        return list(self.newest.values())

    def close(self):
        """Closes the file."""
        self.file.close()
