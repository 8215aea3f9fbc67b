"""Jobs that are timed natively and as a tenant, in turns, by servers that stay warm."""

import statistics

from .processes import Ended
from .servers import Server

#: A turn takes about so long natively.
TURN_S = 0.3


class Pairs:
    """A job server in each mode; one that has ended is started again for the next job."""

    def __init__(self, step, program, limit_s):
        self.step, self.program, self.limit_s = step, program, limit_s
        self.servers = {}

    def _server(self, mode):
        server = self.servers.get(mode)
        if server is None or not server.alive():
            log = self.step.work / self.step.plan.step / f"server-{mode}.log"
            server = self.servers[mode] = Server(self.step.place(mode), self.program, log)
        return server

    def compare(self, job, modes, turns):
        """Seconds of a step by mode and turn, digests by mode, and why a mode has none."""
        times, digests, failed = {it: [] for it in modes}, {}, {}
        count = None
        for mode in modes:
            try:
                server = self._server(mode)
                server.ask(self._limit(), do="prepare", jobs=[job])
                digests[mode] = server.ask(self._limit(), do="digest")
                if mode == "native":
                    once = server.ask(self._limit(), do="steps", count=2)["seconds"] / 2
                    count = max(1, min(2000, int(self.step.seconds(TURN_S) / max(once, 1e-6))))
            except Ended as why:
                failed[mode] = f"{mode}: {why}"
        for _ in turns:
            for mode in modes:
                if mode not in failed and count:
                    try:
                        took = self._server(mode).ask(self._limit(), do="steps", count=count)["seconds"]
                        times[mode].append(took / count)
                    except Ended as why:
                        failed[mode] = f"{mode}: {why}"
        for mode in modes:
            if mode not in failed:
                try:
                    self._server(mode).ask(self._limit(), do="drop")
                except Ended as why:
                    self.step.note(f"{job} in {mode}: {why}")
        return times, digests, failed

    def _limit(self):
        return max(min(self.limit_s, self.step.left() - 1), 0.5)

    def stop(self):
        """Ends all servers."""
        for server in self.servers.values():
            server.stop()

    def tell(self, job, row, bits):
        """Measures a job and tells its two rows: the time of a step over native, and if the bits are equal."""
        step = self.step
        if not (step.wants(row) or step.wants(bits)):
            return
        ours = step.ours()
        times, digests, failed = self.compare(job, ["native", *ours], step.turns())
        for mode in ours:
            reason = failed.get("native") or failed.get(mode)
            if step.wants(row, mode):
                config = f"{statistics.median(times[mode]) * 1e3:.4g} ms a step" if times[mode] else job
                step.tell(row, mode, times[mode], times["native"], config=config, reason=reason)
            if step.wants(bits, mode):
                theirs, own = digests.get("native", {}), digests.get(mode, {})
                # Bits that change from run to run only as a tenant are a fault of ours, and no missing digest.
                unsteady = str(own.get("reason")).startswith("unsteady") and theirs.get("digest")
                none = theirs.get("reason") or (None if unsteady else own.get("reason"))
                equal = float(theirs.get("digest") == own.get("digest"))
                step.tell(bits, mode, [] if reason or none else [equal], reason=reason or none)
