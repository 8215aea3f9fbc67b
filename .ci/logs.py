#!/usr/bin/env python3
"""Every attribute of a log is on the page of signals, and none is there that no log has.

Looked at are the fields of the macros of `tracing` in all sources but those of tests, examples and the laboratory.

    .ci/logs.py   says which attributes differ; exit status 1 if there is one
"""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from circles import closing, code, without_tests  # pylint: disable=wrong-import-position

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/reference/signals.md"
LEFT_OUT = re.compile(r"(?:^|/)(?:tests|examples|lab|sim|workloads|fuzz)(?:/|\.rs$)|tests\.rs$")
LOG = re.compile(r"\btracing::(?:error|warn|info|debug|trace)!(?=\()")
FIELD = re.compile(r"[%?]?\s*(?:\w+\.)*(\w+)\s*(=(?!=)|$)", re.S)


def fields(text):
    """The fields of the logs in a source: the name and the line of each.

    >>> list(fields('tracing::warn!(%a, b = f(c, d), ?e.g, "words {x}", y);\\ntracing::info!("z")'))
    [('a', 1), ('b', 1), ('g', 1)]
    """
    text = without_tests(code(text)[0])
    for found in LOG.finditer(text):
        at, end, depth, part = found.end(), closing(text, found.end()), 0, ""
        line = text.count("\n", 0, at) + 1
        for sign in text[at + 1:end] + ",":
            depth += (sign in "([{") - (sign in ")]}")
            if sign != "," or depth:
                part += sign
                continue
            # The message is the first part without a name; only its arguments follow.
            if re.match(r"\s*@\d+@", part):
                break
            if named := FIELD.match(part.strip()):
                yield named[1], line
            part = ""


def listed():
    """The attributes of logs on the page."""
    section = PAGE.read_text().split("## Attributes of logs", 1)[1].split("\n## ", 1)[0]
    return set(re.findall(r"^\| `(\w+)` \|", section, re.M))


def main():
    """Compares the sources that git knows or would add with the page."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.rs"]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    there = {}
    for name in names:
        if not LEFT_OUT.search(name) and (ROOT / name).exists():
            for field, line in fields((ROOT / name).read_text()):
                there.setdefault(field, f"{name}:{line}")
    page = listed()
    for field in sorted(there.keys() - page):
        print(f"{there[field]}: `{field}` is not on {PAGE.relative_to(ROOT)}")
    for field in sorted(page - there.keys()):
        print(f"{PAGE.relative_to(ROOT)}: no log has `{field}`")
    return 1 if page != there.keys() else 0


if __name__ == "__main__":
    sys.exit(main())
