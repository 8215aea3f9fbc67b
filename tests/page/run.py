#!/usr/bin/env python3
"""The tests of the control room page, in one command.

Says what is missing, installs what package-lock.json pins, and runs run.mjs with the same arguments:

    tests/page/run.py                       all of it, against a mock
    tests/page/run.py --url URL --login LINK
                                            what changes nothing, against a real controller; LINK is what
                                            `warploom controller link` prints
    tests/page/run.py --only speed          some steps: units, pictures, axe, shift, keyboard, states, why, speed
"""

import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OLDEST_NODE = 20


def missing():
    """What has to be installed first, a line each."""
    lines = []
    node = shutil.which("node")
    if not node or not shutil.which("npm"):
        lines.append("Node.js 20 or newer with npm: apt-get install -y nodejs npm")
    elif int(subprocess.check_output([node, "--version"], text=True).lstrip("v").split(".")[0]) < OLDEST_NODE:
        lines.append("a newer Node.js: 20 or newer")
    if not any(shutil.which(name) for name in BROWSERS):
        lines.append("Chromium: apt-get install -y chromium")
    return lines


def installed():
    """Whether node_modules is what package-lock.json pins."""
    mark = HERE / "node_modules" / ".package-lock.json"
    return mark.exists() and mark.stat().st_mtime >= (HERE / "package-lock.json").stat().st_mtime


def main():
    lines = missing()
    if lines:
        sys.exit("missing:\n  " + "\n  ".join(lines))
    if not installed():
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=HERE, check=True)
    sys.exit(subprocess.run(["node", "run.mjs", *sys.argv[1:]], cwd=HERE).returncode)


if __name__ == "__main__":
    main()
