"""The traces of programs while tracers, leaders and a worker are killed: no span twice, and none lost but with its dead
process."""

import collections
import contextlib
import json
import os
import signal
import subprocess
import sys
import time

from . import joined, wheels
from .chart import Collector
from .cluster import finish, stop
from .traces import cluster_of, count, figures, fresh, keep
from .traces_programs import Makers

#: Programs, two for each worker: the library and the kind of its parents.
PROGRAMS = (("numba", "spans"), ("nvcc", "set"), ("nvcc", "inherited"), ("cupy", "none"), ("torch", "none"))
#: The processes that are killed, in order.
KILLED = ("tracer", "leader", "tracer", "worker", "leader", "tracer")
#: Requests of each program between two of these.
MORE = 150
#: Milliseconds between two requests of a program. Without them a loaded machine would not export as fast as they come.
PAUSE = 60
#: Seconds for a program's first request, for an event that must come, and for a program's end.
FIRST, SOON, END = 900, 120, 300
#: Seconds between two looks.
LOOK = 0.005


class Received:
    """Requests received so far, by tenant, the number of posts of spans, and that of the last one of them."""

    def __init__(self, path):
        self.path, self.at, self.rest, self.last = path, 0, "", 0
        self.requests, self.posts, self.gpus = collections.Counter(), 0, collections.defaultdict(set)

    def look(self):
        """Reads what came since the last look."""
        if not self.path.is_file():
            return
        with self.path.open(encoding="utf-8") as file:
            file.seek(self.at)
            text = file.read()
            self.at = file.tell()
        *lines, self.rest = (self.rest + text).split("\n")
        for line in lines:
            it = json.loads(line)
            if it["kind"] != "span":
                continue
            self.posts, self.last = self.posts + (not it["left"]), it["post"]
            if it["name"] == "request":
                tenant = it["attributes"]["warploom.tenant"]
                self.requests[tenant] += 1
                if "warploom.gpu" in it["attributes"]:
                    self.gpus[tenant].add(it["attributes"]["warploom.gpu"])


class Kills:
    """A cluster with programs at work, of which processes are killed."""

    def __init__(self, cluster, collector):
        self.cluster, self.collector, self.received = cluster, collector, Received(collector.out)
        self.running, self.ran, self.done, self.tracers = {}, {}, collections.Counter(), []

    def until(self, what, is_there, limit=SOON):
        """Waits for an event."""
        end = time.monotonic() + limit
        while not (came := is_there()):
            for tenant, process in self.running.items():
                if process.poll() is not None:
                    ran = finish(process, END)
                    raise RuntimeError(f"{tenant} has ended: {ran.failed or ran.out[:500]}")
            if time.monotonic() > end:
                raise RuntimeError(f"{what} did not come; killed so far: {dict(self.done)}")
            time.sleep(LOOK)
            self.received.look()
        return came

    def start(self, program):
        """Starts a program, and waits for its first trace."""
        tenant = program.tenant
        self.running[tenant] = self.cluster.start(
            program.command, tenant=tenant, variables=program.variables, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        self.until(f"a trace of {tenant}", lambda: self.received.gpus[tenant], FIRST)

    def work(self):
        """Waits until each program has more traces."""
        self.received.look()
        before = dict(self.received.requests)
        self.until(f"traces of all of {list(self.running)}", lambda: all(
            self.received.requests[it] >= before.get(it, 0) + MORE for it in self.running))

    def tracer(self):
        """Kills the tracer: the last time right after a post, and before that while it waits for the answer to one."""
        (dead,) = self.cluster.roles("tracer")
        if self.done["tracer"] < KILLED.count("tracer") - 1:
            self.collector.hold.touch()
        self.received.look()
        posts = self.received.posts
        self.until("a post", lambda: self.received.posts > posts)
        os.kill(dead, signal.SIGKILL)
        self.collector.hold.unlink(missing_ok=True)
        self.until("another tracer", lambda: self.cluster.roles("tracer").keys() - {dead})
        self.tracers.append(self.received.last)

    def leader(self):
        """Kills the leader of three."""
        status = self.cluster.status()
        (dead,) = (pid for pid, arguments in self.cluster.roles("leader").items() if str(status["leader"]) in arguments)
        os.kill(dead, signal.SIGKILL)

        def leads():
            now = self.cluster.status()
            return now and now["epoch"] > status["epoch"]
        self.until("another leader", leads)

    def worker(self):
        """Kills the worker of the first program. Its programs lose their device."""
        gpus = self.received.gpus
        (gpu,) = gpus[next(iter(self.running))]
        victims = [it for it in self.running if gpu in gpus[it]]
        if len(victims) == len(self.running):
            raise RuntimeError(f"all programs are on device {gpu}")
        (dead,) = (pid for pid, arguments in self.cluster.roles("worker").items() if f"worker.gpu={gpu}" in arguments)
        os.kill(dead, signal.SIGKILL)
        for tenant in victims:
            self.ran[tenant] = finish(self.running.pop(tenant), SOON)

    def kill(self, role):
        """Kills a process of a role, after more work."""
        self.work()
        getattr(self, role)()
        self.done[role] += 1
        print(f"peers:   {role} killed: {dict(self.received.requests)} requests", file=sys.stderr, flush=True)

    def end(self, enough):
        """Ends the programs."""
        self.work()
        enough.touch()
        for tenant in list(self.running):
            self.ran[tenant] = finish(self.running.pop(tenant), END)


def traces_kills(stage, row):
    """Three tracers, two leaders and one of two workers are killed while programs run. Of a program on the other worker
    each request has a trace. Of one on the dead worker only the last may have none."""
    folder = fresh(stage, "traces-kills")
    enough, programs = folder / "enough", {}
    makers = Makers(stage, folder)
    for number, (name, parents) in enumerate(PROGRAMS):
        try:
            program = getattr(makers, name)(f"{name}-{number}", parents, "--until", enough, "--pause", PAUSE)
            programs[program.tenant] = program
        except wheels.Missing as missing:
            row.notes.append(f"{name} is left out: {missing}")
    with Collector(stage, folder) as collector:
        with cluster_of(stage, folder, collector, workers=2, leaders=3) as cluster:
            kills = Kills(cluster, collector)
            with _ended(kills):
                for program in programs.values():
                    kills.start(program)
                for role in KILLED:
                    kills.kill(role)
                kills.end(enough)
            ended = {}
            for tenant, ran in kills.ran.items():
                ended[tenant] = _made(collector, kills, programs[tenant], ran)
                if ended[tenant] and not ended[tenant].told["lost"]:
                    # What is wrong at the end of all is counted.
                    joined.awaited(collector, ended[tenant])
        # The cluster has ended, and with it the export.
        for tenant, it in ended.items():
            _judge(row, collector, kills, tenant, it)
    row.notes.append(f"killed: {', '.join(f'{number} {role}' for role, number in kills.done.items())}")


@contextlib.contextmanager
def _ended(kills):
    """Ends programs whatever happens."""
    try:
        yield
    finally:
        for process in kills.running.values():
            stop(process)


def _made(collector, kills, program, ran):
    """What a program told that has ended, or nothing."""
    if ran.failed:
        return None
    made = joined.Made(program.tenant, ran.told, program.inherited, kills.tracers, kills.done["leader"])
    keep(collector, made)
    return made


def _judge(row, collector, kills, tenant, made):
    """Counts what came of a program."""
    if made is None:
        count(row, tenant, kills.ran[tenant].failed)
        return
    said, wrong, note = *joined.checked(collector, made), ""
    if made.told["lost"]:
        said, wrong = joined.ruled(collector, made)
        cut, wrong = (None, wrong) if wrong else _cut(joined.seen(collector, made), made)
        note = f"; lost its worker, and the last {cut} of {len(made.requests)} requests"
        if not wrong and said["errors"] not in ({}, {"E-DEVICE-LOST": 1}):
            wrong = f"errors {said['errors']}"
    count(row, tenant, wrong)
    row.notes.append(f"{tenant}: {figures(said)}, executed {said.get('executed')}, device {said.get('gpus')}{note}")


def _cut(theirs, made):
    """Number of a program's last requests that are lost with their worker, and what else is wrong, or nothing."""
    theirs = [it for it in theirs if it["attributes"]["warploom.launches"]]
    for place, (one, other) in enumerate(zip(made.requests, theirs)):
        if wrong := joined.differs(made, one, other):
            return None, f"request {place} of {len(made.requests)}, {len(theirs)} told: {wrong}: {other}"
    # The one that was under way has not ended for the program.
    if len(under_way := theirs[len(made.requests):]) > 1:
        return None, f"requests that the program did not make: {under_way}"
    return max(0, len(made.requests) - len(theirs)), None
