"""A hundred runs, bit for bit: natively, as the only tenant, and beside other tenants."""

import json

from ..innocents import Innocent
from ..processes import Ended

CLUSTERS = True


def run(step):
    """Compares the digests of each run with those of the native ones."""
    count = 100 if not step.rehearsal else 20
    try:
        native = _digests(step, "native", count)
    except Ended as why:
        return step.rest(why)
    for mode in step.modes_of("bit_mismatches"):
        place = step.place(mode)
        try:
            alone = _digests(step, mode, count)
            beside = [Innocent(step, place, f"t{it}", 60) for it in range(1, 4)]
            try:
                for it in beside:
                    it.runs(20)
                shared = _digests(step, mode, count)
            finally:
                for it in beside:
                    it.stop()
        except Ended as why:
            step.tell("bit_mismatches", mode, reason=why)
            continue
        wrong = sum(a != b for told in (alone, shared) for a, b in zip(told, native, strict=True))
        wrong += sum(it.wrong for it in beside)
        step.tell("bit_mismatches", mode, [float(wrong)], config=f"{count} runs alone, {count} beside three tenants")


def _digests(step, mode, count):
    ran = step.place(mode).run([step.program("steady"), "--runs", count, "--scale", step.scale],
                               min(60, step.left() - 2), "t0")
    if ran.failed:
        raise Ended(f"{mode}: {ran.failed}")
    return json.loads(ran.out.splitlines()[-1])["digests"]
