"""The protocol of job servers: a JSON line each way. A server is started once per mode and told what to do.

| request | answer, beside `ok` |
| --- | --- |
| `prepare` `jobs` | builds a job per slot and warms it up: `seconds` |
| `run` `seconds` `at` | steps of all slots at once, from a time of CLOCK_MONOTONIC: `steps`, `seconds` per slot |
| `steps` `count` | that many steps of the first slot: `seconds` |
| `digest` | `digest` of fixed steps from fresh state, or why a job has none: `reason` |
| `requests` `rate` `seconds` `seed` `at` | Poisson arrivals at the first slot, the others run: `latency_ms`, `steps` |
| `drop` | frees the slots |
| `quit` | ends the server |

A refusal is `{"ok": false, "reason": ...}` and leaves the server usable.
"""

import json
import os
import random
import sys
import threading
import time

#: Steps of a job that may be in flight before it waits for them.
AHEAD = 8


class Job:
    """One job in a slot. A backend overrides all of it."""

    def prepare(self):
        """Builds the job on the device."""

    def enter(self):
        """Called once on the thread that runs the job."""

    def step(self):
        """Submits one step."""

    def sync(self):
        """Waits until all submitted steps have ended."""

    def digest(self):
        """The SHA-256 of what fixed steps from fresh state give, or None and the reason."""
        return None, "the job has no digest"

    def drop(self):
        """Frees what the job holds."""


class Slot(threading.Thread):
    """A job with a thread of its own."""

    def __init__(self, job):
        super().__init__(daemon=True)
        self.job, self.todo, self.done = job, None, threading.Event()
        self.wake = threading.Event()
        self.start()

    def run(self):
        while True:
            self.wake.wait()
            self.wake.clear()
            if self.todo is None:
                return
            try:
                self.result, self.failed = self.todo(), None
            except Exception as failed:  # The server answers with the reason and goes on.
                self.result, self.failed = None, failed
            self.done.set()

    def begin(self, todo):
        """Starts something on the slot's thread."""
        self.todo = todo
        self.done.clear()
        self.wake.set()

    def end(self):
        """Waits for it; raises what it raised."""
        self.done.wait()
        if self.failed:
            raise self.failed
        return self.result

    def close(self):
        """Ends the thread."""
        self.todo = None
        self.wake.set()


class Server:
    """The loop of a server over a backend: a function from a job's name to a job."""

    def __init__(self, make):
        self.make, self.slots = make, []
        # What libraries print is no answer.
        self.answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def serve(self):
        """Answers requests until the end of stdin."""
        for line in sys.stdin:
            try:
                request = json.loads(line)
                what = request.pop("do")
                if what == "quit":
                    self._drop()
                    self._answer({"ok": True})
                    return
                handler = {"prepare": self._prepare, "run": self._run, "steps": self._steps,
                           "digest": self._digest, "requests": self._requests, "drop": self._drop}[what]
                self._answer({"ok": True, **(handler(**request) or {})})
            except Exception as failed:
                text = " ".join(f"{type(failed).__name__}: {failed}".split())
                self._answer({"ok": False, "reason": text[:300]})

    def _answer(self, told):
        self.answers.write(json.dumps(told) + "\n")
        self.answers.flush()

    def _prepare(self, jobs):
        self._drop()
        begun = time.monotonic()
        for name in jobs:
            slot = Slot(self.make(name))
            self.slots.append(slot)
            slot.begin(lambda job=slot.job: _warm(job))
            slot.end()
        return {"seconds": time.monotonic() - begun}

    def _run(self, seconds, at=None, least=1):
        at = at or time.monotonic()
        for slot in self.slots:
            slot.begin(lambda job=slot.job: _steps_for(job, at, seconds, least))
        told = [slot.end() for slot in self.slots]
        return {"steps": [it[0] for it in told], "seconds": [it[1] for it in told]}

    def _steps(self, count):
        slot = self.slots[0]
        slot.begin(lambda: _count(slot.job, count))
        return {"seconds": slot.end()}

    def _digest(self):
        slot = self.slots[0]
        slot.begin(slot.job.digest)
        digest, reason = slot.end()
        return {"digest": digest, "reason": reason}

    def _requests(self, rate, seconds, seed, at=None):
        at = at or time.monotonic()
        first, *others = self.slots
        first.begin(lambda: _arrivals(first.job, rate, seconds, seed, at))
        for slot in others:
            slot.begin(lambda job=slot.job: _steps_for(job, at, seconds, 1))
        latencies = first.end()
        told = [slot.end() for slot in others]
        return {"latency_ms": latencies, "steps": [it[0] for it in told], "seconds": [it[1] for it in told]}

    def _drop(self):
        for slot in self.slots:
            slot.begin(slot.job.drop)
            slot.end()
            slot.close()
        self.slots = []


def _warm(job):
    job.enter()
    job.prepare()
    for _ in range(3):
        job.step()
    job.sync()


def _until(at):
    while (left := at - time.monotonic()) > 0:
        time.sleep(left if left < 0.002 else left - 0.001)


def _steps_for(job, at, seconds, least):
    """Steps back to back for so long; how many, and the seconds until the last one had ended."""
    _until(at)
    steps = 0
    while time.monotonic() < at + seconds or steps < least:
        job.step()
        steps += 1
        if steps % AHEAD == 0:
            job.sync()
    job.sync()
    return steps, time.monotonic() - at


def _count(job, count):
    job.sync()
    begun = time.monotonic()
    for _ in range(count):
        job.step()
    job.sync()
    return time.monotonic() - begun


def _arrivals(job, rate, seconds, seed, at):
    """Latencies from each request's arrival to its end: a request that queues counts its wait."""
    arrivals, drawn, when = [], random.Random(seed), 0.0
    while (when := when + drawn.expovariate(rate)) < seconds:
        arrivals.append(at + when)
    latencies = []
    for arrival in arrivals or [at]:
        _until(arrival)
        job.step()
        job.sync()
        latencies.append((time.monotonic() - arrival) * 1e3)
    return latencies
