"""The rules of the spans of one request, as docs/reference has them in telemetry.md and signals.md, and docs/howto in
why.md."""

import re

#: Share of a wait by which times may differ, or what rounding takes.
SHARE, ROUNDING_NS = 0.01, 1_000
#: Slices of a request with spans of their own, at most.
SLICES = 128
#: Links of a queue, at most.
LINKS = 8
#: Errors of failed calls of a request that are told, at most, and bytes of the words of one.
ERRORS, ERROR_BYTES = 4, 256

#: The service of each kind of span, and OpenTelemetry's kind.
SERVICES = {
    "request": ("warploom-client", "CLIENT"),
    "submit": ("warploom-client", "PRODUCER"),
    "queue": ("warploom-leader", "SERVER"),
    "gpu": ("warploom-worker", "SERVER"),
    "compile": ("warploom-worker", "SERVER"),
    "transfer": ("warploom-worker", "SERVER"),
    "load": ("warploom-worker", "SERVER"),
    "swap": ("warploom-worker", "SERVER"),
    "program": ("warploom-client", "CLIENT"),
    "answer": ("warploom-client", "CONSUMER"),
}
#: The causes of a wait.
CAUSES = {"priority", "share", "floor", "cap", "bound", "target", "window", "device", "own", "memory", "suspended",
          "hold", "program", "bus", "worker", "leader"}
#: Attributes that each kind of span must have, and those that it may have.
COMMON = {"warploom.tenant": str, "warploom.session": str}
MESSAGE = {"messaging.system": str, "messaging.operation.name": str, "messaging.operation.type": str,
           "messaging.destination.name": str}
PLACE = {"warploom.gpu": int, "warploom.epoch": int, "warploom.position": int, "warploom.op": int}
MUST = {
    "request": {"warploom.ops": int, "warploom.launches": int, "warploom.wait_ns": int, "warploom.kept": str,
                "thread.id": int, "process.pid": int, "process.executable.name": str, "host.name": str},
    "submit": MESSAGE,
    "queue": {**PLACE, "warploom.ops": int, "warploom.priority": int, "warploom.wait_ns": int},
    "gpu": {**PLACE, "warploom.ops": int, "warploom.device_ns": int},
    "compile": PLACE,
    "transfer": {**PLACE, "warploom.ops": int, "warploom.bytes": int, "warploom.estimated": bool},
    "load": {**PLACE, "warploom.ops": int, "warploom.estimated": bool},
    "swap": PLACE,
    "program": {},
    "answer": MESSAGE,
}
DEVICE = {"hw.id": str, "hw.type": str}
MAY = {
    "request": {"warploom.gpu": int, "warploom.priority": int, "warploom.target_ns": int,
                "warploom.incomplete": bool, "warploom.errors": int, "error.type": str, "code.function.name": str,
                "code.file.path": str, "code.line.number": int, "warploom.fault.ptx_line": int,
                "warploom.fault.block": str, "warploom.fault.thread": str, "warploom.fault.address": str},
    "gpu": {"warploom.launches": int, "warploom.slices": int, "warploom.wait_ns": int, **DEVICE},
    "compile": DEVICE,
    "transfer": DEVICE,
    "load": DEVICE,
    "swap": DEVICE,
}
#: The kind of span that has an event, and the event's attributes.
EVENTS = {
    "kernel": ("gpu", {"warploom.kernel": str, "warploom.launches": int, "warploom.device_ns": int,
                       "warploom.estimated": bool}),
    "copy": ("gpu", {"warploom.ops": int, "warploom.bytes": int}),
    "load": ("gpu", {"warploom.ops": int}),
    "exception": ("request", {"exception.type": str, "exception.message": str}),
}
#: The values of attributes of messages: the operation, its type, and the pattern of subjects without its beginning.
OPERATIONS = {"submit": ("publish", "send", "t.*.up.l.intent.*"), "answer": ("receive", "receive", "t.*.dn.*.*")}
#: The beginning of all subjects: the protocol and the cluster.
ROOT = re.compile(r"wl\.v1\.[^.*]+\.")
LAUNCH = re.compile(r"gpu launch (?P<kernel>.+?)(?: \+(?P<others>\d+))?")
OTHERS = {"gpu load", "gpu copy", "gpu copy out", "gpu sync", "gpu memory", "gpu execute"}


class Broken(Exception):
    """A rule that does not hold."""


def require(holds, what, *spans):
    """Raises where a rule does not hold."""
    if not holds:
        raise Broken(f"{what}: {' of '.join(map(str, spans))}")


def near(one, other):
    """True if two times are the same within the tolerance."""
    return abs(one - other) <= max(SHARE * max(one, other), ROUNDING_NS)


def kind(span):
    """The kind of a span, by its name."""
    return span["name"].split(" ")[0] if span["name"].startswith(("gpu ", "transfer ")) else span["name"]


def place(span):
    """The slice of a span: its session, grant and first op."""
    return tuple(span["attributes"][f"warploom.{key}"] for key in ("session", "epoch", "position", "op"))


def causes(span):
    """The causes of a span's wait, nanoseconds each."""
    found = ((re.fullmatch(r"warploom\.wait\.(.+)_ns", key), value) for key, value in span["attributes"].items())
    return {cause[1]: value for cause, value in found if cause}


def check_span(span):
    """The rules of a span by itself."""
    which = kind(span)
    require(which in SERVICES, "a span of another name", span)
    service, span_kind = SERVICES[which]
    require(span["service"] == service, f"a service that is not {service}", span)
    require(span["span_kind"] == span_kind, f"a kind that is not {span_kind}", span)
    require(span["resource"].get("warploom.cluster"), "no cluster", span)
    require(re.fullmatch("[0-9a-f]{32}", span["trace"]) and int(span["trace"], 16), "no trace", span)
    for key in ("span", "parent"):
        optional = key == "parent" and which == "request" and not span[key]
        require(optional or re.fullmatch("[0-9a-f]{16}", span[key]) and int(span[key], 16), f"no id of its {key}", span)
    require(0 < span["start"] <= span["end"], "an end before its start", span)
    check_attributes(span, which)
    check_events(span, which)
    require(which == "queue" or not span["links"], "a link of another span than a queue", span)
    require(len(span["links"]) <= LINKS, f"{len(span['links'])} links", span)
    if "warploom.wait_ns" in span["attributes"]:
        check_waits(span)
    if which in OPERATIONS:
        system, *said, destination = (span["attributes"][key] for key in MESSAGE)
        require((system, *said, ROOT.sub("", destination, count=1)) == ("nats", *OPERATIONS[which]), "another message",
                span)
        require(ROOT.match(destination), "a destination without its cluster", span)


def check_attributes(span, which):
    """Compares the attributes of a span with those that its kind has."""
    must, given = {**COMMON, **MUST[which]}, span["attributes"]
    may = {**must, **MAY.get(which, {})}
    require(not must.keys() - given.keys(), f"without {sorted(must.keys() - given.keys())}", span)
    waits = "warploom.wait_ns" in given
    for key, value in given.items():
        if waits and key.startswith("warploom.wait."):
            continue
        require(key in may, f"with {key}", span)
        require(type(value) is may[key], f"{key} of another type", span)  # pylint: disable=unidiomatic-typecheck
        require(may[key] is not int or value >= 0, f"{key} below 0", span)


def check_events(span, which):
    """Checks that events are those of the span's kind, and within it."""
    for event in span["events"]:
        owner, wanted = EVENTS.get(event["name"], (None, {}))
        require(owner == which, f"an event {event['name']}", span)
        require(span["start"] <= event["at"] <= span["end"], "an event outside its span", span)
        given = {key: type(value) for key, value in event["attributes"].items()}
        require(given == wanted, f"an event {event['name']} with {given}", span)


def check_waits(span):
    """Checks that causes are those of the page, and that they add up to the wait."""
    found, waited = causes(span), span["attributes"]["warploom.wait_ns"]
    require(found.keys() <= CAUSES, f"causes {sorted(found.keys() - CAUSES)}", span)
    require(near(sum(found.values()), waited), f"causes of {sum(found.values())} ns for a wait of {waited} ns", span)
    if span["name"] == "queue":
        require(near(waited, span["end"] - span["start"]), f"a wait of {waited} ns in a span of other length", span)


def check_request(request):
    """The rules of a request by itself."""
    attributes = request["attributes"]
    require(request["start"] < request["end"], "a request that takes no time", request)
    require(attributes["thread.id"] >= 1 and attributes["warploom.ops"] >= 1, "no thread or no op", request)
    require(attributes["warploom.launches"] <= attributes["warploom.ops"], "more launches than ops", request)
    require(bool(request["error"]) == ("error.type" in attributes), "an error in one place", request)
    took, target = request["end"] - request["start"], attributes.get("warploom.target_ns")
    check_errors(request)
    is_error = request["error"] or "warploom.errors" in attributes
    why = "error" if is_error else "slow" if target and took > target else "share"
    # A parent that is not sampled keeps what is slow or failed.
    may = {"parent", why} - {"share"} if request["parent"] else {why}
    require(attributes["warploom.kept"] in may, f"not kept for {may}", request)


def shows(name, kernel):
    """True if a span's name shows a kernel. A mangled name of C++ may be shown by its function: its first identifier is
    there. Any other is shown as it is."""
    if name == kernel or not kernel.startswith("_Z"):
        return name == kernel
    first = re.match(r"_Z(?:N[rVKRO]*)?L?(\d+)", kernel)
    if not first:
        return True
    identifier = kernel[first.end():first.end() + int(first[1])]
    return ("(anonymous namespace)" if identifier.startswith("_GLOBAL__N") else identifier[:90]) in name


def check_errors(request):
    """Checks that failed calls have events, and that the error that ended the request has one, the last."""
    told = [event["attributes"] for event in request["events"]]
    calls = request["attributes"].get("warploom.errors", 0)
    require("warploom.errors" not in request["attributes"] or calls, "a number of no failed calls", request)
    if request["error"]:
        require(told and told.pop()["exception.type"] == request["attributes"]["error.type"], "another error", request)
    require(bool(told) == bool(calls) and len(told) <= min(calls, ERRORS), f"{len(told)} of {calls} errors", request)
    longest = max((len(it["exception.message"].encode()) for it in told), default=0)
    require(longest <= ERROR_BYTES, f"words of {longest} bytes", request)


def check_slice(span):
    """The rules of a slice by itself: its name, its launches, its events."""
    attributes, launch = span["attributes"], LAUNCH.fullmatch(span["name"])
    require(launch or span["name"] in OTHERS, "a slice of another name", span)
    kernels = [event["attributes"] for event in span["events"] if event["name"] == "kernel"]
    require(attributes["warploom.ops"] >= 1, "a slice without ops", span)
    require(attributes.get("warploom.slices", 2) >= 2, "slices that are one", span)
    require(bool(launch) == bool(kernels), "kernels in one place", span)
    launches = sum(it["warploom.launches"] for it in kernels)
    require(attributes.get("warploom.launches", launches) == launches, "kernels of other launches", span)
    if launch:
        require(launches == 1 + int(launch["others"] or 0), f"a name of other launches than {launches}", span)
        # Beyond 32 kernels of a span the others are not told apart, and do not name it.
        apart = [it for it in kernels if it["warploom.kernel"] != "other kernels"] or kernels
        longest = max(it["warploom.device_ns"] for it in apart)
        named = [it["warploom.device_ns"] for it in apart if shows(launch["kernel"], it["warploom.kernel"])]
        require(named and near(max(named), longest), "not the name of the longest kernel", span)
    copies = any(event["name"] == "copy" for event in span["events"])
    for it in kernels:
        if len(kernels) > 1 or copies:
            require(it["warploom.estimated"], "a share of the slice's time that is not called estimated", span)
        elif attributes["warploom.ops"] == launches:
            require(not it["warploom.estimated"], "estimated without other work", span)
    measured = sum(it["warploom.device_ns"] for it in kernels)
    require(measured <= attributes["warploom.device_ns"], "kernels that are longer than their slice", span)


def check_children(request, children):
    """The rules of the spans of one request among each other."""
    for child in children:
        require(request["start"] <= child["start"] and child["end"] <= request["end"],
                f"{child['name']} reaches beyond its request", child, request)
        for key in COMMON:
            require(child["attributes"][key] == request["attributes"][key], f"{child['name']} is another's", child)
        if kind(child) == "gpu":
            check_slice(child)
    slices = [it for it in children if kind(it) == "gpu"]
    require(len(slices) <= SLICES, f"{len(slices)} slices", request)
    require(("warploom.gpu" in request["attributes"]) == bool(slices), "a device or none", request)
    check_queues(request, children, slices)
    check_compilations(children, slices)
    check_beside(children, slices)
    check_rest(request, children, slices)
    check_sums(request, children)
    if not request["attributes"].get("warploom.incomplete"):
        check_whole(request, children, slices)


def check_queues(request, children, slices):
    """Checks that a slice waits once, and until it starts."""
    run = {place(it): it for it in slices}
    require(len(run) == len(slices), "a slice twice", request)
    queues = [it for it in children if it["name"] == "queue"]
    require(len({place(it) for it in queues}) == len(queues), "a queue twice", request)
    for queue in queues:
        ran = run.get(place(queue))
        require(ran, "a queue without its slice", queue)
        require("warploom.slices" not in ran["attributes"], "a queue of slices that share a span", queue)
        require(queue["end"] == ran["start"], "a queue that ends at another time", queue, ran)
        for key in ("warploom.ops", "warploom.gpu"):
            require(queue["attributes"][key] == ran["attributes"][key], f"{key} differs", queue, ran)


def check_compilations(children, slices):
    """Checks that a compilation has a slice that loads modules, and has ended before that slice began."""
    loads = {place(it): it for it in slices if any(event["name"] == "load" for event in it["events"])}
    for child in children:
        if child["name"] != "compile":
            continue
        loaded = loads.get(place(child))
        require(loaded, "a compilation for no load", child)
        # A span of several slices begins with the first, and any of them may be the one that loads.
        latest = loaded["end" if "warploom.slices" in loaded["attributes"] else "start"] + ROUNDING_NS
        require(child["start"] < child["end"] <= latest, "a compilation after its load", child, loaded)


def check_beside(children, slices):
    """Checks that transfers and loads are within their slice, and that its events tell the same of them."""
    there = {place(it): it for it in slices}
    seen = set()
    for child in children:
        if kind(child) not in ("transfer", "load"):
            continue
        ran = there.get(place(child))
        require(ran, f"{child['name']} without its slice", child)
        require((place(child), child["name"]) not in seen, f"{child['name']} twice", child)
        seen.add((place(child), child["name"]))
        require(ran["start"] <= child["start"] <= child["end"] <= ran["end"], "beyond its slice", child, ran)
        event = "load" if child["name"] == "load" else "copy"
        told = sum(it["attributes"]["warploom.ops"] for it in ran["events"] if it["name"] == event)
        require(told >= child["attributes"]["warploom.ops"], f"{told} ops by events", child, ran)
    for ran in slices:
        if ran["name"] != "gpu load" and any(it["name"] == "load" for it in ran["events"]):
            require((place(ran), "load") in seen, "no span of the load", ran)
        if ran["name"].startswith("gpu launch") and any(it["name"] == "copy" for it in ran["events"]):
            require(seen & {(place(ran), "transfer"), (place(ran), "transfer out")}, "no span of the copies", ran)


def check_rest(request, children, slices):
    """Checks the time at which nothing of a request waits or runs."""
    busy = [it for it in children if it["name"] == "queue" or it in slices]
    for name in OPERATIONS:
        require(busy or not any(it["name"] == name for it in children), f"{name} without a slice", request)
        require(sum(it["name"] == name for it in children) <= 1, f"{name} twice", request)
    for child in children:
        if child["name"] == "submit":
            bounds = request["start"], min(it["start"] for it in busy)
        elif child["name"] == "answer":
            bounds = max(it["end"] for it in busy), request["end"]
        elif child["name"] == "program":
            require(all(it["end"] <= child["start"] or child["end"] <= it["start"] for it in busy),
                    "the program's time while its work waits or runs", child, request)
            continue
        else:
            continue
        require((child["start"], child["end"]) == bounds, f"{child['name']} is not from {bounds}", child, request)


def check_sums(request, children):
    """Checks that the wait of a request is that of its slices, cause by cause."""
    waits = [it for it in children if "warploom.wait_ns" in it["attributes"]]
    together, own = sum(it["attributes"]["warploom.wait_ns"] for it in waits), request["attributes"]["warploom.wait_ns"]
    require(near(own, together), f"waits of {together} ns", request)
    for cause in CAUSES:
        sums = sum(causes(it).get(cause, 0) for it in waits)
        require(near(sums, causes(request).get(cause, 0)), f"{cause} of {sums} ns", request)


def check_whole(request, children, slices):
    """Checks that slices hold all ops of a request, and that its children leave no gap."""
    ops = sum(it["attributes"]["warploom.ops"] for it in slices)
    require(ops >= request["attributes"]["warploom.ops"], f"slices of {ops} ops", request)
    largest = max(gaps((request["start"], request["end"]), children), default=0)
    require(largest <= ROUNDING_NS, f"nothing covers {largest} ns", request)


def gaps(bounds, children):
    """The stretches of a request that no child covers, nanoseconds each."""
    reached, found = bounds[0], []
    for start, end in sorted((child["start"], child["end"]) for child in children) + [(bounds[1], bounds[1])]:
        if start > reached:
            found.append(start - reached)
        reached = max(reached, end)
    return found


def covered(request, children):
    """The share of a request's time that its children cover."""
    whole = request["end"] - request["start"]
    return 1 - sum(gaps((request["start"], request["end"]), children)) / max(1, whole)
