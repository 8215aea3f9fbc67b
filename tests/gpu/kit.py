#!/usr/bin/env python3
"""Packs all that a host with a GPU needs into one file: it has Python 3.12, nvcc and PyTorch, no compiler
for Rust and no network.

    tests/gpu/kit.py                                  builds, packs target/gpu-kit.tar.xz
    tests/gpu/kit.py --wheel diffusers.whl            with wheels that the host lacks

Prints what is in the file, and its hash. Fails if the file is larger than 25 MiB.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

from gpukit import archive  # noqa: E402

#: Programs in C, built here, and the sources of each.
PROGRAMS = {it: f"driver/{it}.c" for it in ("micro", "steady", "culprit", "hog", "weights", "probe")}
PROGRAMS["features"] = "features/*.c"


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target/gpu-kit.tar.xz")
    parser.add_argument("--wheel", type=pathlib.Path, nargs="+", default=[], help="wheels to bring along")
    parser.add_argument("--json", action="store_true", help="one object instead of a table")
    return parser.parse_args()


def ran(command):
    """Runs a command of the build; its output."""
    done = subprocess.run([str(it) for it in command], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"kit.py: {command[0]} ended with {done.returncode}")
    return done.stdout


def built(folder):
    """Builds the binary, the drop-in, the conformance test and the C programs: name to path."""
    ran(["cargo", "build", "--release", "--locked"])
    told = ran(["cargo", "test", "--release", "--locked", "--package", "device-cuda", "--no-run",
                "--message-format", "json"])
    tests = [json.loads(it) for it in told.splitlines() if it.startswith("{")]
    conformance = next(it["executable"] for it in tests
                       if it.get("executable") and it["target"]["name"] == "conformance")
    release = pathlib.Path(conformance).parents[1]
    drop_in = max((it for it in (release / "libwarploom_cuda.so", release / "deps/libwarploom_cuda.so")
                   if it.is_file()), key=lambda it: it.stat().st_mtime)
    programs = {"warploom": release / "warploom", "libwarploom_cuda.so": drop_in, "conformance": conformance}
    files = {}
    for name, path in programs.items():
        files[name] = folder / name
        ran(["strip", "-o", files[name], path])
    files["nats-server"] = broker(release / "warploom", folder)
    for name, parts in PROGRAMS.items():
        files[name] = folder / name
        ran(["gcc", "-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{HERE / 'driver'}", "-o", files[name],
             *sorted(HERE.glob(parts)), "-ldl", "-lm", "-lpthread"])
    return files


def broker(warploom, folder):
    """nats-server, stripped: from PATH, or the pinned one, which `warploom up` installs."""
    pinned = ROOT / "target/tools"
    found = shutil.which("nats-server") or next(iter(sorted(pinned.glob("nats-server-*/nats-server"))), None)
    if not found:
        # A program that needs a cluster starts one, and with it the broker's installation.
        ran([warploom, "--set", f"cluster.state_dir={folder / 'state'}", "--set", "worker.device=cpu", "run", "--",
             "true"])
        found = next(iter(sorted(pinned.glob("nats-server-*/nats-server"))), None)
    if not found:
        sys.exit("kit.py: no nats-server on PATH, and none was installed")
    ran(["strip", "-o", folder / "nats-server", found])
    return folder / "nats-server"


def sources():
    """Scripts, sources to be compiled there, and the page of known deviations, for the host with the GPU."""
    known = ran(["git", "ls-files", "--cached", "--others", "--exclude-standard", "tests/gpu", "tests/peers/nvcc",
                 "docs/reference/conformance.md"])
    return {it: ROOT / it for it in known.splitlines() if (ROOT / it).is_file()}


def main():
    """Builds and packs."""
    options = arguments()
    folder = ROOT / "target/gpu-kit"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = {f"bin/{name}": path for name, path in built(folder).items()}
    files |= sources() | {f"wheels/{it.name}": it for it in options.wheel}
    digest, contents = archive.pack(files, options.out)
    size = options.out.stat().st_size
    if options.json:
        print(json.dumps({"file": str(options.out), "bytes": size, "sha256": digest, "contents": contents}))
    else:
        for name, it in contents.items():
            print(f"{it['bytes']:>10,}  {name}")
        print(f"{size / 2**20:.1f} MiB  {options.out}\nsha256 {digest}")
    if size > archive.LARGEST:
        sys.exit(f"kit.py: {size / 2**20:.1f} MiB is more than {archive.LARGEST / 2**20:.0f}")


if __name__ == "__main__":
    main()
