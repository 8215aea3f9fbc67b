"""Matrix products, attention, convolutions and models: the time of a step over native, and equal bits."""

from ..jobs import jobs, server
from ..pairs import Pairs

CLUSTERS = True

#: The prefix of a group's rows.
GROUPS = {"gemm": "", "attention": "", "conv": "", "model": "model_"}


def run(step):
    """Compares each job of a group; one server for each library stays warm."""
    servers = {}
    try:
        for group, prefix in GROUPS.items():
            for job in jobs(group):
                name = prefix + job["name"].replace(":", "_")
                if step.wants(f"{name}_ratio") or step.wants(f"{name}_bits"):
                    which = job["server"]
                    if which not in servers:
                        servers[which] = Pairs(step, server(step, which), 90)
                    servers[which].tell(job["name"], f"{name}_ratio", f"{name}_bits")
    finally:
        for it in servers.values():
            it.stop()
