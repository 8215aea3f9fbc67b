"""The card and the host: what each result names."""

import os
import pathlib
import re

from . import processes

FIELDS = ("name", "driver_version", "clocks.sm", "clocks.mem", "memory.total", "memory.used", "power.limit",
          "compute_mode", "mig.mode.current", "persistence_mode")


def query(fields=FIELDS):
    """What nvidia-smi says of GPU 0, by field; empty without a driver."""
    ran = processes.run(["nvidia-smi", "-i", "0", f"--query-gpu={','.join(fields)}",
                         "--format=csv,noheader,nounits"], 20)
    if ran.code != 0:
        return {}
    values = [it.strip() for it in ran.out.strip().splitlines()[0].split(",")]
    return dict(zip(fields, values))


class Card:
    """The card: its name and driver are asked once, its clocks with each result."""

    def __init__(self, rehearsal):
        self.rehearsal = rehearsal
        told = {} if rehearsal else query(("name", "driver_version"))
        self.name = told.get("name", "CPU worker" if rehearsal else "none")
        self.driver = told.get("driver_version", "none")

    def clocks(self):
        """The clocks just now, in MHz."""
        told = {} if self.rehearsal else query(("clocks.sm", "clocks.mem"))
        return {"sm_mhz": _number(told.get("clocks.sm")), "mem_mhz": _number(told.get("clocks.mem"))}

    def memory_used(self):
        """Memory in use on the GPU, in bytes; None without one."""
        told = {} if self.rehearsal else query(("memory.used",))
        used = _number(told.get("memory.used"))
        return None if used is None else used * 2**20


def _number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def host():
    """Facts of the host: the row of each, with its value and a note."""
    memory = pathlib.Path("/proc/meminfo").read_text()
    limits = pathlib.Path("/proc/self/limits").read_text()
    locked = re.search(r"Max locked memory +(\S+)", limits)[1]
    shm = os.statvfs("/dev/shm") if os.path.isdir("/dev/shm") else None
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return {
        "fact_cores": (os.cpu_count(), model[1] if model else ""),
        "fact_memory_gib": (_kib(memory, "MemTotal") / 2**20, ""),
        "fact_hugepages_free": (float(re.search(r"HugePages_Free: +(\d+)", memory)[1]), ""),
        # -1 means that there is no limit.
        "fact_memlock_mib": (-1.0 if locked == "unlimited" else int(locked) / 2**20, locked),
        "fact_shm_gib": (shm.f_bavail * shm.f_frsize / 2**30 if shm else 0.0, ""),
    }


def _kib(text, name):
    return float(re.search(rf"{name}: +(\d+) kB", text)[1])
