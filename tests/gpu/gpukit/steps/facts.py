"""Facts of the host and its GPU."""

import json
import shutil
import time

from .. import facts, mps

CLUSTERS = False


def run(step):
    """Tells each fact once; the text of nvidia-smi is a note of the GPU's memory."""
    told = facts.host()
    card = {} if step.rehearsal else facts.query()
    total = card.get("memory.total")
    told["fact_gpu_memory_gib"] = (float(total) / 1024 if total else None, json.dumps(card))
    told["fact_mps"] = (1.0 if mps.control() else 0.0, mps.control() or "not found")
    told["fact_nvcc"] = (1.0 if shutil.which("nvcc") else 0.0, shutil.which("nvcc") or "not found")
    told["fact_memcpy_gbs"] = (_memcpy(), "64 MiB, one thread")
    for name, (value, note) in told.items():
        if step.wants(name):
            step.tell(name, "native", [value], config=note, reason=None if value is not None else "no GPU")


def _memcpy():
    source, target = bytearray(1 << 26), bytearray(1 << 26)
    best = 0.0
    for _ in range(3):
        begun = time.perf_counter()
        target[:] = source
        best = max(best, len(source) / (time.perf_counter() - begun) / 1e9)
    return best
