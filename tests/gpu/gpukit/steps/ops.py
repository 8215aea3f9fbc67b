"""Operations drawn from PyTorch's test samples: equal bits natively and as a tenant."""

import json

CLUSTERS = True
ROWS = {"ops_fp32_mismatches": "float32", "ops_bf16_mismatches": "bfloat16"}
COUNT = 300


def run(step):
    """Draws for each type; an operation whose own bits differ from run to run is left out."""
    for row, dtype in ROWS.items():
        if step.wants(row):
            first, second = (_draw(step, "native", dtype, it) for it in "ab")
            steady = {name for name, it in first.items() if it and second.get(name) == it}
            for mode in step.modes_of(row):
                ours = _draw(step, mode, dtype, "a")
                wrong = sorted(it for it in steady if it in ours and ours[it] != first[it])
                untried = sum(it not in ours for it in steady)
                for it in wrong:
                    step.note(f"{dtype} {it}: {'other bits' if ours[it] else 'failed'} in {mode}")
                reason = None if steady and not untried else f"{untried} of {len(steady)} operations were not reached"
                step.tell(row, mode, [float(len(wrong))] if not reason else [], reason=reason,
                          config=f"{len(steady)} operations with steady bits; {', '.join(wrong)[:200]}")


def _draw(step, mode, dtype, which):
    """Digests by operation; None for one that failed. A process that dies is started again behind it."""
    out = step.work / step.plan.step / f"{mode}-{dtype}-{which}.jsonl"
    count = 20 if step.rehearsal else COUNT
    told, skip = {}, 0
    for _ in range(12):
        words = ["--count", count, "--dtype", dtype, "--out", out, "--skip", skip]
        if step.rehearsal:
            words.append("--stand-in")
        ran = step.place(mode).run([*step.script("opinfo.py"), *words], max(step.left() / 3, 0.5))
        lines = [json.loads(it) for it in out.read_text().splitlines()] if out.exists() else []
        told = {it["op"]: it["digest"] for it in lines if "op" in it}
        last = max((it["place"] for it in lines), default=-1)
        if ran.code == 0 or last + 1 <= skip or step.left() < 5:
            if ran.failed:
                step.note(f"{dtype} in {mode}: {ran.failed}")
            break
        died = next((it["begin"] for it in lines if it.get("place") == last and "begin" in it), None)
        told.setdefault(died, None)
        skip = last + 1
        if mode in step.ours():
            step.joined(mode).serves(10)
    return told
