#!/usr/bin/env python3
"""Builds the Python wheel of Warploom: the program, the drop-in libcuda.so.1 and the plugin of pytest.

  ops/python/build.py                    for any Linux with glibc 2.28 or newer (manylinux_2_28)
  ops/python/build.py --here             of target/release as it is, for machines like this one
  ops/python/build.py --binaries DIR     of DIR/warploom and DIR/libwarploom_cuda.so

The first needs Rust; the linker for the older glibc comes from PyPI, pinned by hash, into target/tools.
The wheel lies in target/wheels. Whatever symbols of glibc the binaries ask for is looked up in them: a
wheel is not tagged for a glibc that it does not run on. Exit status: 0 made, 1 failed, 2 wrong usage.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import platform
import re
import subprocess
import sys
import tomllib
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
#: The oldest glibc that the wheel is for.
GLIBC = (2, 28)
LIBRARY = "libwarploom_cuda.so"
#: Wheels hold no times: the same binaries make the same wheel.
EPOCH = (2020, 1, 1, 0, 0, 0)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--here", action="store_true", help="of target/release, for this machine's glibc")
    parser.add_argument("--binaries", type=pathlib.Path, metavar="DIR", help="of these binaries")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target/wheels",
                        help="where the wheel goes (target/wheels)")
    return parser.parse_args()


def build():
    """Both binaries for the older glibc: the product, without the laboratory."""
    tools = ROOT / "target/tools/zig"
    if not (tools / "bin/cargo-zigbuild").exists():
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes",
                        "--disable-pip-version-check", "--root-user-action=ignore", "--only-binary",
                        ":all:", "--target", tools, "-r", HERE / "build-requirements.txt"], check=True)
    target = f"{platform.machine()}-unknown-linux-gnu"
    environment = {**os.environ, "PYTHONPATH": str(tools),
                   "PATH": f"{tools / 'bin'}:{os.environ['PATH']}",
                   "CARGO_TARGET_DIR": str(ROOT / "target/manylinux")}
    for package in (["warploom", "--no-default-features"], ["libcuda"]):
        subprocess.run(["cargo", "zigbuild", "--release", "--locked", "--target",
                        f"{target}.{GLIBC[0]}.{GLIBC[1]}", "--package", *package],
                       cwd=ROOT, env=environment, check=True)
    return ROOT / "target/manylinux" / target / "release"


def glibc(binary):
    """The newest version of glibc whose symbols a binary asks for."""
    said = subprocess.run(["objdump", "-T", binary], check=True, capture_output=True, text=True).stdout
    versions = {(int(major), int(minor))
                for major, minor in re.findall(r"\(?GLIBC_(\d+)\.(\d+)[).\d]*", said)}
    return max(versions)


def wheel(binaries, out, level):
    """Writes the wheel, compressed so much."""
    with (HERE / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    library = binaries / LIBRARY
    if not library.is_file():
        library = binaries / "deps" / LIBRARY
    both = {"warploom": binaries / "warploom", LIBRARY: library}
    needs = max(glibc(path) for path in both.values())
    tag = f"py3-none-manylinux_{max(needs, GLIBC)[0]}_{max(needs, GLIBC)[1]}_{platform.machine()}"
    name = f"{project['name']}-{project['version']}"
    files = {f"warploom/{path.name}": path.read_bytes() for path in HERE.glob("warploom/*.py")}
    files.update({f"warploom/bin/{name}": path.read_bytes() for name, path in both.items()})
    info = f"{name}.dist-info"
    files[f"{info}/METADATA"] = metadata(project)
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: ops/python/build.py\n"
                              f"Root-Is-Purelib: false\nTag: {tag}\n").encode()
    files[f"{info}/entry_points.txt"] = entry_points(project)
    files[f"{info}/licenses/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}-{tag}.whl"
    record = "".join(f"{name},sha256={digest(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            mode = 0o755 if name.startswith("warploom/bin/") else 0o644
            entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return path, needs


def metadata(project):
    rows = ["Metadata-Version: 2.4", f"Name: {project['name']}", f"Version: {project['version']}",
            f"Summary: {project['description']}", f"License-Expression: {project['license']}",
            "License-File: LICENSE", f"Requires-Python: {project['requires-python']}"]
    rows += [f"Requires-Dist: {it}" for it in project["dependencies"]]
    for extra, packages in project["optional-dependencies"].items():
        rows.append(f"Provides-Extra: {extra}")
        rows += [f'Requires-Dist: {it}; extra == "{extra}"' for it in packages]
    return ("\n".join(rows) + "\n").encode()


def entry_points(project):
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    text = "".join(f"[{group}]\n" + "".join(f"{name} = {it}\n" for name, it in rows.items()) + "\n"
                   for group, rows in groups.items())
    return text.encode()


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def main():
    given = arguments()
    binaries = given.binaries or (ROOT / "target/release" if given.here else None)
    portable = binaries is None
    # What stays here need not be small.
    path, needs = wheel(build() if portable else binaries, given.out, 9 if portable else 1)
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB, needs glibc {needs[0]}.{needs[1]}")
    if portable and needs > GLIBC:
        sys.exit(f"the binaries ask for glibc {needs[0]}.{needs[1]}: no manylinux_{GLIBC[0]}_{GLIBC[1]}")


if __name__ == "__main__":
    main()
