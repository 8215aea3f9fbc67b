"""The time from a program's start to its first result."""

from ..jobs import server

CLUSTERS = True
REQUESTS = '{"do": "prepare", "jobs": ["gemm_fp16:256"]}\n{"do": "steps", "count": 1}\n{"do": "quit"}\n'


def run(step):
    """Starts a job server for one small product, in turns."""
    modes, times, failed = ["native", *step.ours()], {}, {}
    for _ in step.turns(3):
        for mode in modes:
            if mode not in failed:
                ran = step.place(mode).run(server(step, "torch"), min(60, step.left() - 1), stdin=REQUESTS)
                if ran.failed or ran.out.count('"ok": true') != 3:
                    refused = next((it for it in ran.out.splitlines() if '"ok": false' in it), "no result")
                    failed[mode] = f"{mode}: {ran.failed or refused}"
                times.setdefault(mode, []).append(ran.seconds)
    for mode in step.ours():
        if step.wants("cold_start_torch_ratio", mode):
            step.tell("cold_start_torch_ratio", mode, times.get(mode, []), times.get("native", []),
                      reason=failed.get("native") or failed.get(mode))
