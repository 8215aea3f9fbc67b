#!/usr/bin/env python3
"""Writes docs/evidence/gpu.md and its charts from the results in docs/evidence/gpu/*.jsonl.

    tests/gpu/page.py            writes them
    tests/gpu/page.py --check    exit code 1 if what is committed is not what the results say
"""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

from gpukit import charts, results  # noqa: E402
from gpukit.rows import Rows  # noqa: E402
from gpukit.summary import figure, met  # noqa: E402

FOLDER = HERE.parents[1] / "docs/evidence"
TITLES = {1: "One tenant", 2: "N tenants", 3: "Memory, faults, endurance"}
KINDS = ("launch", "middle", "large", "decode", "mix")
NEIGHBOURS = ("large", "train", "loader", "freer", "copier")

HEAD = """# On a GPU

This page is written by `tests/gpu/page.py` from the results in [gpu/](gpu); a test compares the two. The kit that
measures is described in [tests/gpu](../../tests/gpu/README.md). In the mode `bus` a tenant's work goes through the
broker. Missed goals come first. `-` stands for no value: the note has the reason.
[The first run](gpu/2026-11-26.md) says which programs ran and which failed, [the second](gpu/2026-11-27.md) what was
mended in between.
"""


class Page:
    """The page and its charts, from rows and the newest result of each key."""

    def __init__(self, rows, told):
        self.rows = rows
        self.told = {(it["metric"], it["mode"]): it for it in told if not it.get("rehearsal")}

    def files(self):
        """Every file, by its path below docs/evidence."""
        files, drawn = {}, []
        for name, title, groups in (self._throughput(), self._tail()):
            if groups:
                for theme in charts.COLOURS:
                    files[f"gpu/{name}-{theme}.svg"] = charts.bars(title, groups, theme)
                drawn.append((name, title))
        files["gpu.md"] = self._text(drawn)
        return files

    def _text(self, drawn):
        lines = [HEAD]
        for name, title in drawn:
            lines += ["<picture>", f'  <source media="(prefers-color-scheme: dark)" srcset="gpu/{name}-dark.svg">',
                      f'  <img alt="{title}" src="gpu/{name}-light.svg">', "</picture>", ""]
        for phase, title in TITLES.items():
            lines += [f"## Phase {phase}: {title.lower()}", ""]
            table = self._table(phase)
            lines += table or ["Not measured yet.", ""]
        lines += ["## Where and how", "", "| date | GPU | driver | clocks, MHz | command |", "| --- | --- | --- | --- | --- |"]
        seen = dict.fromkeys(self._source(it) for it in self.told.values())
        lines += [f"| {' | '.join(it)} |" for it in sorted(seen)]
        return "\n".join(lines) + "\n"

    @staticmethod
    def _source(result):
        clocks = result.get("clocks") or {}
        # A clock is told with each result; the page names the highest step of 100 MHz.
        clock = clocks.get("sm_mhz")
        return (result["at"][:10], result["gpu"], result["driver"], "-" if not clock else f"{round(clock, -2):.0f}",
                f"`{result.get('command', '')}`")

    def _table(self, phase):
        lines = []
        for row in self.rows.rows:
            for (name, mode), result in self.told.items():
                if name == row.name and row.phase == phase:
                    reached = met(row, result["value"])
                    lines.append((reached is not False, self._line(row, mode, result, reached)))
        if not lines:
            return []
        lines.sort(key=lambda it: it[0])
        return ["| row | mode | value | least to most | baseline | goal | what |",
                "| --- | --- | ---: | --- | ---: | ---: | --- |", *(it for _, it in lines), ""]

    @staticmethod
    def _line(row, mode, result, reached):
        spread = "" if result["min"] is None else f"{figure(result['min'])} to {figure(result['max'])}"
        goal = "" if row.goal is None else figure(row.goal) + (" missed" if reached is False else "")
        base = "" if result["baseline_value"] is None else f"{figure(result['baseline_value'])} ({result['baseline']})"
        what = result["reason"] or row.definition
        value = f"{figure(result['value'])} {row.unit if row.unit != 'ratio' else ''}".strip()
        return f"| `{row.name}` | {mode} | {value} | {spread} | {base} | {goal} | {what.replace('|', '/')} |"

    def _throughput(self):
        groups = []
        for kind in KINDS:
            for count in (2, 8):
                values = [(mode, it["value"]) for (name, mode), it in self.told.items()
                          if name == f"throughput_alone_{count}_{kind}" and it["value"] is not None]
                if values:
                    groups.append((f"{kind}, {count}", values))
        return "throughput", "Throughput of N jobs, in jobs alone on the GPU", groups

    def _tail(self):
        groups = []
        for neighbour in NEIGHBOURS:
            values = [(mode, it["value"]) for (name, mode), it in self.told.items()
                      if name == f"urgent_p99_ratio_{neighbour}" and it["value"] is not None]
            if values:
                groups.append((neighbour, values))
        return "tail", "Urgent requests: p99 beside a neighbour, over that alone", groups


def committed(folder=FOLDER):
    """The newest result of each key, by the time at which it was measured."""
    told = [it for path in sorted((folder / "gpu").glob("*.jsonl")) for it in results.read(path)]
    newest = {}
    for it in sorted(told, key=lambda it: it["at"]):
        if results.final(it):
            newest[it["metric"], it["mode"]] = it
    return list(newest.values())


def main():
    """Writes the page, or compares it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="writes nothing")
    options = parser.parse_args()
    files = Page(Rows.load(), committed()).files()
    others = [it for it in (FOLDER / "gpu").glob("*.svg") if f"gpu/{it.name}" not in files]
    wrong = [it for it, text in files.items() if not (FOLDER / it).exists() or (FOLDER / it).read_text() != text]
    if options.check:
        for it in [*wrong, *(it.name for it in others)]:
            print(f"docs/evidence/{it} is not what the results say: run tests/gpu/page.py", file=sys.stderr)
        return 1 if wrong or others else 0
    for it in others:
        it.unlink()
    for name, text in files.items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
