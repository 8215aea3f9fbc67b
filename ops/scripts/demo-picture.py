#!/usr/bin/env python3
"""Draws docs/images/demo-*.svg: the launch order of a real demo around the death of its leader.

    ops/scripts/demo-picture.py target/release/warploom [FOLDER]

Evidence has no durations, the record has them. So this exports the record of the demo's own cluster
while the demo runs, lets `warploom order timeline` draw it, and sees that every position of the picture
is in the evidence that the demo signs at its end. FOLDER (default: a temporary one) keeps all of it.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Positions on each side of the new leader's first one, and the most that a picture may weigh.
AROUND = 120
MOST_BYTES = 60_000
LABEL = "leader killed; the next one's first grant"
NAMES = ("epoch", "global", "gpu", "position", "tenant", "ordinal", "kind", "first", "last")
BAR = re.compile(r'<rect x="([\d.]+)" .*?<title>.*?, positions? (\d+)[ :]')
TICK = re.compile(r'<line class="line" x1="[\d.]+" y1="(\d+)" x2="[\d.]+" y2="(\d+)"/>')
DARK = re.compile(r"@media \(prefers-color-scheme: dark\) \{\n(.*?)\n\}\n", re.DOTALL)


def warploom(program, *arguments):
    command = [program, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def rows_of(program, record):
    lines = warploom(program, "--json", "order", "show", "--limit", 0, record).splitlines()
    return [json.loads(line) for line in lines]


def run_demo(program, folder):
    """Runs the demo, and exports its cluster's record five seconds after the takeover."""
    work = folder / "tmp"
    work.mkdir()
    arguments = [program, "demo", "--workers", "1", "--evidence", str(folder / "evidence")]
    with (folder / "demo.txt").open("w") as out, (folder / "demo.err").open("w") as err:
        demo = subprocess.Popen(arguments, stdout=out, stderr=err, env={**os.environ, "TMPDIR": str(work)})
        try:
            until = time.monotonic() + 90
            while "epoch 2 grants" not in (folder / "demo.err").read_text():
                if demo.poll() is not None or time.monotonic() > until:
                    raise SystemExit("the demo's second leader never granted: see demo.err")
                time.sleep(0.1)
            time.sleep(5)
            (credentials,) = work.rglob("credentials.toml")
            warploom(program, "order", "export", "--out", folder / "demo.record",
                     "--set", f"broker.credentials={credentials}", "--set", "cluster.name=demo")
            if demo.wait(120):
                raise SystemExit("the demo failed: see demo.txt")
        finally:
            if demo.poll() is None:
                demo.terminate()
                demo.wait(30)


def check(drawn, evidence):
    """Every position of the picture is in the signed evidence, the same."""
    signed = {(row["epoch"], row["global"]): row for row in map(json.loads, evidence.open())}
    for row in drawn:
        other = signed.get((row["epoch"], row["global"]))
        # A standing grant's last op is known only once the worker has closed it.
        names = [name for name in NAMES if name != "last" or row["kind"] != "standing"]
        if other is None or any(row[name] != other[name] for name in names):
            raise SystemExit(f"not in the evidence: {row}")


def marked(svg, takeover):
    """The picture with a labelled line where the new leader's first position begins.

    It has one device that one worker served, so the bars' positions are the global ones too.

    >>> bar = '<rect x="{}" y="1"><title>chat, position {}: 1 kernels</title></rect>\\n'
    >>> tick = '<line class="line" x1="1.0" y1="84" x2="1.0" y2="168"/>\\n'
    >>> print(marked(tick + bar.format(150, 7) + bar.format(160.25, 8) + "</svg>\\n", 8), end="")
    ... # doctest: +ELLIPSIS
    <line class="line" x1="1.0" ...
    <line x1="160.2" y1="84" x2="160.2" y2="168" stroke="currentColor" stroke-dasharray="3 2"/>
    <text x="160.2" y="80" text-anchor="middle">leader killed; the next one's first grant</text>
    </svg>
    """
    x = min(float(x) for x, first in BAR.findall(svg) if int(first) >= takeover)
    top, bottom = map(int, TICK.search(svg).groups())
    line = (f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" stroke="currentColor" stroke-dasharray="3 2"/>\n'
            f'<text x="{x:.1f}" y="{top - 4}" text-anchor="middle">{LABEL}</text>\n')
    return svg.replace("</svg>\n", f"{line}</svg>\n")


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    folder = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp()).resolve()
    folder.mkdir(exist_ok=True)
    run_demo(program, folder)
    record = folder / "demo.record"
    rows = rows_of(program, record)
    takeover = min(row["global"] for row in rows if row["epoch"] == 2)
    first, last = max(takeover - AROUND, 1), takeover + AROUND
    drawn = [row for row in rows if first <= row["global"] <= last]
    check(drawn, folder / "evidence" / "order.jsonl")
    picture = folder / "demo.svg"
    print(warploom(program, "order", "timeline", record, "--from", first, "--to", last, "--out", picture), end="")
    svg = marked(picture.read_text(), takeover)
    images = ROOT / "docs" / "images"
    images.mkdir(exist_ok=True)
    # The picture follows its reader's screen; a forge's own switch is followed by one file for each.
    for name, style in (("light", ""), ("dark", r"\1\n")):
        text, found = DARK.subn(style, svg)
        if found != 1 or len(text.encode()) > MOST_BYTES:
            raise SystemExit(f"{found} dark styles, {len(text.encode())} bytes")
        (images / f"demo-{name}.svg").write_text(text)
    print(f"{len(drawn)} positions are in the evidence; the new leader's first is {takeover}; all in {folder}")


if __name__ == "__main__":
    main()
