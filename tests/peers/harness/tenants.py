"""Two clients that know nothing of each other, at once on one worker."""

import subprocess
import time

from .cluster import finish, stop

#: The service, which comes first, and the training.
SERVICE, TRAINING = ("service", 0), ("training", 4)


def _serve(stage, programs):
    tenant, priority = SERVICE
    return stage.cluster.start([stage.python, programs / "requests.py"], tenant=tenant,
                               priority=priority, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _working(cluster):
    """The tenants that have a session just now."""
    status = cluster.status() or {"tenants": []}
    return {it["tenant"] for it in status["tenants"] if it["sessions"]}


def together(stage, row, programs, tinygrad):
    """The service alone, and again while tinygrad trains at the lowest priority: both right, both
    in `warploom status`, and what that does to the service's latency."""
    alone = finish(_serve(stage, programs), 300)
    tenant, priority = TRAINING
    training = stage.cluster.start(
        [stage.python, programs / "mlp.py", "--steps", "400"], tenant=tenant, priority=priority,
        variables=tinygrad, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        began = time.monotonic()
        while tenant not in _working(stage.cluster) and training.poll() is None:
            if time.monotonic() - began > 120:
                break
            time.sleep(0.2)
        service, seen = _serve(stage, programs), set()
        while service.poll() is None and training.poll() is None and len(seen) < 2:
            seen = _working(stage.cluster)
            time.sleep(0.1)
        beside = finish(service, 300)
        lasted = training.poll() is None
        trained = finish(training, 900)
    finally:
        stop(training)
    for ran in (alone, beside, trained):
        row.passed, row.failed = row.passed + (ran.failed is None), row.failed + bool(ran.failed)
        if ran.failed:
            row.fail(ran.failed)
    if row.failed:
        return
    if seen < {SERVICE[0], TRAINING[0]}:
        row.fail(f"`warploom status` never showed both at work, but {sorted(seen) or 'nobody'}")
    if not lasted:
        row.fail("the training ended before the service did")
    row.notes.append(
        f"the service's p99 {beside.told['p99_ms']} ms beside the training, {alone.told['p99_ms']} ms "
        f"alone (p50 {beside.told['p50_ms']} and {alone.told['p50_ms']} ms)")
    row.notes.append(f"the training's {trained.told['steps']} losses at most "
                     f"{trained.told['difference']:.1e} from NumPy's")
