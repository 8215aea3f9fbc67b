#!/usr/bin/env python3
"""Check the traces of received.jsonl (receiver.py) against docs/reference/telemetry.md.

  traces.py received.jsonl [--tenant NAME] [--may-repeat N] [--killed POST …] [--since NS]

It shares no code with Warploom. It fails at the first rule that does not hold, and else prints one JSON object: what
the traces of requests say, for a test to compare with what its programs did. rules.py has the rules of one request.
"""

import argparse
import bisect
import collections
import json
import statistics
import sys

sys.dont_write_bytecode = True
from rules import (Broken, causes, check_children, check_request, check_span, covered, kind, place,  # noqa: E402
                   require)

#: Time by which the slices of two programs may be moved apart.
MOVED_NS = 5_000_000


def read(path, tenant):
    """The spans of a tenant, or of all, of the posts that are there as a whole."""
    with open(path, encoding="utf-8") as file:
        lines = [line for line in file if line.endswith("\n")]
    while lines and json.loads(lines[-1])["left"]:
        lines.pop()
    # Most lines may be another's, and reading them takes the most time.
    its = (json.loads(line) for line in lines if not tenant or f'"{tenant}"' in line)
    return [it for it in its if it["kind"] == "span" and tenant in (None, it["attributes"].get("warploom.tenant"))]


def settled(span):
    """A span without what a tracer may have learned since it sent it first: names of kernels, their shares, targets."""
    changing = {"warploom.kept", "warploom.target_ns"} if span["name"] == "request" else set()
    kept = {key: value for key, value in span.items() if key not in ("post", "left", "attributes")}
    kept["attributes"] = {key: value for key, value in span["attributes"].items() if key not in changing}
    if kind(span) == "gpu":
        kept["name"] = kept["events"] = None
    # A tracer that began anew knows other slices of other tenants.
    del kept["links"]
    return kept


def once(spans, may_repeat, killed):
    """The spans without those that came again, and their number. They come again only after a tracer was killed."""
    seen, repeated = {}, 0
    for span in spans:
        before = seen.setdefault(span["span"], span)
        if before is span:
            continue
        repeated += 1
        require(settled(before) == settled(span), "two spans of one id", before, span)
        if killed is not None:
            died = bisect.bisect_left(killed, before["post"])
            is_after = died < bisect.bisect_left(killed, span["post"])
            require(is_after, "a span again, and no tracer was killed", before, span)
    if repeated > may_repeat:
        raise Broken(f"{repeated} spans came twice, of which {may_repeat} may")
    return list(seen.values()), repeated


def check_threads(requests):
    """Checks that a thread has one request at a time, and that one without a parent has a trace of its own."""
    threads, traces = collections.defaultdict(list), collections.defaultdict(list)
    for request in requests:
        threads[request["attributes"]["warploom.session"], request["attributes"]["thread.id"]].append(request)
        traces[request["trace"]].append(request)
    for of_thread in threads.values():
        of_thread.sort(key=lambda it: it["start"])
        for one, other in zip(of_thread, of_thread[1:]):
            require(one["end"] <= other["start"], "a request before the end of the last one of its thread", other, one)
    for of_trace in traces.values():
        require(len(of_trace) == 1 or all(it["parent"] for it in of_trace), "a trace of several roots", *of_trace[:2])


def check_slices(slices):
    """Checks that no op ran twice, and that requests which share a slice tell the same of it."""
    told, sessions = {}, collections.defaultdict(list)
    for span in slices:
        attributes = span["attributes"]
        if "warploom.slices" in attributes:
            continue
        here = [attributes.get(f"warploom.{key}") for key in ("ops", "launches", "gpu", "device_ns")]
        if told.setdefault(place(span), here) is here:
            sessions[attributes["warploom.session"]].append(span)
        require(told[place(span)] == here, f"a slice that is {told[place(span)]} elsewhere", span)
    for of_session in sessions.values():
        of_session.sort(key=lambda it: it["attributes"]["warploom.op"])
        for one, other in zip(of_session, of_session[1:]):
            last = one["attributes"]["warploom.op"] + one["attributes"]["warploom.ops"] - 1
            require(last < other["attributes"]["warploom.op"], f"an op ran twice, up to {last}", one, other)


def check_links(spans):
    """Checks that a queue is linked to slices of other tenants that ran while it waited; returns the numbers of
    links, and of those whose span is not there."""
    known, count, absent = {(span["trace"], span["span"]): span for span in spans}, 0, 0
    for queue in spans:
        tenants = set()
        for link in queue["links"]:
            ran, count = known.get((link["trace"], link["span"])), count + 1
            if not ran:
                absent += 1
                continue
            other = ran["attributes"]["warploom.tenant"]
            require(kind(ran) == "gpu", "a link to a span that is no slice", queue, ran)
            require(other != queue["attributes"]["warploom.tenant"], "a link to its own tenant", queue, ran)
            require(other not in tenants, "two links to a tenant", queue)
            require(ran["attributes"]["warploom.gpu"] == queue["attributes"]["warploom.gpu"],
                    "a link to another device", queue, ran)
            # Slices are moved into the clocks of their programs.
            require(ran["start"] < queue["end"] + MOVED_NS and queue["start"] < ran["end"] + MOVED_NS,
                    "a link to what ran at another time", queue, ran)
            tenants.add(other)
    return count, absent


def check(spans, options):
    """Check all traces; give what they say."""
    for span in spans:
        check_span(span)
    spans, repeated = once(spans, options.may_repeat, options.killed and sorted(options.killed))
    requests = {(span["trace"], span["span"]): span for span in spans if span["name"] == "request"}
    children = collections.defaultdict(list)
    for span in spans:
        if span["name"] != "request":
            key = (span["trace"], span["parent"])
            require(key in requests, f"{span['name']} has no request", span)
            children[key].append(span)
    for key, request in requests.items():
        check_request(request)
        check_children(request, children[key])
    check_threads(requests.values())
    check_slices([span for span in spans if kind(span) == "gpu"])
    links, absent = check_links(spans)
    counted = [(request, children[key]) for key, request in requests.items() if request["start"] >= options.since]
    return {"repeated": repeated, "spans": len(spans), "links": links, "links_absent": absent, **sums(counted)}


def sums(counted):
    """What requests with their children say together."""
    said = {"requests": len(counted), "launches": 0, "executed": 0, "incomplete": 0, "failed_calls": 0,
            "threads": set(), "parents": set(), "sessions": set(), "gpus": set(), "kernels": collections.Counter(),
            "errors": collections.Counter(), "exceptions": collections.Counter(), "names": collections.Counter(),
            "causes": collections.Counter()}
    covers, executed = [], set()
    for request, children in counted:
        attributes = request["attributes"]
        said["launches"] += attributes["warploom.launches"]
        said["incomplete"] += attributes.get("warploom.incomplete", False)
        said["threads"].add(attributes["thread.id"])
        said["parents"].add((request["trace"], request["parent"]))
        said["sessions"].add(attributes["warploom.session"])
        if "warploom.gpu" in attributes:
            said["gpus"].add(attributes["warploom.gpu"])
        if request["error"]:
            said["errors"][attributes["error.type"]] += 1
        said["failed_calls"] += attributes.get("warploom.errors", 0)
        said["exceptions"].update(event["attributes"]["exception.type"] for event in request["events"])
        covers.append(covered(request, children))
        for child in children:
            said["names"][child["name"]] += 1
            # A slice with ops of two threads is a child of both their requests.
            if kind(child) == "gpu":
                if place(child) in executed:
                    continue
                executed.add(place(child))
            add(said, child)
    said["cover_p50"] = statistics.median(covers) if covers else None
    said["cover_min"] = min(covers, default=None)
    for key in ("threads", "sessions", "gpus"):
        said[key] = sorted(said[key])
    said["parents"] = sorted(list(parent) for parent in said["parents"])
    return said


def add(said, child):
    """Adds what a child says of launches and causes."""
    said["executed"] += child["attributes"].get("warploom.launches", 0)
    for cause, ns in causes(child).items():
        said["causes"][f"warploom.wait.{cause}_ns"] += ns
    for event in child["events"]:
        if event["name"] == "kernel":
            said["kernels"][event["attributes"]["warploom.kernel"]] += event["attributes"]["warploom.launches"]


def main():
    """Read the command line, then check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("received")
    parser.add_argument("--tenant")
    parser.add_argument("--may-repeat", type=int, default=0,
                        help="spans that may come twice, the same: a tracer was killed")
    parser.add_argument("--killed", type=int, nargs="*", metavar="POST",
                        help="the last post before each of these kills; without it they may be of any posts")
    parser.add_argument("--since", type=int, default=0, help="counts requests that began at this time or later")
    options = parser.parse_args()
    try:
        print(json.dumps(check(read(options.received, options.tenant), options)))
    except Broken as broken:
        print(broken, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
