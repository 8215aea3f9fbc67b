"""The clients, from PyPI: pinned, checked by hash, installed once."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

PEERS = pathlib.Path(__file__).resolve().parents[1]

PIP = [sys.executable, "-m", "pip"]
QUIETLY = ["--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]


class Missing(Exception):
    """What a suite needs cannot be had on this machine; its text says why."""


def ran(command, environment=None):
    """Runs a command of pip's; where it fails, what it is for cannot be had."""
    result = subprocess.run([str(part) for part in command], env=environment, check=False,
                            capture_output=True, text=True)
    if result.returncode:
        said = (result.stderr or result.stdout).strip().splitlines()
        raise Missing("; ".join(line.strip() for line in said[-3:]) or f"{command[0]} failed")


def _once(tools, names, make, install=True):
    """The folder that `make` makes of these files of ours, made whole or not at all, once."""
    pinned = b"".join((PEERS / name).read_bytes() for name in names)
    folder = tools / f"peers-{hashlib.sha256(pinned).hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    if not install:
        raise Missing(f"{folder} is missing: tests/peers/run.py makes it")
    print(f"peers: installing {' and '.join(names)} into {folder}", file=sys.stderr, flush=True)
    partial = folder.with_name(f"{folder.name}.{os.getpid()}.partial")
    partial.parent.mkdir(parents=True, exist_ok=True)
    try:
        make(partial)
        try:
            partial.rename(folder)
        except OSError:
            # Another run was faster.
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def packages(root):
    """The folder of an environment's packages; `bin` there has their scripts, for no certain interpreter."""
    return root / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def environment(tools, *names, install=True):
    """The interpreter of an environment with what the requirement files name."""
    def make(partial):
        ran([sys.executable, "-m", "venv", "--without-pip", partial])
        for name in names:
            ran([*PIP, "install", *QUIETLY, "--root-user-action=ignore", "--no-warn-script-location",
                  "--only-binary", ":all:", "--target", packages(partial), "-r", PEERS / name])
    return _once(tools, names, make, install) / "bin" / "python"


def libraries(tools, name):
    """A folder for each package of a requirement file, named by its version: several versions of a
    package side by side, unpacked and not installed."""
    def make(partial):
        partial.mkdir()
        for line in (PEERS / name).read_text().replace("\\\n", " ").splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            version = line.split("==")[1].split()[0]
            only = partial / f"{version}.txt"
            only.write_text(line + "\n")
            ran([*PIP, "download", *QUIETLY, "--only-binary", ":all:", "--dest", partial / "wheels",
                  "-r", only])
            (wheel,) = (partial / "wheels").iterdir()
            shutil.unpack_archive(wheel, partial / version, "zip")
            wheel.unlink()
            only.unlink()
        (partial / "wheels").rmdir()
    return _once(tools, [name], make)


def merged(tools, name):
    """A folder with the packages of a requirement file, unpacked into one another."""
    def make(partial):
        ran([*PIP, "install", *QUIETLY, "--root-user-action=ignore", "--only-binary", ":all:",
             "--target", partial, "-r", PEERS / name])
    return _once(tools, [name], make)


def toolkit(tools):
    """The folder of NVIDIA's toolkit with nvcc, put together from the packages of its parts."""
    folder = merged(tools, "nvcc-requirements.txt") / "nvidia/cu13"
    for place in ("bin", "nvvm/bin"):
        for path in (folder / place).iterdir():
            if path.is_file():
                path.chmod(0o755)
    return folder


def tinygrad_source(tools, python):
    """The unpacked source distribution of tinygrad."""
    return _source(tools, "tinygrad-source.txt", python, {})


def cupy_source(tools, python):
    """The unpacked source distribution of CuPy, whose tests are in no wheel."""
    # Its setup looks for a CUDA toolkit even to say its name, but for those who build its manual.
    return _source(tools, "cupy-source.txt", python, {"READTHEDOCS": "True"})


def gpustat_source(tools, python):
    """The unpacked source distribution of gpustat, which has no wheel."""
    return _source(tools, "gpustat-source.txt", python, {})


def _source(tools, name, python, variables):
    """The source distribution that a requirement file names, unpacked and not built."""
    def make(partial):
        partial.mkdir()
        # pip asks the package for its name, which takes setuptools: the environment's.
        pinned = {**os.environ, **variables, "PYTHONPATH": str(packages(python.parents[1]))}
        ran([*PIP, "download", *QUIETLY, "--no-build-isolation", "--no-binary", ":all:",
              "--dest", partial, "-r", PEERS / name], pinned)
        (archive,) = partial.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extraction_filter = getattr(tarfile, "data_filter", None)
            packed.extractall(partial)
    (source,) = (path for path in _once(tools, [name], make).iterdir() if path.is_dir())
    return source
