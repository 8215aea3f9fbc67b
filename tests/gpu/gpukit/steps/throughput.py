"""Throughput of N jobs of each kind against every baseline; fairness; device memory; what it costs the host."""

import contextlib
import statistics
import time

from .. import processes
from ..crowd import Crowd
from ..processes import Ended

CLUSTERS = True

KINDS = ("launch", "middle", "large", "decode")
MIX = ("launch", "launch", "middle", "middle", "large", "large", "decode", "decode")
WINDOW_S = 0.7


def run(step):
    """Measures kind by kind; in a window all modes take turns, so that each ratio is of one moment."""
    with contextlib.ExitStack() as stack:
        daemon = step.mps()
        variables = stack.enter_context(daemon).variables if daemon else {}
        modes = ["native", "slice", step.mode("mps").name, *step.ours()]
        crowds = {}
        for mode in modes:
            more = variables if mode == "mps" else None
            crowds[mode] = Crowd(step, mode, 1 if mode == "native" else 8, more)
            stack.callback(crowds[mode].stop)
        alone = _alone(step, crowds["native"])
        _memory(step, crowds)
        for kind in (*KINDS, "mix"):
            for count in (8, 2):
                if kind != "mix" or count == 8:
                    _kind(step, crowds, alone, kind, count)
        _shares(step)


def _alone(step, crowd):
    """Steps a second of each job alone: the values of each turn, or why there are none."""
    told = {}
    for kind in KINDS:
        try:
            crowd.prepare([kind])
            told[kind] = [crowd.window(step.seconds(WINDOW_S))[0] for _ in step.turns(3)]
        except Ended as why:
            told[kind] = f"native: {why}"
    with contextlib.suppress(Ended):
        crowd.drop()
    return told


def _kind(step, crowds, alone, kind, count):
    """All modes in turns with so many jobs of a kind."""
    names = [it for it in _rows(kind, count) if step.wants(it)]
    if kind == "large" and count == 8 and step.wants("jain_8") or names:
        jobs = list(MIX) if kind == "mix" else [kind] * count
        rates, failed = {}, {}
        modes = [it for it in crowds if it != "native"]
        for mode in modes:
            try:
                crowds[mode].prepare(jobs)
            except Ended as why:
                failed[mode] = f"{mode}: {why}"
        cpu = Processors(step) if kind == "launch" and count == 8 else None
        for _ in step.turns():
            for mode in modes:
                if mode not in failed:
                    try:
                        with cpu.during(mode) if cpu else contextlib.nullcontext():
                            rates.setdefault(mode, []).append(crowds[mode].window(step.seconds(WINDOW_S)))
                    except Ended as why:
                        failed[mode] = f"{mode}: {why}"
        _tell(step, kind, count, jobs, alone, rates, failed)
        if cpu:
            cpu.tell()


def _rows(kind, count):
    return (f"throughput_ratio_{count}_vs_slice_{kind}", f"throughput_ratio_{count}_vs_mps_{kind}",
            f"throughput_alone_{count}_{kind}")


def _tell(step, kind, count, jobs, alone, rates, failed):
    against_slice, against_mps, against_alone = _rows(kind, count)
    stand_in = step.mode("mps").name
    for mode in step.ours():
        for name, other in ((against_slice, "slice"), (against_mps, stand_in)):
            if step.wants(name, mode):
                reason = failed.get(mode) or failed.get(other)
                step.tell(name, mode, _sums(rates, mode), _sums(rates, other), against=other, reason=reason,
                          config=f"{count} jobs, windows of {WINDOW_S} s")
    lone = {it: alone[it] for it in set(jobs)}
    missing = next((it for it in lone.values() if isinstance(it, str)), None)
    for mode in step.modes_of(against_alone):
        if missing or mode in failed:
            step.tell(against_alone, mode, reason=missing or failed[mode])
            continue
        usual = {it: statistics.median(values) for it, values in lone.items()}
        values = [sum(rate / usual[job] for rate, job in zip(turn, jobs)) for turn in rates[mode]]
        step.tell(against_alone, mode, values, [sum(usual[it] for it in jobs) / len(jobs)],
                  config="baseline: steps a second of a job alone")
    if kind == "large" and count == 8:
        for mode in step.modes_of("jain_8"):
            step.tell("jain_8", mode, [_jain(it) for it in rates.get(mode, [])], reason=failed.get(mode))


def _sums(rates, mode):
    return [sum(it) for it in rates.get(mode, [])]


def _jain(rates):
    squares = sum(it * it for it in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else 0.0


def _memory(step, crowds):
    """Device memory with eight middle jobs over that with one, mode by mode, before anything else runs."""
    for mode in step.modes_of("vram_ratio_8"):
        try:
            used = [_used(step, mode)]
            for count in (1, 8):
                crowds[mode].prepare(["middle"] * count)
                used.append(_used(step, mode))
            crowds[mode].drop()
        except Ended as why:
            step.tell("vram_ratio_8", mode, reason=f"{mode}: {why}")
            continue
        one, eight = used[1] - used[0], used[2] - used[0]
        reason = None if one > 0 else "one job used no memory that can be seen"
        step.tell("vram_ratio_8", mode, [eight], [one], reason=reason, config=f"{eight:.0f} and {one:.0f} bytes")


def _used(step, mode):
    used = step.card.memory_used()
    if used is None:
        status = step.joined(mode).told("status")
        if status is None:
            raise Ended("the cluster did not tell its memory")
        used = sum(it["held"] for it in status["memory"])
    return float(used)


def _shares(step):
    """Two large jobs with weights of 3 and 1."""
    for mode in step.modes_of("share_error_75_25"):
        crowd = Crowd(step, mode, 2)
        try:
            crowd.grow(2)
            cluster = step.joined(mode)
            crowd.prepare(["large", "large"])
            cluster.command("tenant", "set", "t0", "--weight", "3")
            turns = [crowd.window(step.seconds(2 * WINDOW_S, 0.2)) for _ in step.turns()]
            cluster.command("tenant", "set", "t0", "--weight", "1")
            values = [abs(it[0] / sum(it) - 0.75) for it in turns]
            step.tell("share_error_75_25", mode, values, config="weights 3 and 1")
        except Ended as why:
            step.tell("share_error_75_25", mode, reason=f"{mode}: {why}")
        finally:
            crowd.stop()


class Processors:
    """Processor time of a cluster's processes while a mode has its windows."""

    def __init__(self, step):
        self.step, self.spent = step, {}

    @contextlib.contextmanager
    def during(self, mode):
        """Counts what each role uses meanwhile; only in modes of ours."""
        roles = processes.roles(self.step.plan.states[mode]) if mode in self.step.ours() else {}
        before = {who: processes.processor_s(it) for who, it in roles.items()}
        begun = time.monotonic()
        yield
        took = time.monotonic() - begun
        for who, it in roles.items():
            after = processes.processor_s(it)
            if before[who] is not None and after is not None:
                self.spent.setdefault((who, mode), []).append((after - before[who]) / took)

    def tell(self):
        """Tells the rows of worker, leader and broker."""
        for who in ("worker", "leader", "broker"):
            for mode in self.step.modes_of(f"cpu_{who}_8"):
                self.step.tell(f"cpu_{who}_8", mode, self.spent.get((who, mode), []))
