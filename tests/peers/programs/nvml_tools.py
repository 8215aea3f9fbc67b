"""A program that holds memory by the driver API, and what each tool says of it meanwhile.

Prints a JSON object: what CUDA says, what each tool says, the tools' versions.
"""

import ctypes
import importlib.metadata
import json
import os
import subprocess
import sys

HELD = 24 << 20


def main():
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *arguments):
        status = getattr(cuda, name)(*arguments)
        assert status == 0, f"{name} is {status}"

    context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    name, uuid = ctypes.create_string_buffer(96), (ctypes.c_ubyte * 16)()
    call("cuInit", 0)
    call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
    call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(HELD))
    call("cuCtxSynchronize")
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    call("cuDeviceGetName", name, 96, 0)
    call("cuDeviceGetUuid", uuid, 0)
    text = bytes(uuid).hex()
    text = "-".join([text[:8], text[8:12], text[12:16], text[16:20], text[20:]])
    told = {"total": total.value, "free": free.value, "used": HELD, "pid": os.getpid(), "held": HELD,
            "name": name.value.decode(), "uuid": f"GPU-{text}", "devices": 1}
    # In this process, in another one, and by tools of their own.
    seen = {"nvidia-ml-py": pynvml_says(), "nvitop": nvitop_says()}
    other = subprocess.run([sys.executable, __file__, "pynvml"], check=True, capture_output=True, text=True)
    seen["nvidia-ml-py, another process"] = json.loads(other.stdout)
    seen["gpustat"] = gpustat_says(told)
    seen["nvidia-smi"] = smi_says(told)
    shown = subprocess.run([sys.executable, "-m", "nvitop", "-1"], check=True, capture_output=True, text=True)
    assert "24.00MiB" in shown.stdout and str(os.getpid()) in shown.stdout, shown.stdout
    versions = [f"{it} {importlib.metadata.version(it)}" for it in ("nvidia-ml-py", "nvitop")]
    print(json.dumps({"cuda": told, "seen": seen, "versions": [*versions, "gpustat 1.1.1"]}))


def pynvml_says():
    import pynvml
    pynvml.nvmlInit()
    device = pynvml.nvmlDeviceGetHandleByIndex(0)
    memory = pynvml.nvmlDeviceGetMemoryInfo(device)
    second = pynvml.nvmlDeviceGetMemoryInfo(device, version=pynvml.nvmlMemory_v2)
    assert (second.total, second.free, second.used) == (memory.total, memory.free, memory.used)
    (process,) = pynvml.nvmlDeviceGetComputeRunningProcesses(device)
    assert pynvml.nvmlDeviceGetGraphicsRunningProcesses(device) == []
    assert 0 <= pynvml.nvmlDeviceGetUtilizationRates(device).gpu <= 100
    (sample,) = pynvml.nvmlDeviceGetProcessUtilization(device, 0)
    assert sample.pid == process.pid
    for missing in (pynvml.nvmlDeviceGetPowerUsage, pynvml.nvmlDeviceGetEncoderUtilization):
        try:
            missing(device)
            raise AssertionError(f"{missing.__name__} answers")
        except pynvml.NVMLError_NotSupported:
            pass
    said = {"total": memory.total, "free": memory.free, "used": memory.used, "pid": process.pid,
            "held": process.usedGpuMemory, "name": pynvml.nvmlDeviceGetName(device),
            "uuid": pynvml.nvmlDeviceGetUUID(device), "devices": pynvml.nvmlDeviceGetCount()}
    pynvml.nvmlShutdown()
    return said


def nvitop_says():
    import nvitop
    (device,) = nvitop.Device.all()
    ((pid, process),) = device.processes().items()
    return {"total": device.memory_total(), "free": device.memory_free(), "used": device.memory_used(),
            "pid": pid, "held": process.gpu_memory(), "name": device.name(), "uuid": device.uuid(),
            "devices": nvitop.Device.count()}


def gpustat_says(told):
    """In MiB, and without what is free."""
    ran = subprocess.run([sys.executable, "-m", "gpustat", "--json"], check=True, capture_output=True, text=True)
    (device,) = json.loads(ran.stdout)["gpus"]
    (process,) = device["processes"]
    assert device["memory.total"] == told["total"] >> 20
    return {**told, "used": device["memory.used"] << 20, "pid": process["pid"],
            "held": process["gpu_memory_usage"] << 20, "name": device["name"], "uuid": device["uuid"]}


def smi_says(told):
    """In MiB; between fields are commas, and within them none."""
    def lines(*arguments):
        ran = subprocess.run(["nvidia-smi", *arguments, "--format=csv,noheader,nounits"], check=True,
                             capture_output=True, text=True)
        return [line.split(", ") for line in ran.stdout.splitlines()]
    ((total, free, used, name, uuid),) = lines("--query-gpu=memory.total,memory.free,memory.used,name,uuid")
    ((pid, held),) = lines("--query-compute-apps=pid,used_memory")
    assert int(total) == told["total"] >> 20 and int(free) == told["free"] >> 20
    return {**told, "used": int(used) << 20, "pid": int(pid), "held": int(held) << 20, "uuid": uuid,
            "name": name.replace(";", ",")}


if __name__ == "__main__":
    if sys.argv[1:] == ["pynvml"]:
        print(json.dumps(pynvml_says()))
    else:
        main()
