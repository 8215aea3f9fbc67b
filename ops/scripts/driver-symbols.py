#!/usr/bin/env python3
"""List the driver API's symbols, from the headers of the CUDA runtime's PyPI wheel.

Writes client-agent/libcuda/symbols.txt: for every function of every version that a program may
ask for, the symbol that libcuda exports, its name without suffixes, the version of CUDA it came
with, and which default stream it means. Behind them stands whether it works, which people write:
it is kept, and a new symbol is refused. The wheel is pinned by hash in
ops/scripts/headers-requirements.txt and installed with pip into target/tools; only names and
numbers are taken from it, and nobody needs it to build or to run anything.

  ops/scripts/driver-symbols.py            write the list
  ops/scripts/driver-symbols.py --check    compare it with what is committed, write nothing

Exit status: 0 done or equal, 1 it differs, 3 the headers could not be had.
"""

import argparse
import collections
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "ops" / "scripts" / "headers-requirements.txt"
RESULT = ROOT / "client-agent" / "libcuda" / "symbols.txt"
HEADERS = ["cuda", "cudaGL", "cudaEGL", "cudaVDPAU", "cudaProfiler"]
STREAMS = {"": "legacy", "_ptds": "thread", "_ptsz": "thread"}


def headers():
    """The folder of the headers."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]
    folder = ROOT / "target" / "tools" / f"headers-{digest}"
    if not folder.is_dir():
        partial = folder.with_name(folder.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps",
                   "--require-hashes", "--disable-pip-version-check", "--only-binary", ":all:",
                   "--requirement", str(REQUIREMENTS), "--target", str(partial)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            print(result.stderr, file=sys.stderr)
            sys.exit(3)
        partial.rename(folder)
    return next(folder.rglob("cuda.h")).parent


def renames(text):
    """Which symbol a function's name stands for today."""
    pattern = r"^\s*#define\s+(cu\w+)\s+(?:__CUDA_API_PT[DS][SZ]\()?(cu\w+)\)?\s*$"
    result = {}
    for found in re.finditer(pattern, text, re.M):
        result.setdefault(found[1], found[2])
    return result


def declared(text):
    return re.findall(r"^\s*(?:extern\s+|__CUDA_DEPRECATED\s+)*CUresult\s+CUDAAPI\s+(cu\w+)\s*\(",
                      text, re.M)


def symbols(folder):
    """Rows of (symbol, base, version, stream)."""
    known, versions = set(), collections.defaultdict(set)
    for header in HEADERS:
        path = folder / f"{header}.h"
        # The profiler's types are there, its header is in another wheel; no name of it changed.
        text = path.read_text() if path.exists() else ""
        # What follows the first #undef declares the symbols themselves, the old ones too.
        lines = text.split("\n")
        cut = next((at for at, line in enumerate(lines) if re.match(r"\s*#undef\s+cu[A-Z]", line)),
                   len(lines))
        main_part, internal = "\n".join(lines[:cut]), "\n".join(lines[cut:])
        today = renames(main_part)
        known |= {today.get(name, name) for name in declared(main_part)} | set(declared(internal))
        types = (folder / f"{header}Typedefs.h").read_text()
        for found in re.finditer(r"PFN_(cu\w+?)_v(\d+)(_ptds|_ptsz)?\)\(", types):
            versions[found[1], found[3] or ""].add(int(found[2]))

    def legacy(base):
        """Symbols of a function with the legacy stream, the oldest first."""
        ordered = sorted(versions[base, ""])
        number = lambda name: int(name.removeprefix(base + "_v") or 1) if name != base else 1
        names = [name for name in known if re.fullmatch(re.escape(base) + r"(_v\d+)?", name)]
        names.sort(key=number)
        if len(names) != len(ordered):
            # Nothing declares them all: they count up from the plain name.
            names = [base + (f"_v{n}" if n > 1 else "") for n in range(1, len(ordered) + 1)]
        return names

    rows = []
    for (base, suffix), of_base in list(versions.items()):
        names, ordered = legacy(base), sorted(of_base)
        # A per-thread form came with the version that was the newest then, and with all later ones.
        names = [name + suffix for name in names[len(names) - len(ordered):]]
        rows += [(name, base, version, STREAMS[suffix]) for name, version in zip(names, ordered)]
    return sorted(rows)


def states():
    """The state of each symbol that is listed."""
    lines = RESULT.read_text().splitlines() if RESULT.exists() else []
    return {line.split()[0]: line.split()[4] for line in lines if not line.startswith("#")}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    rows = symbols(headers())
    names = [row[0] for row in rows]
    doubled = [name for name, count in collections.Counter(names).items() if count > 1]
    if doubled:
        sys.exit(f"more than one version is called {doubled}")
    state = states()
    text = ("# symbol base version stream state: written by ops/scripts/driver-symbols.py but for "
            "the state\n")
    text += "".join(" ".join(map(str, row)) + f" {state.get(row[0], 'refused')}\n" for row in rows)
    if arguments.check:
        same = RESULT.read_text() == text
        print("equal" if same else f"{RESULT.relative_to(ROOT)} differs")
        sys.exit(0 if same else 1)
    RESULT.write_text(text)
    print(f"{len(rows)} symbols")


main()
