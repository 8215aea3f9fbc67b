"""The traces of programs on CuPy, the CUDA runtime and torch.compile, with parents of every kind and without."""

import os
import subprocess

from . import joined, wheels
from .chart import Collector
from .cupy import REQUIREMENTS
from .runtimes import ON
from .torch import interpreter, kept, variables
from .traces import PARENT, Program, Started, cluster_of, count, fresh, judge, requests

PEERS = wheels.PEERS

#: Kinds of parents: none, the variable TRACEPARENT, a span of OpenTelemetry's, Warploom's own function.
PARENTS = ("none", "inherited", "spans", "set")
#: Seconds for a program. The first one on torch compiles.
LIMIT = 900


class Makers:
    """The programs as they are made on this machine."""

    def __init__(self, stage, folder):
        self.stage, self.folder = stage, folder
        self.started = Started(stage, folder)

    def numba(self, tenant, parents, *arguments):
        """A program on Numba."""
        return self.started.program(tenant, self.stage.python, parents, ("--on", "numba", *arguments))

    def cupy(self, tenant, parents, *arguments):
        """A program on CuPy, whose kernels NVRTC compiles."""
        python = wheels.environment(self.stage.options.tools, REQUIREMENTS)
        cache = {**ON, "CUPY_CACHE_DIR": str(self.folder / "cupy")}
        return self.started.program(tenant, python, parents, ("--on", "cupy", *arguments), cache)

    def torch(self, tenant, parents, *arguments):
        """A program on torch, whose kernels torch.compile makes."""
        python = interpreter(self.stage.options)
        cache = variables(kept(self.stage.options, python))
        return self.started.program(tenant, python, parents, ("--on", "torch", *arguments), cache)

    def nvcc(self, tenant, parents, *arguments):
        """A program of CUDA C++; nothing if it has no parents of this kind."""
        if parents == "spans":
            return None
        source, program = PEERS / "programs/traced.cu", self.folder / "traced"
        if not program.is_file():
            tools = wheels.toolkit(self.stage.options.tools)
            environment = {**os.environ, "PATH": f"{tools / 'bin'}:{os.environ['PATH']}"}
            made = subprocess.run([tools / "bin/nvcc", "-o", program, source, "-L", tools / "lib"], env=environment,
                                  capture_output=True, text=True, check=False)
            if made.returncode:
                raise RuntimeError(f"nvcc: {made.stderr.strip()[-500:]}")
        command, environment = [program, *arguments], dict(ON)
        if parents == "set":
            command += ["--parents", "set"]
        elif parents == "inherited":
            environment["TRACEPARENT"] = f"00-{PARENT[0]}-{PARENT[1]}-01"
        return Program(tenant, command, environment)


def traces_programs(stage, row):
    """Programs on CuPy, the CUDA runtime and torch, with every kind of parent: each request has a trace, and a right
    one. A program with a parent that is not sampled has none."""
    folder = fresh(stage, "traces-programs")
    makers = Makers(stage, folder)
    several = ("--requests", requests(stage))
    with Collector(stage, folder) as collector:
        with cluster_of(stage, folder, collector) as cluster:
            for name in ("numba", "cupy", "nvcc", "torch"):
                try:
                    for parents in PARENTS:
                        if program := getattr(makers, name)(f"{name}-{parents}", parents, *several):
                            judge(row, cluster, collector, program, LIMIT)
                except wheels.Missing as missing:
                    row.notes.append(f"{name} is left out: {missing}")
            unsampled = makers.nvcc("unsampled", "none", *several)
            unsampled.variables["TRACEPARENT"] = f"00-{PARENT[0]}-{PARENT[1]}-00"
            ran = cluster.run(unsampled.command, LIMIT, tenant=unsampled.tenant, variables=unsampled.variables)
        # The cluster has ended, and with it the export.
        count(row, "unsampled", ran.failed or _told(collector, unsampled, ran))


def _told(collector, program, ran):
    """What was received of a program of which nothing must be, or nothing."""
    found = joined.seen(collector, joined.Made(program.tenant, ran.told))
    return f"{len(found)} requests, the first is {found[0]}" if found else None
