#!/usr/bin/env python3
"""Compile tests/corpus/sources to PTX and compute the references, without a GPU.

The compilers (NVRTC, Numba, tinygrad, Triton, Warp) and NumPy come from their PyPI wheels, pinned
by version and hash in ops/scripts/corpus-requirements.txt and installed with pip into
target/tools/corpus-<hash>: some 2 GB, for CPython 3.11 on Linux x86_64. What they make is written
to tests/corpus/ptx and committed, so that nobody needs them to build or to test.

  ops/scripts/compile-corpus.py                   everything
  ops/scripts/compile-corpus.py nvrtc/scans numba these source files or compilers only
  ops/scripts/compile-corpus.py --check           compare with what is committed, write nothing
  ops/scripts/compile-corpus.py --no-install      exit 3 if the compilers are missing

Exit status: 0 done or equal, 1 a source does not compile or the result differs, 2 wrong usage,
3 the compilers are missing and could not be or must not be installed.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "ops" / "scripts" / "corpus-requirements.txt"
CORPUS = ROOT / "tests" / "corpus"
SOURCES = CORPUS / "sources"
RESULTS = CORPUS / "ptx"

# Seconds a source module may take; the slowest takes a minute on a busy machine.
LIMIT = 600


class Failure(Exception):
    """Something the user can act on, with the exit status that says which kind."""

    def __init__(self, message, status=1):
        super().__init__(message)
        self.status = status


def wheels(may_install):
    """The folder of the installed compilers."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]
    folder = ROOT / "target" / "tools" / f"corpus-{digest}"
    if folder.is_dir():
        return folder
    if not may_install:
        raise Failure(f"the compilers are not in {folder.relative_to(ROOT)}", 3)
    print(f"installing the compilers into {folder.relative_to(ROOT)}", file=sys.stderr)
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    result = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes",
         "--disable-pip-version-check", "--root-user-action=ignore", "--only-binary", ":all:",
         "--requirement", str(REQUIREMENTS), "--target", str(partial)],
        capture_output=True, text=True, check=False)
    if result.returncode != 0:
        shutil.rmtree(partial, ignore_errors=True)
        raise Failure(f"pip could not install the compilers:\n{result.stdout}{result.stderr}", 3)
    partial.rename(folder)
    return folder


def chosen(names):
    """The source modules named, or all; `compiler` or `compiler/source`."""
    every = sorted(SOURCES.glob("*/*.py"))
    if not names:
        return every
    found = []
    for name in names:
        matches = [path for path in every
                   if name in (path.parent.name, f"{path.parent.name}/{path.stem}")]
        if not matches:
            raise Failure(f"no such source: {name}", 2)
        found += matches
    return found


def make(source, folder, out):
    """Runs one source module; what it makes lies in `out` afterwards."""
    out.mkdir(parents=True)
    # Python's hashes of strings must not reach the order of anything a compiler emits.
    environment = dict(os.environ, PYTHONPATH=str(CORPUS), PYTHONHASHSEED="0",
                       PYTHONDONTWRITEBYTECODE="1", OPENBLAS_NUM_THREADS="1")
    command = [sys.executable, "-m", "harness", str(folder), str(source), str(out)]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False,
                                env=environment, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise Failure(f"{source.relative_to(ROOT)}: not done after {LIMIT} s") from None
    if result.returncode != 0:
        raise Failure(f"{source.relative_to(ROOT)}:\n{result.stdout[-2000:]}{result.stderr[-4000:]}")


def nearly(dtype, old, new, relative, absolute):
    """Whether two expectations agree: NumPy's functions differ by an ulp between machines."""
    if old == new:
        return True
    form = {"float32": "f", "float64": "d", "float16": "e"}.get(dtype)
    if form is None or relative == absolute == 0:
        return False
    pairs = zip(struct.iter_unpack("<" + form, old), struct.iter_unpack("<" + form, new))
    return all(a == b or a != a and b != b or abs(a - b) <= 0.1 * (absolute + relative * abs(b))
               for ((a,), (b,)) in pairs)


def same_data(manifest, old, new):
    """Whether two data files of a case agree."""
    if len(old) != len(new):
        return False
    sizes = {"float64": 8, "int64": 8, "uint64": 8, "float32": 4, "int32": 4, "uint32": 4,
             "float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2}
    rest = bytearray(old), bytearray(new)
    for check in manifest["checks"]:
        part = slice(check["data"], check["data"] + check["count"] * sizes.get(check["dtype"], 1))
        if not nearly(check["dtype"], old[part], new[part], check["relative"], check["absolute"]):
            return False
        for copy in rest:
            copy[part] = bytes(part.stop - part.start)
    return rest[0] == rest[1]


def differences(out, committed, names):
    """Names of files that are not what they should be."""
    different = []
    for path in sorted(out.iterdir()):
        old = committed / path.name
        if not old.is_file():
            different.append(f"{old.relative_to(ROOT)} is missing")
            continue
        equal = old.read_bytes() == path.read_bytes()
        if not equal and path.suffix == ".bin":
            manifest = json.loads(path.with_suffix(".json").read_text())
            equal = same_data(manifest, old.read_bytes(), path.read_bytes())
        if not equal:
            different.append(f"{old.relative_to(ROOT)} differs")
        names.add(old)
    return different


def publish(out, committed, names):
    """Copies results to where they are committed."""
    committed.mkdir(parents=True, exist_ok=True)
    for path in sorted(out.iterdir()):
        shutil.copyfile(path, committed / path.name)
        names.add(committed / path.name)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="compiler or compiler/source")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--no-install", action="store_true", help="never fetch the compilers")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time")
    arguments = parser.parse_args()
    sources = chosen(arguments.names)
    folder = wheels(not arguments.no_install)
    problems, names = [], set()
    with tempfile.TemporaryDirectory(prefix="corpus-") as temporary:
        outs = {source: pathlib.Path(temporary, source.parent.name, source.stem)
                for source in sources}
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            runs = {pool.submit(make, source, folder, outs[source]): source for source in sources}
            for run in concurrent.futures.as_completed(runs):
                source = runs[run]
                committed = RESULTS / source.parent.name
                try:
                    run.result()
                except Failure as failure:
                    problems.append(str(failure))
                    continue
                if arguments.check:
                    problems += differences(outs[source], committed, names)
                else:
                    publish(outs[source], committed, names)
                    print(f"{source.parent.name}/{source.stem}")
    if not arguments.names and not problems:
        for path in sorted(set(RESULTS.glob("*/*")) - names):
            if arguments.check:
                problems.append(f"{path.relative_to(ROOT)} has no source")
            else:
                path.unlink()
    if problems:
        raise Failure("\n".join(problems))
    if arguments.check:
        print(f"{len(names)} files are what the sources make")


if __name__ == "__main__":
    try:
        main()
    except Failure as problem:
        print(f"compile-corpus: {problem}", file=sys.stderr)
        sys.exit(problem.status)
