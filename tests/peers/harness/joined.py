"""The traces of a program, compared with what the program made."""

import collections
import dataclasses
import json
import subprocess
import sys
import time

from .wheels import PEERS

RULES = PEERS / "otlp/traces.py"

#: Of half of the requests the children cover at least this share.
COVER = 0.98
#: Seconds until all launches of a program must be in its traces, and until what is wrong then stays so.
DEADLINE, REST = 120, 45
#: Nanoseconds by which the clock of the client may differ from the program's.
CLOCK = 1_000_000
#: Spans of a batch, at most: 4,096 and those of one request.
BATCH = 4_400
#: Share of the requests that may lack ops where leaders are killed.
INCOMPLETE = 0.1


@dataclasses.dataclass
class Made:
    """A program's requests, as it told them."""

    tenant: str
    told: dict
    #: The trace and the span of the variable TRACEPARENT.
    inherited: tuple | None = None
    #: The last post before each kill of a tracer, and the number of leaders that were killed.
    tracers: list = dataclasses.field(default_factory=list)
    leaders: int = 0

    @property
    def requests(self):
        return self.told["requests"]

    @property
    def since(self):
        """The time from which on its requests count."""
        return self.told["since"] - CLOCK

    def parent(self, request):
        """The parent that a request must have, or nothing."""
        return (request["trace"], request["span"]) if "span" in request else self.inherited

    def parents(self):
        """All parents that there may be."""
        # What waits outside of a span has none, unless the whole program has one.
        return {self.parent(it) for it in self.requests} | {self.inherited}


def awaited(collector, made):
    """Waits for the traces of a program; what the rules say of them, and what is wrong, or nothing."""
    launches = sum(it["launches"] for it in made.requests)
    began, before, since = time.monotonic(), None, time.monotonic()
    while True:
        said, wrong = checked(collector, made)
        if not wrong:
            return said, None
        # More may come as long as launches are missing.
        is_late = said.get("launches", 0) < launches
        now = time.monotonic()
        if wrong != before:
            before, since = wrong, now
        if now > began + DEADLINE or (not is_late and now > since + REST):
            return said, wrong
        time.sleep(0.5)


def checked(collector, made):
    """What the rules say of the traces that are there, and what is wrong, or nothing."""
    said, wrong = ruled(collector, made)
    return said, wrong or _differs(said, made) or _unmatched(seen(collector, made), made)


def ruled(collector, made):
    """What traces.py says, and the rule that does not hold, or nothing."""
    if not collector.out.is_file():
        return {}, "nothing was received"
    ran = subprocess.run(
        [sys.executable, RULES, collector.out, "--tenant", made.tenant, "--since", str(made.since),
         "--may-repeat", str(BATCH * len(made.tracers)), "--killed", *map(str, made.tracers)],
        capture_output=True, text=True, check=False)
    if ran.returncode:
        return {}, ran.stderr.strip()[:2000]
    return json.loads(ran.stdout), None


def _differs(said, made):
    """What of the sums is not as it must be, or nothing."""
    launches = sum(it["launches"] for it in made.requests)
    wanted = {"launches": launches, "errors": {}}
    if not made.leaders:
        wanted |= {"executed": launches, "incomplete": 0}
    for key, value in wanted.items():
        if said[key] != value:
            return f"{key} {said[key]}, not {value}"
    # Of some ops a dead leader was the only one to hear of their end.
    if said["incomplete"] > said["requests"] * INCOMPLETE:
        return f"{said['incomplete']} of {said['requests']} requests are incomplete"
    if not launches * (1 - INCOMPLETE) <= said["executed"] <= launches:
        return f"executed {said['executed']}, not {launches}"
    # Each has a request, if only that of its end.
    if said["threads"] != list(range(1, len(said["threads"]) + 1)):
        return f"requests of threads {said['threads']}"
    if said["cover_p50"] < COVER:
        return f"cover_p50 {said['cover_p50']:.4f}, less than {COVER}"
    return None


def seen(collector, made):
    """The requests in the traces of a program, each once, by their begin."""
    theirs = (json.loads(line) for line in collector.out.read_text().split("\n")[:-1]
              if '"name": "request"' in line and f'"{made.tenant}"' in line)
    found = {it["span"]: it for it in theirs
             if it["attributes"]["warploom.tenant"] == made.tenant and it["start"] >= made.since}
    return sorted(found.values(), key=lambda it: it["start"])


def _unmatched(theirs, made):
    """Where the requests of the traces are not those of the program, or nothing."""
    ours, told = collections.defaultdict(list), collections.defaultdict(list)
    for it in made.requests:
        ours[it["thread"]].append(it)
    for it in theirs:
        if it["attributes"]["warploom.launches"]:
            told[it["attributes"]["thread.id"]].append(it)
    if (counts := sorted(map(len, told.values()))) != sorted(map(len, ours.values())):
        return f"{counts} requests with launches of each thread, {len(made.requests)} in all were made"
    for mine in ours.values():
        # Threads have other numbers there: it is the one that is right for longest.
        right_until, wrong = max(_difference(made, mine, thread) for thread in told.values())
        if right_until < len(mine):
            return wrong
    strangers = [it for it in theirs if parent_of(it) not in made.parents()]
    return f"{len(strangers)} requests with another parent: {strangers[0]}" if strangers else None


def _difference(made, mine, thread):
    """The place of the first request of a thread that is not what the program made, and what it is."""
    for place, (one, other) in enumerate(zip(mine, thread)):
        if wrong := differs(made, one, other):
            return place, f"{wrong}: {other}"
    return min(len(mine), len(thread)), f"a thread has {len(thread)} requests with launches, not {len(mine)}"


def differs(made, one, other):
    """How the request of a trace differs from one that the program made, or nothing."""
    if parent_of(other) != made.parent(one):
        return f"not the parent {made.parent(one)}"
    if other["attributes"]["warploom.launches"] != one["launches"]:
        return f"not {one['launches']} launches"
    if other["start"] < one["began"] - CLOCK or other["end"] > one["ended"] + CLOCK:
        return f"not from {one['began']} to {one['ended']}"
    return None


def parent_of(span):
    """The parent that a span has, or nothing."""
    return (span["trace"], span["parent"]) if span["parent"] else None
