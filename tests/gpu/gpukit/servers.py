"""Job servers: processes that are started once per mode and told what to do line by line."""

import json
import os
import queue
import subprocess
import threading

from . import processes
from .processes import Ended


class Server:
    """A job server in one mode. `servers/protocol.py` says what it understands."""

    def __init__(self, place, program, log, tenant="default", priority=None):
        self.place, self.tenant = place, tenant
        self.log = open(log, "ab")
        self.process = place.start(program, tenant, priority, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=self.log)
        self.path, self.answers = log, queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            try:
                answer = json.loads(line)
            except json.JSONDecodeError:
                continue
            if isinstance(answer, dict):
                self.answers.put(answer)
        self.answers.put(None)

    def send(self, request):
        """Sends a request; `answer` has its answer."""
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except (OSError, ValueError) as failed:
            raise Ended(f"the job server has ended: {self._last() or failed}") from None

    def answer(self, limit_s):
        """The answer to the oldest request; raises if it is a refusal or does not come."""
        try:
            told = self.answers.get(timeout=max(limit_s, 0.1))
        except queue.Empty:
            self.kill()
            raise Ended(f"the job server did not answer within {limit_s:.0f} s") from None
        if told is None:
            self.answers.put(None)
            raise Ended(f"the job server has ended: {self._last() or 'no message'}")
        if not told.get("ok"):
            raise Ended(str(told.get("reason", "refused")))
        return told

    def ask(self, limit_s, **request):
        """Sends a request and waits for its answer."""
        self.send(request)
        return self.answer(limit_s)

    def alive(self):
        """True while the process runs."""
        return self.process.poll() is None

    def _last(self):
        with open(self.path, "rb") as log:
            log.seek(max(0, os.path.getsize(self.path) - 4096))
            lines = [it for it in log.read().decode(errors="replace").splitlines() if it.strip()]
        return lines[-1].strip()[:300] if lines else ""

    def kill(self):
        """Ends the process at once."""
        processes.kill(self.process)

    def stop(self, limit_s=5):
        """Asks the process to end; kills it if that takes too long."""
        try:
            self.send({"do": "quit"})
            self.process.wait(limit_s)
        except (Ended, subprocess.TimeoutExpired):
            self.kill()
            self.process.wait()
        self.log.close()
