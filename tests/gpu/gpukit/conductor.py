"""A session: steps in the order of their value, each with a deadline, until the time is used."""

import importlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

from . import clusters, facts, mps, processes, summary
from .results import Results
from .rows import Rows
from .step import Plan

#: Seconds at the end for the summary and the end of the clusters.
ENDING_S = 4
#: A session's programs are scaled down so far in a rehearsal.
REHEARSAL_SCALE = 0.02


class Conductor:
    """Runs the steps of phases on this host and keeps their rows."""

    def __init__(self, kit, out, until, had=(), rehearsal=False, command=""):
        self.begun = time.monotonic()
        self.until = self.begun + until
        self.rehearsal, self.command = rehearsal, command
        self.out = pathlib.Path(out).resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.work = kit.parent / "work"
        self.kit, self.rows = kit, Rows.load()
        self.log = (self.out / "session.log").open("a")
        self.results = Results(self.out / "results.jsonl", had)
        self.card = facts.Card(rehearsal)
        self.absent = [] if mps.control() and not rehearsal else ["mps"]
        self.states, self.overrun, self.child = {}, [], None
        self.supervisor = clusters.Supervisor(self.note)

    # --- log

    def note(self, text, lines=()):
        """Writes to the log and to stderr; lines of another log go to the former only."""
        said = f"{time.monotonic() - self.begun:7.1f} s  {text}"
        print(said, file=sys.stderr, flush=True)
        print(said, *(f"    | {it}" for it in lines), sep="\n", file=self.log, flush=True)

    # --- clusters

    def _start_clusters(self):
        """A cluster for each of our modes; in a rehearsal also the twin, in place of the native GPU."""
        device = "cpu" if self.rehearsal else "cuda"
        for mode in self.rows.modes.values():
            tenant = mode.how == "tenant"
            name = mode.name if tenant else "twin"
            if (tenant or self.rehearsal) and mode.name not in self.states:
                known = [it for it in self.supervisor.clusters if it.name == name]
                cluster = known[0] if known else self.supervisor.add(clusters.Cluster(
                    name, self.kit / "bin/warploom", self.work / name,
                    (f"worker.device={device}", *mode.settings), self.kit / "bin"))
                self.states[mode.name] = cluster.environment["WARPLOOM_CLUSTER_STATE_DIR"]

    # --- steps

    def run(self, phases, only=()):
        """Runs the steps of these phases whose rows are still wanted."""
        self._wheels()
        for step in self.rows.steps:
            if step.phase in phases and (not only or step.name in only):
                self._step(step)
                self._summary(phases)
        missing = self.rows.missing(self.results.all(), self.absent, phases)
        self.note(f"{len(missing)} rows missing", missing)
        return missing

    def wanted(self, step):
        """The keys of a step that no result has yet."""
        keys = [key for row in self.rows.of_step(step.name) for key in self.rows.keys(row, self.absent)]
        return [key for key in keys if not self.results.has(key)]

    def _step(self, step):
        wanted = self.wanted(step)
        if not wanted:
            return
        budget = self.rows.budget(step, {row for row, _ in wanted}, self.rehearsal)
        left = self.until - ENDING_S - time.monotonic()
        if budget > left:
            self.note(f"{step.name}: needs {budget:.0f} s, {max(left, 0):.0f} s are left")
            return
        if importlib.import_module(f"gpukit.steps.{step.name}").CLUSTERS:
            try:
                self._start_clusters()
            except processes.Ended as failed:
                self.note(f"{step.name}: {failed}")
                return self._unmeasured(wanted, str(failed))
        self.note(f"{step.name}: {len(wanted)} rows, at most {budget:.0f} s")
        begun = time.monotonic()
        why = self._child(step, wanted, begun + budget)
        took = time.monotonic() - begun
        untold = [key for key in wanted if key not in self.told]
        if untold:
            self._unmeasured(untold, why or "the step told nothing of it")
        self.note(f"{step.name}: {took:.1f} s, {len(self.told)} of {len(wanted)} rows{', ' + why if why else ''}")

    def _child(self, step, wanted, until):
        """Runs a step in a process session of its own; why it ended early, or None."""
        folder = self.work / step.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        plan = Plan(step=step.name, wanted=wanted, rehearsal=self.rehearsal,
                    scale=REHEARSAL_SCALE if self.rehearsal else 1.0, until=until, kit=str(self.kit),
                    work=str(self.work), out=str(self.out), absent=self.absent, states=self.states,
                    command=self.command)
        path = self.work / f"{step.name}.plan.json"
        plan.write(path)
        session = pathlib.Path(__file__).resolve().parents[1] / "session.py"
        self.told = set()
        self.child = subprocess.Popen([sys.executable, "-B", session, "--child", path], text=True,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      start_new_session=True)
        ears = [threading.Thread(target=self._hear, args=(self.child.stdout,), daemon=True),
                threading.Thread(target=self._log, args=(self.child.stderr,), daemon=True)]
        for it in ears:
            it.start()
        why = None
        try:
            code = self.child.wait(max(until - time.monotonic(), 0.1))
            why = f"the step ended with {code}" if code else None
        except subprocess.TimeoutExpired:
            why = "the step was ended at its deadline"
            self.overrun.append(step.name)
        finally:
            processes.end_session(self.child.pid)
            self.child.wait()
            self.child = None
        for it in ears:
            it.join(5)
        return why

    def _hear(self, stream):
        for line in stream:
            try:
                result = json.loads(line)
            except json.JSONDecodeError:
                continue
            self.results.add(result)
            self.told.add((result["metric"], result["mode"]))

    def _log(self, stream):
        for line in stream:
            self.note(line.rstrip())

    def _unmeasured(self, keys, why):
        """Rows that a step did not reach: the next run with these results tries them again."""
        rows = {it.name: it for it in self.rows.rows}
        for name, mode in keys:
            self.results.add({
                "metric": name, "mode": mode, "phase": rows[name].phase, "value": None,
                "unit": rows[name].unit, "baseline": rows[name].baseline, "baseline_value": None, "min": None,
                "max": None, "reps": 0, "config": "", "reason": why, "again": True, "gpu": self.card.name,
                "driver": self.card.driver, "clocks": {"sm_mhz": None, "mem_mhz": None},
                "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "rehearsal": self.rehearsal,
                "command": self.command})

    # --- beginning and end

    def _wheels(self):
        """Installs the wheels that the kit brings, for programs of this session only."""
        wheels, site = sorted((self.kit / "wheels").glob("*.whl")), self.work / "site"
        if wheels and not site.is_dir():
            ran = processes.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
                                 "--no-compile", "--target", site, *wheels], 60)
            if ran.failed:
                self.note(f"the kit's wheels were not installed: {ran.failed}")

    def _summary(self, phases):
        text = summary.markdown(self.rows, self.results.all(), self.absent, phases)
        partial = self.out / "summary.md.partial"
        partial.write_text(text)
        partial.rename(self.out / "summary.md")

    def stop(self):
        """Ends what still runs."""
        if self.child:
            processes.end_session(self.child.pid)
        self.supervisor.stop()
        for cluster in self.supervisor.clusters:
            if lines := cluster.last_lines():
                (self.out / f"cluster-{cluster.name}.log").write_text("\n".join(lines) + "\n")
        self.results.close()
        self.log.close()


def watch_parent():
    """Ends a step whose session was killed: its processes would stay, on the GPU as well."""
    parent = os.getppid()

    def watch():
        while os.getppid() == parent:
            time.sleep(0.2)
        for process in processes.members(os.getsid(0)):
            if process != os.getpid():
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
