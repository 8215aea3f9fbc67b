"""Programs that did nothing wrong: which of them fail beside a fault, and how soon they run again."""

import json
import os
import signal
import threading
import time

from . import processes
from .processes import Ended


class Innocent:
    """A `steady` program, started again whenever it ends, as its owner would."""

    def __init__(self, step, place, tenant, seconds):
        self.step, self.place, self.tenant = step, place, tenant
        self.until = time.monotonic() + seconds
        self.right, self.wrong, self.failures = [], 0, []
        self.process, self.done = None, threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.done.is_set() and (left := self.until - time.monotonic()) > 0:
            begun = time.monotonic()
            program = [self.step.program("steady"), "--seconds", f"{left:.2f}", "--scale", self.step.scale]
            self.process = self.place.start(program, self.tenant)
            said = threading.Thread(target=self._drain, args=(self.process.stderr,), daemon=True)
            said.start()
            for line in self.process.stdout:
                self._line(line)
            code = self.process.wait()
            if code and not self.done.is_set():
                self.failures.append((time.monotonic(), code))
                # A program that cannot even begin is not tried in a tight loop.
                self.done.wait(max(0.0, 0.05 - (time.monotonic() - begun)))

    @staticmethod
    def _drain(stream):
        for _ in stream:
            pass

    def _line(self, line):
        try:
            told = json.loads(line)
        except json.JSONDecodeError:
            return
        if told.get("right") is True:
            self.right.append(told["at"])
        elif told.get("right") is False:
            self.wrong += 1

    def runs(self, limit_s, after=0.0):
        """Waits for a right step after a time; false if none comes."""
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            if self.right and self.right[-1] > after:
                return True
            time.sleep(0.005)
        return False

    def gap_ms(self, since):
        """The longest time without a right step since then, in milliseconds."""
        steps = [it for it in self.right if it >= since]
        before = [it for it in self.right if it < since][-1:]
        times = [*(before or [since]), *steps]
        return max((b - a for a, b in zip(times, times[1:])), default=float("inf")) * 1e3

    def stop(self):
        """Ends the program."""
        self.done.set()
        if self.process and self.process.poll() is None:
            processes.kill(self.process)
        self.thread.join(5)


class Beside:
    """Two innocents in a mode while something happens."""

    def __init__(self, step, mode, seconds):
        self.step, self.mode = step, mode
        place = step.place(mode)
        self.all = [Innocent(step, place, f"t{it}", seconds + 30) for it in range(2)]
        if not all(it.runs(min(30, step.left() - 2)) for it in self.all):
            self.stop()
            raise Ended(f"{mode}: the innocent programs did not begin")

    def watch(self, deed, limit_s):
        """Does the deed, then waits until each innocent has run right again: what came of it."""
        begun = time.monotonic()
        deed()
        ended = time.monotonic()
        back = [it.runs(max(min(limit_s, self.step.left() - 2), 0.1), ended) for it in self.all]
        failed = sum(any(at >= begun for at, _ in it.failures) for it in self.all)
        return {"failed": float(failed), "back_ms": max(it.gap_ms(begun) for it in self.all) if all(back) else None,
                "wrong": float(sum(it.wrong for it in self.all))}

    def stop(self):
        """Ends both."""
        for it in self.all:
            it.stop()


def culprit(step, mode, what, limit_s):
    """A deed: a program of another tenant with this fault. Tells what it got in the log."""
    def deed():
        program = [step.program("culprit"), what, "--scale", step.scale, *MORE.get(what, ())]
        if step.rehearsal:
            program += REHEARSED.get(what, ())
        ran = step.place(mode).run(program, limit_s, "other")
        step.note(f"{what} in {mode}: {ran.out.strip()[-200:] or ran.failed}")
    return deed


#: An endless kernel ends by itself after so long: a GPU cannot be hung for good.
MORE = {"endless": ("--seconds", "3"), "load_bomb": ("--seconds", "8"), "oom": ("--limit", str(200 << 30))}
REHEARSED = {"endless": ("--seconds", "1"), "oom": ("--limit", str(64 << 20))}


def kill(step, mode, role):
    """A deed: ends a role of the mode's cluster with SIGKILL."""
    def deed():
        process = processes.roles(step.plan.states[mode]).get(role)
        if process is None:
            raise Ended(f"there is no {role}")
        os.kill(process, signal.SIGKILL)
    return deed
