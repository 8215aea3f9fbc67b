"""Several jobs at a time in one mode: a process for each, or threads of one process."""

import time

from .jobs import server
from .processes import Ended
from .servers import Server

#: The jobs of a window begin together, so long after they were told.
HEAD_S = 0.05


class Crowd:
    """N places for jobs in a mode. The servers stay warm from one window to the next."""

    def __init__(self, step, mode, count, variables=None):
        self.step, self.mode, self.count = step, mode, count
        self.threads = step.rows.modes[mode].how == "threads"
        self.place = step.place(mode, variables)
        self.servers, self.jobs = [], []

    def grow(self, count):
        """Starts servers until there are so many."""
        wanted = min(count, 1) if self.threads else count
        while len(self.servers) < wanted:
            log = self.step.work / self.step.plan.step / f"{self.mode}-{len(self.servers)}.log"
            tenant = f"t{len(self.servers)}"
            self.servers.append(Server(self.place, server(self.step, "torch"), log, tenant))

    def prepare(self, jobs, limit_s=120):
        """Prepares a job in each place; the servers of places that get none free theirs."""
        self.grow(len(jobs))
        self.jobs = jobs
        if self.threads:
            self.servers[0].ask(self._limit(limit_s), do="prepare", jobs=jobs)
            return
        for it, job in zip(self.servers, jobs):
            it.send({"do": "prepare", "jobs": [job]})
        for it in self.servers[len(jobs):]:
            it.send({"do": "drop"})
        for it in self.servers:
            it.answer(self._limit(limit_s))

    def window(self, seconds):
        """Steps a second of each job, all running at once."""
        request = {"do": "run", "seconds": seconds, "at": time.monotonic() + HEAD_S}
        busy = self.servers[:1] if self.threads else self.servers[:len(self.jobs)]
        for it in busy:
            it.send(request)
        told = [it.answer(self._limit(seconds * 20 + 20)) for it in busy]
        return [steps / took for answer in told for steps, took in zip(answer["steps"], answer["seconds"])]

    def _limit(self, most):
        left = self.step.left() - 1
        if left <= 0:
            raise Ended("no time is left")
        return min(most, left)

    def drop(self):
        """Frees all jobs."""
        for it in self.servers:
            it.send({"do": "drop"})
        for it in self.servers:
            it.answer(self._limit(30))

    def stop(self):
        """Ends the servers, all at once."""
        for it in self.servers:
            try:
                it.send({"do": "quit"})
            except Ended:
                pass
        for it in self.servers:
            it.stop()
