"""The installed compilers: where they are, and what they need to be found."""

import ctypes
import os
import pathlib
import site

ROOT = [pathlib.Path()]


def ready(root):
    """Makes the wheels below `root` importable, without a GPU, a driver or a toolkit."""
    root = root.resolve()
    ROOT[0] = root
    os.environ["CUDA_HOME"] = str(root / "nvidia" / "cuda_nvcc")
    site.addsitedir(str(root))


def path(*parts):
    """A path inside the wheels."""
    return ROOT[0].joinpath(*parts)


def load(*parts):
    """Loads a shared library of the wheels for everybody in this process."""
    return ctypes.CDLL(str(path(*parts)), ctypes.RTLD_GLOBAL)


def includes():
    """Folders with CUDA's headers."""
    nvidia = path("nvidia")
    return [str(nvidia / package / "include")
            for package in ("cuda_runtime", "cuda_nvcc", "cuda_cccl")]
