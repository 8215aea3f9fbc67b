"""The protocol of job servers: a JSON line each way. A server is started once per mode and told what to do.

| request | answer, beside `ok` |
| --- | --- |
| `prepare` `jobs` | builds a job per slot and warms it up: `seconds` |
| `run` `seconds` `at` `least` | steps of all slots at once, from a monotonic time: `steps`, `seconds` |
| `steps` `count` | exactly that many steps of the first slot: `seconds` |
| `digest` | `digest` of fixed steps of the first slot from its first state, or why it has none: `reason` |
| `requests` `rate` `seconds` `seed` `at` | Poisson arrivals at the first slot, the others run: `latency_ms` |
| `facts` | versions, the device and its memory |
| `drop` | frees the slots |
| `quit` | ends the server, as the end of stdin does |

Lists of `run` have an entry per slot, those of `requests` one per other slot.

A refusal is `{"ok": false, "reason": ...}` and leaves the server usable. One with `"lost": true` tells that
the device's context is lost, or that a job never ended: the server exits with code 3 behind it.
"""

import collections
import contextlib
import gc
import json
import os
import random
import sys
import threading
import time

#: Steps of a job that may be in flight while it submits the next one.
AHEAD = 4
#: The requests, each served by a method of its name.
KNOWN = ("prepare", "run", "steps", "digest", "requests", "facts", "drop", "quit")
#: Seconds after which a job counts as hung, beside those it was told to run.
HUNG_S = {"prepare": 300, "run": 60, "steps": 300, "digest": 300, "requests": 60, "drop": 30}
#: What errors say that no later call of the process survives.
FATAL = ("illegal memory access", "illegal_address", "unspecified launch failure", "launch_failed",
         "device-side assert", "cuda_error_assert", "misaligned", "illegal instruction",
         "illegal_instruction", "launch timed out", "launch_timeout", "uncorrectable", "context is destroyed",
         "context_is_destroyed", "hardware stack", "busy or unavailable", "device_unavailable",
         "a job did not end")


def fatal(text):
    """True if an error's text says that the device's context is lost."""
    return any(it in text.lower() for it in FATAL)


class Refused(Exception):
    """A request that cannot be served; its text is the reason."""


def line(failed):
    """An error as one line."""
    text = str(failed) if isinstance(failed, Refused) else f"{type(failed).__name__}: {failed}"
    return " ".join(text.split())[:300]


class Job:
    """One job in a slot. A backend overrides what it needs."""

    def enter(self, alone=False):
        """Called first, on the thread that runs the job; `alone` if there is no other slot."""

    def prepare(self):
        """Builds the job on the device."""

    def step(self):
        """Submits one step."""

    def mark(self):
        """A mark behind all submitted steps, for `reach`."""

    def reach(self, mark):
        """Waits until the steps before a mark have ended."""
        self.sync()

    def sync(self):
        """Waits until all submitted steps have ended."""

    def digest(self):
        """The SHA-256 of what fixed steps from the first state give, or None and the reason."""
        return None, "the job has no digest"

    def drop(self):
        """Frees what the job holds, as far as `prepare` came."""


class Slot(threading.Thread):
    """A job with a thread of its own."""

    def __init__(self, job):
        super().__init__(daemon=True)
        self.job, self.todo, self.result, self.failed = job, None, None, None
        self.wake, self.done = threading.Event(), threading.Event()
        self.start()

    def run(self):
        while True:
            self.wake.wait()
            self.wake.clear()
            if self.todo is None:
                return
            self.result, self.failed = None, None
            try:
                self.result = self.todo()
            except Exception as failed:
                # The error itself would keep the frames, and with them what they allocated.
                self.failed = line(failed)
            self.done.set()

    def begin(self, todo):
        """Starts something on the slot's thread."""
        self.todo = todo
        self.done.clear()
        self.wake.set()

    def end(self, limit_s):
        """Waits for it; raises if it failed or takes too long."""
        if not self.done.wait(limit_s):
            raise Refused(f"a job did not end within {limit_s:.0f} s")
        if self.failed:
            raise Refused(self.failed)
        return self.result

    def close(self):
        """Ends the thread."""
        self.todo = None
        self.wake.set()


class Server:
    """The loop of a server over a backend: `make` turns a job's name into a job, `facts` tells facts."""

    def __init__(self, make, facts=dict):
        self.make, self.facts, self.slots = make, facts, []
        # What libraries print is no answer.
        self.answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def serve(self):
        """Answers requests until the end of stdin."""
        for text in sys.stdin:
            if not text.strip():
                continue
            answer, ends = self._served(text)
            with contextlib.suppress(OSError):
                self.answers.write(json.dumps(answer) + "\n")
                self.answers.flush()
            if answer.get("lost"):
                os._exit(3)
            if ends:
                break
        # A driver that hangs in its exit handlers does not delay the session.
        watchdog = threading.Timer(10, os._exit, (0,))
        watchdog.daemon = True
        watchdog.start()
        with contextlib.suppress(Refused):
            self._drop()

    def _served(self, text):
        """The answer to a line, and true if it was the last one."""
        try:
            request = json.loads(text)
            if not isinstance(request, dict) or "do" not in request:
                raise Refused("a request is an object with `do`")
            what = request.pop("do")
            if what not in KNOWN:
                raise Refused(f"there is no request {what}")
            served = self._drop if what == "quit" else getattr(self, f"_{what}")
            return {"ok": True, **(served(**request) or {})}, what == "quit"
        except Exception as failed:
            reason = line(failed)
            return {"ok": False, "reason": reason, **({"lost": True} if fatal(reason) else {})}, False

    def _first(self):
        if not self.slots:
            raise Refused("no job is prepared")
        return self.slots[0]

    def _prepare(self, jobs):
        self._drop()
        begun = time.monotonic()
        try:
            for name in jobs:
                slot = Slot(self.make(name))
                self.slots.append(slot)
                slot.begin(lambda job=slot.job: _warm(job, len(jobs) == 1))
                slot.end(HUNG_S["prepare"])
        except Exception as failed:
            reason = line(failed)
            if not fatal(reason):
                self._drop()
            raise Refused(reason) from None
        return {"seconds": time.monotonic() - begun}

    def _run(self, seconds, at=None, least=1):
        self._first()
        at = at or time.monotonic()
        for slot in self.slots:
            slot.begin(lambda job=slot.job: _steps_for(job, at, seconds, least))
        return _columns(_ended(self.slots, seconds * 20 + HUNG_S["run"]))

    def _steps(self, count):
        slot = self._first()
        slot.begin(lambda: _count(slot.job, count))
        return {"seconds": slot.end(HUNG_S["steps"])}

    def _digest(self):
        slot = self._first()
        slot.begin(slot.job.digest)
        digest, reason = slot.end(HUNG_S["digest"])
        return {"digest": digest, "reason": reason}

    def _requests(self, rate, seconds, seed, at=None):
        first = self._first()
        at = at or time.monotonic()
        first.begin(lambda: _arrivals(first.job, rate, seconds, seed, at))
        for slot in self.slots[1:]:
            slot.begin(lambda job=slot.job: _steps_for(job, at, seconds, 1))
        latencies, *others = _ended(self.slots, seconds * 20 + HUNG_S["requests"])
        return {**latencies, **_columns(others)}

    def _facts(self):
        return {"pid": os.getpid(), "python": sys.version.split()[0], **self.facts()}

    def _drop(self):
        slots, self.slots = self.slots, []
        wrong = None
        for slot in slots:
            slot.begin(slot.job.drop)
            try:
                slot.end(HUNG_S["drop"])
            except Refused as failed:
                wrong = str(failed)
            slot.close()
        slots.clear()
        gc.collect()
        if wrong and fatal(wrong):
            raise Refused(wrong)


def _ended(slots, limit_s):
    """What all slots gave; raises behind the last one if one failed."""
    told, wrong = [], None
    for slot in slots:
        try:
            told.append(slot.end(limit_s))
        except Refused as failed:
            wrong = wrong or failed
    if wrong:
        raise wrong
    return told


def _columns(told):
    steps, seconds, late_ms = ([it[column] for it in told] for column in range(3))
    return {"steps": steps, "seconds": seconds, "late_ms": late_ms}


def _warm(job, alone):
    job.enter(alone)
    job.prepare()
    for _ in range(3):
        job.step()
    job.sync()


def _until(at):
    while (left := at - time.monotonic()) > 0:
        time.sleep(left)


def _steps_for(job, at, seconds, least):
    """Steps back to back for so long: how many, seconds until all had ended, and ms of a late begin."""
    _until(at)
    begun, steps, marks = time.monotonic(), 0, collections.deque()
    while time.monotonic() < at + seconds or steps < least:
        job.step()
        steps += 1
        marks.append(job.mark())
        if len(marks) > AHEAD:
            job.reach(marks.popleft())
    job.sync()
    return steps, time.monotonic() - begun, (begun - at) * 1e3


def _count(job, count):
    job.sync()
    begun = time.monotonic()
    for _ in range(count):
        job.step()
    job.sync()
    return time.monotonic() - begun


def _arrivals(job, rate, seconds, seed, at):
    """Latencies from each request's arrival to its end: a request that queues counts its wait.

    Requests that are still queued when ten times the seconds have passed are given up: `unserved`.
    """
    arrivals, drawn, when = [], random.Random(seed), 0.0
    while (when := when + drawn.expovariate(rate)) < seconds:
        arrivals.append(at + when)
    latencies, late = [], 0.0
    for arrival in arrivals or [at]:
        _until(arrival)
        begun = time.monotonic()
        if begun > at + 10 * seconds + 5:
            break
        job.step()
        job.sync()
        latencies.append((time.monotonic() - arrival) * 1e3)
        late = max(late, (begun - arrival) * 1e3)
    unserved = max(len(arrivals), 1) - len(latencies)
    return {"latency_ms": latencies, "late_start_ms": late, "unserved": unserved}
