"""The faults that cause the alerts of ops/prometheus/alerts.yml, each of a real cluster at work.

A fault is a context: it is there within, and mended behind. They are made in the order of the table. What has fired
by then may fire again: a leader that is missing has changed, too. An alert of an earlier line must not.
"""

import contextlib
import json
import os
import re
import signal

from bus import Bus
from cluster import CAPACITY, stopped, stuttering
from common import PATIENCE, Failed, ask, say, until
from monitor import RULES

MIB = 1 << 20


class Live:
    """What a fault works with: the cluster, the Prometheus that reads it, and a controller's operator."""

    def __init__(self, cluster, read, controller, operator):
        self.cluster, self.read, self.controller, self.operator = cluster, read, controller, operator

    def bus(self, tenant=None):
        return Bus(self.cluster.said["credentials"], tenant)

    def verify(self):
        """What a controller finds of the order."""
        return json.loads(ask(f"{self.controller}/api/v1/order/verify", self.operator, "POST", b""))


@contextlib.contextmanager
def a_tenant_uses_more(live):
    """A tenant that had little work and little memory has a lot of both."""
    with live.cluster.hog("spend", 16):
        yield


@contextlib.contextmanager
def a_target_cannot_be_met(live):
    live.cluster.does("tenant", "set", "chat", "--slo", "1us")
    yield
    live.cluster.does("tenant", "set", "chat", "--slo", "10s")


@contextlib.contextmanager
def a_quota_is_small(live):
    """A tenant's quota becomes little more than what it holds."""
    held = live.read.value('sum(warploom_vram_held_bytes{warploom_tenant="chat"})')
    live.cluster.does("tenant", "set", "chat", "--quota", f"{int(held * 1.05) >> 10}KiB")
    yield
    live.cluster.does("tenant", "set", "chat", "--quota", "0MiB")


@contextlib.contextmanager
def a_device_is_full(live):
    """A tenant takes nearly all that is left of a device."""
    held = live.read.value("sum(warploom_cluster_held_bytes)")
    with live.cluster.hog("spend", int(0.95 * CAPACITY - held / MIB)):
        yield


@contextlib.contextmanager
def a_tenant_reports_what_is_not_its_own(live):
    """A tenant reports requests of a session of another one, many times."""
    with live.bus() as cluster, live.bus("train") as train:
        subject = f"wl.v1.{cluster.cluster}.t.%s.up.trace.requests"
        report = cluster.next(subject % "chat")
        for _ in range(500):
            train.publish(subject % "train", report)
        train.flush()
    yield


@contextlib.contextmanager
def a_program_drops_requests(live):
    """A program's report comes again, and tells that it dropped many more."""
    number = re.compile(rb"\xa7dropped(?:[\x00-\x7f]|\xcc.|\xcd..|\xce.{4})", re.S)
    with live.bus() as cluster, live.bus("chat") as chat:
        subject = f"wl.v1.{cluster.cluster}.t.chat.up.trace.requests"
        report = cluster.next(subject)
        if not number.search(report):
            raise Failed(f"a report without a number of dropped requests: {report}")
        # The first tells the session, if it is not known.
        for told in (b"\xcd\x01\xf4", b"\xcd\x03\xe8"):
            told = b"\xa7dropped" + told
            chat.publish(subject, number.sub(lambda _, told=told: told, report, count=1))
        chat.flush()
    yield


@contextlib.contextmanager
def the_broker_hardly_answers(live):
    """The device waits for grants most of the time, and there is always work."""
    with live.cluster.hog("spend", 1):
        until("work", PATIENCE, lambda: live.read.data('warploom_cluster_queued{warploom_tenant="spend"} > 0'))
        with stuttering(live.cluster.said["broker"]):
            yield


@contextlib.contextmanager
def the_tracer_hangs(live):
    """Its page does not answer. It is killed, and `up` starts another one."""
    tracer = live.cluster.process("tracer")
    with stopped([tracer]):
        yield
        os.kill(tracer, signal.SIGKILL)
    # The new tracer reads the whole record, and counts nothing of it again. What the broker held up comes late.
    until("another tracer", PATIENCE, lambda: live.cluster.process("tracer") != tracer or None)
    until("its idle times", PATIENCE, lambda: live.read.data("rate(warploom_idle_seconds_total[10s])"))
    highest = live.read.value(
        "max(max_over_time(sum by (warploom_gpu) (rate(warploom_idle_seconds_total[10s]))[1m:1s]))")
    if highest > 3:
        raise Failed(f"a device was idle for {highest} s in a second")


@contextlib.contextmanager
def grants_are_held(live):
    live.cluster.does("order", "hold")
    yield
    live.cluster.does("order", "release")


@contextlib.contextmanager
def no_candidate_runs(live):
    with stopped(live.cluster.candidates()):
        yield


@contextlib.contextmanager
def leaders_are_killed(live):
    """The leader is killed five times, and `up` starts it again."""
    for _ in range(5):
        process, epoch = live.cluster.leader()
        os.kill(process, signal.SIGKILL)
        until("another leader", PATIENCE, lambda epoch=epoch: live.read.data(f"max(warploom_epoch) > {epoch}"))
    yield


@contextlib.contextmanager
def the_record_has_little_room(live):
    """The record may hold less than it has. A leader keeps one below the limit that it has always had."""
    used = 'max(warploom_store_used_bytes{warploom_store=~".*-record"})'
    until("a record of 5 MiB", 3 * PATIENCE, lambda: live.read.data(f"{used} > {5 * MIB}"))
    live.cluster.does("cluster", "set", "record.max_bytes=4MiB")
    yield
    live.cluster.does("cluster", "set", "record.max_bytes=default")


@contextlib.contextmanager
def a_part_of_the_record_is_gone(live):
    """Someone deletes a message of the record at the broker. This is not mended."""
    with live.bus() as cluster:
        stream = f"wl-{cluster.cluster}-record"
        state = cluster.request(f"$JS.API.STREAM.INFO.{stream}", {})["state"]
        middle = (state["first_seq"] + state["last_seq"]) // 2
        done = cluster.request(f"$JS.API.STREAM.MSG.DELETE.{stream}", {"seq": middle})
    found = live.verify()
    if not done.get("success") or found["ok"] is not False:
        raise Failed(f"message {middle} of {state} is deleted: {done}, and a controller finds {found}")
    yield


@contextlib.contextmanager
def a_worker_is_killed(live):
    os.kill(live.cluster.said["workers"][0], signal.SIGKILL)
    yield


# Alerts with faults that are mended.
MENDED = {
    "WarploomCostHigh": a_tenant_uses_more,
    "WarploomQueueOld": grants_are_held,
    "WarploomTargetMissed": a_target_cannot_be_met,
    "WarploomQuotaNearlyFull": a_quota_is_small,
    "WarploomMemoryNearlyFull": a_device_is_full,
    "WarploomTracesLost": a_tenant_reports_what_is_not_its_own,
    "WarploomReportsLost": a_program_drops_requests,
    "WarploomDeviceIdle": the_broker_hardly_answers,
    "WarploomTracerMissing": the_tracer_hangs,
    "WarploomLeaderMissing": no_candidate_runs,
    "WarploomLeadersChange": leaders_are_killed,
    "WarploomStoreFilling": the_record_has_little_room,
}
# Alerts with faults that are there for good, or end sessions.
LASTING = {
    "WarploomReplayDiffers": a_part_of_the_record_is_gone,
    "WarploomWorkerLost": a_worker_is_killed,
}
# Alerts that only promtool tests, with the reason.
UNMADE = {
    "WarploomInvariantViolated": "only a fault of Warploom violates an invariant",
}


def check_table():
    """Every rule has an entry, and every entry has a rule."""
    rules = set(re.findall(r"^\s+- alert: (\w+)$", RULES.read_text(), re.MULTILINE))
    entries = MENDED.keys() | LASTING.keys() | UNMADE.keys()
    if rules != entries:
        raise Failed(f"faults.py has no entry for {rules - entries}, and one for {entries - rules}, which is no rule")


def check_faults(live, faults, made):
    """Each alert fires with its fault, and none before its fault."""
    for name, fault in faults.items():
        made.add(name)
        with fault(live):
            seen = set()

            def fires(name=name, seen=seen):
                # Several rules may have the name. Each has to fire, and not all at the same time.
                rules = [rule for rule in live.read.rules() if rule["name"] == name]
                seen.update(rule["query"] for rule in rules if rule["state"] == "firing")
                if len(seen) < len(rules):
                    raise Failed(f"{name}: {[rule['state'] for rule in rules]}")
                return True
            until(f"{name} by {fault.__name__}", PATIENCE, fires)
        early = live.read.fired() - made
        if early:
            raise Failed(f"{fault.__name__}: {early} fired, too")
        say(f"  {name}: {fault.__name__.replace('_', ' ')}")


def check_mended(live):
    """Nothing fires once all is mended, and all tenants still work."""
    def quiet():
        if live.read.firing():
            raise Failed(f"alerts: {live.read.firing()}")
        return True
    until("no alert after the faults", 2 * PATIENCE, quiet)
    live.cluster.check_work()
    say("  all is mended, and no alert fires")
