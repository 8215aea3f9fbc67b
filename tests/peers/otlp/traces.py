#!/usr/bin/env python3
"""Check the traces of received.jsonl (receiver.py) against docs/reference/telemetry.md.

  traces.py received.jsonl [--tenant NAME] [--may-repeat N]

It shares no code with Warploom. It fails at the first rule that does not hold, and else prints one JSON object: what the
traces of requests say, for a test to compare with what its programs did.
"""

import argparse
import collections
import json
import statistics
import sys

# Of a wait, and of the times of a span's causes: a hundredth, or what rounding takes.
SHARE, ROUNDING_NS = 0.01, 1_000


class Broken(Exception):
    """A rule that does not hold."""


def near(one, other):
    """True if two times are the same within the tolerance."""
    return abs(one - other) <= max(SHARE * max(one, other), ROUNDING_NS)


def causes(span):
    """The sum of a span's causes, nanoseconds."""
    named = (value for key, value in span["attributes"].items()
             if key.startswith("warploom.wait.") and key.endswith("_ns"))
    return sum(named)


def covered(bounds, children):
    """The share of a request's time that its children cover."""
    total, reached = 0, bounds[0]
    for start, end in sorted((child["start"], child["end"]) for child in children):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total / max(1, bounds[1] - bounds[0])


def check_child(child, request):
    """The rules of one child of a request."""
    if not request["start"] <= child["start"] <= child["end"] <= request["end"]:
        raise Broken(f"{child['name']} reaches beyond its request: {child} of {request}")
    for key in ("warploom.tenant", "warploom.session"):
        if child["attributes"][key] != request["attributes"][key]:
            raise Broken(f"{child['name']} is another's: {child}")
    if child["name"] == "queue":
        waited = child["attributes"]["warploom.wait_ns"]
        if not near(causes(child), waited):
            raise Broken(f"causes of {causes(child)} ns for a wait of {waited} ns: {child}")
        if not near(waited, child["end"] - child["start"]):
            raise Broken(f"a wait of {waited} ns in a span of other length: {child}")
    if child["name"].startswith("gpu "):
        for event in child["events"]:
            if not child["start"] <= event["at"] <= child["end"]:
                raise Broken(f"an event outside its span: {child}")


def check(lines, tenant, may_repeat):
    """Check all traces; give what they say."""
    spans = [line for line in lines if line["kind"] == "span"]
    if tenant:
        spans = [span for span in spans if span["attributes"].get("warploom.tenant") == tenant]
    seen, repeated = {}, 0
    for span in spans:
        before = seen.setdefault((span["trace"], span["span"]), span)
        if before is span:
            continue
        repeated += 1
        # A kernel without a name before may have one by now.
        for key in ("parent", "start", "end", "service"):
            if before[key] != span[key]:
                raise Broken(f"two spans of one id: {before} and {span}")
    if repeated > may_repeat:
        raise Broken(f"{repeated} spans came twice, of which {may_repeat} may")
    spans = list(seen.values())
    requests = {(span["trace"], span["span"]): span for span in spans if span["name"] == "request"}
    children = collections.defaultdict(list)
    for span in spans:
        if span["name"] != "request":
            key = (span["trace"], span["parent"])
            if key not in requests:
                raise Broken(f"{span['name']} has no request: {span}")
            check_child(span, requests[key])
            children[key].append(span)
    said = {"requests": len(requests), "spans": len(spans), "launches": 0, "executed": 0,
            "incomplete": 0, "repeated": repeated, "threads": set(), "parents": set(), "kernels": collections.Counter(),
            "errors": collections.Counter(), "names": collections.Counter(),
            "sessions": set(), "causes": collections.Counter()}
    covers, executed = [], set()
    for key, request in requests.items():
        attributes = request["attributes"]
        waited = attributes["warploom.wait_ns"]
        if not near(causes(request), waited) and waited > ROUNDING_NS:
            raise Broken(f"causes of {causes(request)} ns for waits of {waited} ns: {request}")
        said["launches"] += attributes["warploom.launches"]
        said["incomplete"] += attributes.get("warploom.incomplete", False)
        said["threads"].add(attributes["thread.id"])
        said["parents"].add((key[0], request["parent"]))
        said["sessions"].add(attributes["warploom.session"])
        if request["error"]:
            said["errors"][attributes["error.type"]] += 1
        for child in children[key]:
            said["names"][child["name"]] += 1
            # A slice with ops of two threads is a child of both their requests.
            if child["name"].startswith("gpu "):
                place = tuple(child["attributes"][f"warploom.{key}"]
                              for key in ("session", "epoch", "position", "op"))
                if place in executed:
                    continue
                executed.add(place)
            said["executed"] += child["attributes"].get("warploom.launches", 0)
            for cause, ns in child["attributes"].items():
                if cause.startswith("warploom.wait."):
                    said["causes"][cause] += ns
            for event in child["events"]:
                if event["name"] == "kernel":
                    said["kernels"][event["attributes"]["warploom.kernel"]] += \
                        event["attributes"]["warploom.launches"]
        covers.append(covered((request["start"], request["end"]), children[key]))
    said["cover_p50"] = statistics.median(covers) if covers else None
    said["cover_min"] = min(covers, default=None)
    for key in ("threads", "sessions"):
        said[key] = sorted(said[key])
    said["parents"] = sorted(list(parent) for parent in said["parents"])
    return said


def main():
    """Read the command line, then check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("received")
    parser.add_argument("--tenant")
    parser.add_argument("--may-repeat", type=int, default=0,
                        help="spans that may come twice, the same: a tracer was killed")
    options = parser.parse_args()
    with open(options.received, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file if line.endswith("\n")]
    try:
        print(json.dumps(check(lines, options.tenant, options.may_repeat)))
    except Broken as broken:
        print(broken, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
