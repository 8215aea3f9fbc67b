#!/usr/bin/env python3
"""Every relative link in the repository's Markdown resolves, anchors included.

Looked at are all *.md files. Beside them, every `docs/….md` that a source file, a help text or an error
message names must be there, with the heading that it names (`…, "Heading"`). Every file that a page names in
`code`, and every crate that its cargo commands name, must be in the repository; CHANGELOG.md apart, which
names what was. Every page of docs/ must be in docs/index.md, or in a README.md beside it. Prints what is
wrong; exit status 1 if there is anything.
"""

import os
import pathlib
import re
import subprocess
import sys
import urllib.parse
from fnmatch import fnmatch

ROOT = pathlib.Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
LINK = re.compile(r"\]\(\s*<?([^()\s<>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
ATTRIBUTE = re.compile(r"\b(?:src|srcset|href)=\"([^\"]+)\"")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
SOURCE = re.compile(r"`((?:[\w.*-]+/)+[\w.*-]+\.(?:rs|py|c|ptx|toml|txt|yaml|hex|md)|[\w*-]+\.rs)`")
FOLDER = re.compile(r"`((?:[\w.-]+/)+[\w-]*)`")
PACKAGE = re.compile(r"\bcargo \w+(?: -[-\w=]+| [A-Z_]+)*? (?:-p|--package) ([a-z][\w-]*)")
MENTION = re.compile(r"\b([Dd]ocs/[\w./-]+\.(?:md|yml|svg))\b(?:, \\?\"([^\"\\]+))?")


def prose(text):
    """The lines outside fenced code, with their numbers.

    >>> list(prose("a\\n```\\n# no heading\\n```\\nb"))
    [(1, 'a'), (5, 'b')]
    """
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        mark = FENCE.match(line)
        if fence:
            fence = None if mark and mark[1].startswith(fence) else fence
        elif mark:
            fence = mark[1]
        else:
            yield number, line


def anchors(text):
    """The anchors that a forge gives the headings of a page.

    >>> sorted(anchors("# The broker\\n## `pytest --warploom`\\n## Users, and *who* may\\n## The broker"))
    ['pytest---warploom', 'the-broker', 'the-broker-1', 'users-and-who-may']
    """
    found = {}
    for _, line in prose(text):
        if heading := HEADING.match(line):
            words = re.sub(r"\]\([^)]*\)", "", heading[1]).lower()
            slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
            found[slug] = found.get(slug, -1) + 1
    return {f"{slug}-{more}" if more else slug for slug, last in found.items() for more in range(last + 1)}


def targets(line):
    """The relative targets of a line's links; code is left out.

    >>> targets("[a](b.md#c), [d](https://e), `[f](g)`, <img src=\\"h.svg\\">, [i](#j)")
    ['b.md#c', '#j', 'h.svg']
    """
    line = re.sub(r"`[^`]*`", "``", line)
    found = LINK.findall(line) + ATTRIBUTE.findall(line)
    return [target for target in found if not re.match(r"[a-z][a-z0-9+.-]*:", target)]


def broken(page, target):
    """What is wrong with a page's link, or None."""
    path, _, anchor = urllib.parse.unquote(target).partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.is_relative_to(ROOT):
        return "leads out of the repository"
    if not file.exists():
        return "is not there"
    if anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
        return f"has no heading for #{anchor}"
    return None


def missing(line, names, tops):
    """The files and folders that a line names in code and that are not there; either may be named from any
    folder on. A name without an ending is looked for where it begins like a folder of the repository.

    >>> names = ["ops/cli/src/lib.rs", "tests/kernels/saxpy.ptx", ".ci/run"]
    >>> tops = {"ops", "tests", ".ci"}
    >>> missing("`cli/src/lib.rs`, `tests/*/*.ptx`, `ops/cli/`, `.ci/run`, `and/or`, `/tmp/x.rs`", names, tops)
    []
    >>> missing("`li/src/lib.rs`, `ops/lab`, `src/main.rs`, `lib.rs`, `gone.rs`", names, tops)
    ['li/src/lib.rs', 'src/main.rs', 'gone.rs', 'ops/lab']
    """
    gone = [file for file in SOURCE.findall(line) if not any(fnmatch("/" + name, "*/" + file) for name in names)]
    for folder in FOLDER.findall(line):
        inside = "/" + folder.rstrip("/") + "/"
        if folder.split("/")[0] in tops and not any(inside in f"/{name}/" for name in names):
            gone.append(folder)
    return gone


def mentions(line):
    """The pages that a line names, each with the heading that it names. One with a capital is taken too,
    as a fault: at the beginning of a sentence a path keeps its small letter.

    >>> [page.split("/") for page, heading in mentions("{}/a.md, or {}/b/c.svg.".format("docs", "Docs"))]
    [['docs', 'a.md'], ['Docs', 'b', 'c.svg']]
    """
    return MENTION.findall(line)


def packages(names):
    """The names of the repository's crates."""
    manifests = [ROOT / name for name in names if name.split("/")[-1] == "Cargo.toml"]
    texts = [file.read_text() for file in manifests if file.is_file()]
    return {name for text in texts for name in re.findall(r'(?m)^name = "([^"]+)"', text)}


def foreign(line, crates):
    """The crates that a line's cargo commands name and that are not there.

    >>> foreign("`cargo test -p ptx`, cargo run --release -p ptz --example x, mkdir -p a", {"ptx"})
    ['ptz']
    """
    return [crate for crate in PACKAGE.findall(line) if crate not in crates]


def faults(names):
    """One line for each link and each mention that leads nowhere."""
    crates = packages(names)
    tops = {"src", *(name.split("/")[0] for name in names if "/" in name)}
    for name in names:
        file = ROOT / name
        try:
            text = file.read_text()
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
        if file.suffix == ".md":
            for number, line in prose(text):
                for target in targets(line):
                    if wrong := broken(file, target):
                        yield f"{name}:{number}: {target} {wrong}"
                if name != "CHANGELOG.md":
                    for gone in missing(line, names, tops):
                        yield f"{name}:{number}: {gone} is not in the repository"
        for number, line in enumerate(text.splitlines(), 1):
            if file.suffix == ".md" and name != "CHANGELOG.md":
                for crate in foreign(line, crates):
                    yield f"{name}:{number}: there is no crate {crate}"
            for page, heading in mentions(line):
                if page.startswith("D"):
                    yield f"{name}:{number}: {page} begins with a capital; the folder is docs/"
                    continue
                anchor = "#" + next(iter(anchors(f"# {heading}"))) if heading else ""
                if wrong := broken(ROOT / "README.md", page + anchor):
                    yield f"{name}:{number}: {page} {wrong}"


def unlisted(names):
    """One line for each page of docs/ that no index leads to."""
    pages = {ROOT / name for name in names if name.startswith("docs/") and name.endswith(".md")}
    listed = {ROOT / "docs/index.md"}
    for index in [page for page in pages if page.name in ("index.md", "README.md")]:
        for _, line in prose(index.read_text()):
            listed.update((index.parent / target.partition("#")[0]).resolve() for target in targets(line))
    for page in sorted(pages - listed):
        yield f"{page.relative_to(ROOT)}: is not in docs/index.md"


def files():
    """What git knows or would take; of a tree without git, all but what builds leave behind."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        return [name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        found = []
        for folder, inner, names in os.walk(ROOT):
            inner[:] = [name for name in inner if name not in ("target", ".git", "__pycache__")]
            found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names]
        return found


def main():
    names = files()
    found = sorted({*faults(names), *unlisted(names)})
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
