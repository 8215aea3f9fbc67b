#!/usr/bin/env python3
"""Compares this tree's speed with that of the last release, in turns on one machine, and says what became slower.

Both are built in release, the other in a clone of its own below target/speed. Each turn measures every figure with
either build, one beginning in one turn and the other in the next. A figure is slower where the two builds differ
by more than the same build does from turn to turn. A machine that does other work meanwhile spoils it all.

    .ci/speed.py                           against the commit in tests/last-release.txt
    .ci/speed.py --base 1082b2a            against another commit
    .ci/speed.py --only alloc free         figures whose name has one of these in it
    .ci/speed.py --turns 5 --json          more turns; one object a line

Exit status: 0 if nothing became slower, 1 if something did, 2 if it could not be measured.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[1]
PLACE = ROOT / "target" / "speed"


class Trouble(Exception):
    """Why nothing could be measured."""


@dataclass(frozen=True)
class Figure:
    """What is compared: a metric of a benchmark."""

    name: str
    bench: str
    metric: str
    unit: str
    more_is_better: bool = False


FIGURES = (
    Figure("launch_call", "client", "launch_call_ns", "ns"),
    Figure("alloc", "client", "alloc_call_ns", "ns"),
    Figure("free", "client", "free_call_ns", "ns"),
    Figure("event", "client", "event_call_ns", "ns"),
    Figure("enqueue", "bus", "enqueue_ns", "ns"),
    Figure("launches", "bus", "launches_per_s", "1/s", more_is_better=True),
    Figure("wait", "bus", "sync_launch_us", "us"),
    Figure("alone_wait", "order", "uncontended_sync_ratio", "ratio"),
)


def done(command, cwd):
    """Runs a command whose output is shown; it has to end well."""
    if subprocess.run(command, cwd=cwd, stdout=sys.stderr, check=False).returncode:
        raise Trouble(f"{' '.join(map(str, command))} failed")


def said(*command):
    """What a command prints."""
    ran = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if ran.returncode:
        raise Trouble(f"{' '.join(command)} failed")
    return ran.stdout.strip()


def release():
    """The commit of the last release."""
    lines = (ROOT / "tests" / "last-release.txt").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line and not line.startswith("#"))


def built(commit):
    """The binary of a commit, built once below target/speed; of this tree without one."""
    if commit is None:
        done(["cargo", "build", "--release", "--locked"], ROOT)
        return ROOT / "target" / "release" / "warploom"
    commit = said("git", "rev-parse", f"{commit}^{{commit}}")
    clone = PLACE / commit[:12]
    binary = clone / "target" / "release" / "warploom"
    if not binary.exists():
        if not clone.exists():
            done(["git", "clone", "--quiet", "--no-checkout", ROOT, clone], ROOT)
        done(["git", "checkout", "--quiet", commit], clone)
        done(["cargo", "build", "--release", "--locked"], clone)
    return binary


def measured(binary, figure):
    """One value of a figure; nothing where the build has none."""
    command = [binary, "bench", figure.bench, "--only", figure.metric, "--reps", "5", "--json"]
    # A benchmark below its goal is an error of its own, and its value is there all the same.
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                         cwd=binary.parent)
    for line in ran.stdout.splitlines():
        row = json.loads(line)
        if row.get("metric") == figure.metric:
            return row.get("value")
    return None


def turns(figure, binaries, count, tell):
    """The values of this build and of the other one, turn by turn."""
    values = ([], [])
    for turn in range(count):
        for which in ((0, 1), (1, 0))[turn % 2]:
            tell(f"{figure.name}, turn {turn + 1} of {count}, {('this tree', 'the other')[which]}")
            value = measured(binaries[which], figure)
            if value is not None:
                values[which].append(value)
    return values


def spread(values):
    """How far the values of one build lie apart, over their median.

    >>> spread([100, 90, 110])
    0.2
    """
    return (max(values) - min(values)) / statistics.median(values)


def judged(figure, ours, theirs, config):
    """A figure as an object of JSON, with whether it became slower.

    >>> time = Figure("wait", "bus", "sync_launch_us", "us")
    >>> row, slower = judged(time, [130, 131, 132], [100, 101, 102], "a base")
    >>> row["metric"], row["value"], slower
    ('speed_wait_ratio', 1.297, True)

    What differs by less than a build differs from itself is no slower.

    >>> judged(time, [104, 90, 120], [100, 101, 102], "a base")[1]
    False

    Of a rate less is slower.

    >>> rate = Figure("launches", "bus", "launches_per_s", "1/s", more_is_better=True)
    >>> [judged(rate, [value], [100], "a base")[1] for value in (80, 120)]
    [True, False]
    >>> judged(rate, [], [100], "a base")[0]["value"] is None
    True
    """
    row = {"metric": f"speed_{figure.name}_ratio", "value": None, "unit": "ratio", "baseline": f"{figure.metric} of {config}",
           "baseline_value": None, "min": None, "max": None, "reps": len(ours), "config": f"{figure.bench}, in turns"}
    if not ours or not theirs:
        row["why"] = "a build has no such figure"
        return row, False
    ratios = [one / other for one, other in zip(ours, theirs)]
    ratio = statistics.median(ours) / statistics.median(theirs)
    noise = max(spread(ours), spread(theirs))
    row |= {"value": round(ratio, 3), "baseline_value": statistics.median(theirs), "min": round(min(ratios), 3),
            "max": round(max(ratios), 3), "own_value": statistics.median(ours), "noise": round(noise, 3)}
    slower = 1 / ratio if figure.more_is_better else ratio
    return row, slower > 1 + noise


def table(rows):
    """The figures for people."""
    lines = [("figure", "this tree", "the other", "ratio", "noise", "")]
    for figure, row, slower in rows:
        if row["value"] is None:
            lines.append((figure.name, "-", "-", "-", "-", row["why"]))
            continue
        own, other = (f"{row[key]:,.4g} {figure.unit}" for key in ("own_value", "baseline_value"))
        lines.append((figure.name, own, other, f"{row['value']:.3f}", f"{row['noise']:.3f}", "slower" if slower else ""))
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip() for line in lines)


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", metavar="COMMIT", help="the other build (the last release)")
    parser.add_argument("--base-binary", type=pathlib.Path, metavar="PATH", help="the other build's binary, built already")
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="figures whose name has one of these in it")
    parser.add_argument("--turns", type=int, default=3, help="turns of each figure (3)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args()
    if options.turns < 1:
        parser.error("--turns is above 0")
    figures = [it for it in FIGURES if not options.only or any(text in it.name for text in options.only)]
    if not figures:
        parser.error(f"there are: {', '.join(it.name for it in FIGURES)}")
    base = options.base or release()
    other = options.base_binary.resolve() if options.base_binary else built(base)
    binaries = (built(None), other)
    load = os.getloadavg()[0]
    if load > 1:
        print(f"the machine is busy (load {load:.1f}): what follows is of little worth", file=sys.stderr)
    rows = []
    for figure in figures:
        ours, theirs = turns(figure, binaries, options.turns, lambda text: print(text, file=sys.stderr))
        row, slower = judged(figure, ours, theirs, base)
        rows.append((figure, row, slower))
        if options.json:
            print(json.dumps(row), flush=True)
    if not options.json:
        print(table(rows))
    return 1 if any(slower for _, _, slower in rows) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Trouble as trouble:
        print(trouble, file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
