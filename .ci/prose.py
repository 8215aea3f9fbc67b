#!/usr/bin/env python3
"""The voice of comments and pages, in numbers that may only fall.

Counted are, for each crate and for the pages as a whole:

    markers    words that hide who does something: nobody, whoever, somebody, whose, "those who"
    openings   comments on items that begin with a relative word, such as What, Whether or Who
    long       sentences of more than 30 words
    wide       lines of more than 120 columns, code included

Code blocks, tables, headings and what is in backquotes are no prose. The numbers of the last change are in
.ci/prose.txt. A number above its own there is an error, and so is a commit subject of more than 72 characters or a
commit without a body, from the commit on that the first line of that file names.

    .ci/prose.py                 says what rose; exit status 1 if something did
    .ci/prose.py --table         the numbers of each crate
    .ci/prose.py --list CRATE    where in a crate they come from
    .ci/prose.py --bless         writes .ci/prose.txt, where no number rose
"""

import argparse
import pathlib
import re
import subprocess
import sys
from dataclasses import astuple, dataclass, fields

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from circles import TOKEN  # pylint: disable=wrong-import-position

ROOT = pathlib.Path(__file__).resolve().parents[1]
KEPT = ROOT / ".ci/prose.txt"
PAGES = "pages"
MARKER = re.compile(r"\b(?:nobody|whoever|whomever|somebody|whose|those who)\b", re.I)
OPENING = re.compile(r"(?:What|Whether|How|Where|When|Who|Whom|Whose|Whoever|Which|Why|That|If)\b")
CODE = re.compile(r"`[^`]*`")
SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=:)\s*$", re.M)
WORDS, COLUMNS, SUBJECT = 30, 120, 72


@dataclass
class Counts:
    """What was counted in some files."""

    markers: int = 0
    openings: int = 0
    long: int = 0
    wide: int = 0
    lines: int = 0
    items: int = 0

    def add(self, other):
        """Adds another's."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    def above(self, kept):
        """The names of the numbers that are above those kept."""
        names = ("markers", "openings", "long", "wide")
        return [name for name in names if getattr(self, name) > getattr(kept, name)]


@dataclass(frozen=True)
class Found:
    """One thing that is counted, and where it is."""

    kind: str
    path: str
    line: int
    text: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.kind}: {self.text}"


def git(*arguments):
    """What git prints."""
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def comments(text):
    """The comment lines of a Rust source: number, mark and text of each.

    >>> list(comments('/// A thing.\\nlet a = "// no";  // yes\\n//! Head'))
    [(1, '///', 'A thing.'), (3, '//!', 'Head')]
    """
    for token in TOKEN.finditer(text):
        begin = text.rfind("\n", 0, token.start()) + 1
        if not token[0].startswith("//") or text[begin : token.start()].strip():
            continue
        mark = re.match(r"//[/!]?", token[0])[0]
        yield text.count("\n", 0, token.start()) + 1, mark, token[0][len(mark) :].strip()


def blocks(lines):
    """The comments: runs of lines that follow one another with the same mark."""
    block = []
    for line in lines:
        if block and (line[0] != block[-1][0] + 1 or line[1] != block[-1][1]):
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def paragraphs(lines):
    """The paragraphs and items of lists in lines of text, as (number, text), without what is no prose.

    >>> paragraphs([(1, 'A b'), (2, 'c.'), (3, '- d'), (4, '```'), (5, 'x'), (6, '```'), (7, '| t |'), (8, 'e')])
    [(1, 'A b c.'), (3, 'd'), (8, 'e')]
    """
    found, fenced, open_ = [], False, False
    for number, text in lines:
        text = text.strip()
        if text.startswith(("```", "~~~")):
            fenced, open_ = not fenced, False
        elif fenced or not text or text.startswith(("|", "#", "<", ">", "[!")):
            open_ = False
        elif (item := re.match(r"(?:[-*]|\d+\.)\s+(.*)", text)) is not None:
            found.append((number, item[1]))
            open_ = True
        elif open_:
            found[-1] = (found[-1][0], f"{found[-1][1]} {text}")
        else:
            found.append((number, text))
            open_ = True
    return found


def in_prose(path, lines):
    """The markers and the long sentences of lines of text."""
    for number, text in paragraphs(lines):
        plain = CODE.sub("x", text)
        for marker in MARKER.finditer(plain):
            yield Found("markers", path, number, plain[max(marker.start() - 30, 0) : marker.end() + 30])
        for sentence in SENTENCE.split(plain):
            if len(sentence.split()) > WORDS:
                yield Found("long", path, number, sentence)


def in_source(path, text):
    """What is counted in a Rust source."""
    for block in blocks(comments(text)):
        yield from in_prose(path, [(number, line) for number, _, line in block])
        number, mark, line = block[0]
        if mark == "///" and OPENING.match(line):
            yield Found("openings", path, number, line)


def wide(path, text):
    """The lines that are too wide."""
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > COLUMNS:
            yield Found("wide", path, number, line[:60])


def crates():
    """The folders of crates, the deepest first."""
    folders = {str(pathlib.PurePath(path).parent) for path in git("ls-files", "*Cargo.toml").split()}
    return sorted(folders, key=len, reverse=True)


def measured():
    """What is found, and the counts, by crate."""
    folders, found, counts = crates(), {}, {}
    listed = git("ls-files", "--cached", "--others", "--exclude-standard", "*.rs", "*.md")
    for path in filter(lambda path: (ROOT / path).exists(), listed.splitlines()):
        text = (ROOT / path).read_text()
        if path.endswith(".md"):
            crate, here = PAGES, list(in_prose(path, enumerate(text.splitlines(), 1)))
            lines, items = sum(bool(line.strip()) for line in text.splitlines()), 0
        else:
            crate = next(folder for folder in folders if folder == "." or path.startswith(f"{folder}/"))
            here = list(in_source(path, text)) + list(wide(path, text))
            written = list(comments(text))
            lines = len(written)
            items = sum(block[0][1] == "///" for block in blocks(written))
        found.setdefault(crate, []).extend(here)
        count = Counts(lines=lines, items=items)
        for one in here:
            setattr(count, one.kind, getattr(count, one.kind) + 1)
        counts.setdefault(crate, Counts()).add(count)
    return found, counts


def kept():
    """The commit that the rule for subjects begins with, and the kept counts by crate."""
    first, *rows = [line for line in KEPT.read_text().splitlines() if not line.startswith("#")]
    split = (row.split() for row in rows)
    return first, {row[0]: Counts(*map(int, row[1:])) for row in split}


def subjects(since):
    """The commits whose message breaks the rule."""
    try:
        log = git("log", "--no-merges", "--format=%h%x1f%s%x1f%b%x1e", f"{since}..HEAD")
    except subprocess.CalledProcessError:
        # A copy without the history: there is nothing to be held.
        return []
    found = []
    for commit in filter(None, (entry.strip("\n") for entry in log.split("\x1e"))):
        name, subject, body = commit.split("\x1f")
        if len(subject) > SUBJECT:
            found.append(f"{name}: the subject has {len(subject)} characters, {SUBJECT} at most: {subject}")
        if not body.strip():
            found.append(f"{name}: a body that says why is missing: {subject}")
    return found


def rate(part, whole):
    """So many in a hundred, or in a thousand where it is multiplied by ten."""
    return 100 * part / whole if whole else 0.0


def table(counts):
    """The counts, the crates with the most markers first."""
    total = Counts()
    for crate, count in counts.items():
        if crate != PAGES:
            total.add(count)
    print(f"{'':34} {'markers':>8} {'/1000':>6} {'openings':>9} {'%':>5} {'long':>6} {'wide':>5}")
    rows = sorted(counts.items(), key=lambda row: -row[1].markers) + [("all crates", total)]
    for crate, it in rows:
        per_line, per_item = 10 * rate(it.markers, it.lines), rate(it.openings, it.items)
        print(f"{crate:34} {it.markers:8} {per_line:6.1f} {it.openings:9} {per_item:5.1f} {it.long:6} {it.wide:5}")


def bless(first, counts):
    """Writes the kept counts."""
    head = "# The commit that the rule for commits begins with; then markers, openings, long, wide, lines, items.\n"
    rows = [f"{crate} {' '.join(map(str, astuple(count)))}\n" for crate, count in sorted(counts.items())]
    KEPT.write_text(head + first + "\n" + "".join(rows))


def main():
    """Measures, and compares with what is kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--list", metavar="CRATE")
    parser.add_argument("--bless", action="store_true")
    options = parser.parse_args()
    found, counts = measured()
    if options.table:
        return table(counts)
    if options.list:
        print(*found.get(options.list.rstrip("/"), []), sep="\n")
        return 0
    first, before = kept()
    wrong = []
    for crate, count in sorted(counts.items()):
        for name in count.above(before.get(crate, Counts())):
            then = getattr(before.get(crate, Counts()), name)
            wrong.append(f"{crate}: {name} rose from {then} to {getattr(count, name)} (.ci/prose.py --list {crate})")
    if options.bless and not wrong:
        bless(first, counts)
        return 0
    wrong += subjects(first)
    print(*wrong, sep="\n", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
