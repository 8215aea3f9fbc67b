"""Faults of one tenant, of a worker and of the broker: which programs fail, and when they run again."""

from ..innocents import Beside, culprit, kill
from ..processes import Ended

CLUSTERS = True

CULPRITS = ("illegal_address", "assert", "oom", "load_bomb", "endless")
ROLES = ("worker", "broker")


def run(step):
    """Lets each fault happen beside two innocent programs, in each mode."""
    wrong, longest, reasons = {}, {}, {}
    for mode in ("slice", *step.ours()):
        ours = mode in step.ours()
        faults = [*CULPRITS, *(f"killed_{it}" for it in ROLES if ours)]
        for fault in faults:
            if not any(step.wants(it, mode) for it in (f"fault_failed_{fault}", f"innocent_back_ms_{fault}",
                                                       "innocent_back_ms", "fault_wrong_bits")):
                continue
            try:
                came = _fault(step, mode, fault)
            except Ended as why:
                reasons.setdefault(mode, f"{fault}: {why}")
                _tell(step, mode, fault, None, str(why))
                continue
            wrong.setdefault(mode, []).append(came["wrong"])
            if came["back_ms"] is None:
                reasons.setdefault(mode, f"{fault}: an innocent program did not run again")
            else:
                longest.setdefault(mode, []).append(came["back_ms"])
            _tell(step, mode, fault, came, None)
    for mode in step.modes_of("innocent_back_ms"):
        step.tell("innocent_back_ms", mode, value=max(longest.get(mode, [0])), values=longest.get(mode, []),
                  reason=reasons.get(mode), config="the longest of all faults")
    for mode in step.modes_of("fault_wrong_bits"):
        step.tell("fault_wrong_bits", mode, value=sum(wrong.get(mode, [])), values=wrong.get(mode, []),
                  reason=None if mode in wrong else reasons.get(mode))


def _fault(step, mode, fault):
    seconds = step.seconds(12, 6)
    beside = Beside(step, mode, seconds)
    try:
        role = fault.removeprefix("killed_")
        deed = kill(step, mode, role) if role != fault else culprit(step, mode, fault, seconds)
        return beside.watch(deed, 20)
    finally:
        beside.stop()
        if mode in step.ours() and not step.joined(mode).serves(min(20, max(step.left() - 1, 0.1))):
            step.note(f"no worker serves {mode} after {fault}")


def _tell(step, mode, fault, came, reason):
    if step.wants(f"fault_failed_{fault}", mode):
        step.tell(f"fault_failed_{fault}", mode, [came["failed"]] if came else [], config="of two programs",
                  reason=reason)
    if step.wants(f"innocent_back_ms_{fault}", mode):
        values = [came["back_ms"]] if came and came["back_ms"] is not None else []
        late = None if values else "an innocent program did not run again"
        step.tell(f"innocent_back_ms_{fault}", mode, values, reason=reason or late)
