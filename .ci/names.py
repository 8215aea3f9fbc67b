#!/usr/bin/env python3
"""No name of two public types with two meanings.

Looked at are the types that are `pub`, not `pub(crate)`, in all sources but those of tests, benchmarks, examples and
the fuzzer. A type that a macro names does not count.

    .ci/names.py   says which names occur twice; exit status 1 if there is one
"""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from circles import code, without_tests  # pylint: disable=wrong-import-position

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Conventions of the whole workspace (CONTRIBUTING.md): every core takes its own `Event`s and answers with its own
# `Action`s, `Nanos` are nanoseconds everywhere, and a crate's `Result` is the standard one with the crate's error.
ALLOWED = {"Action", "Event", "Nanos", "Result"}
LEFT_OUT = re.compile(r"(?:^|/)(?:tests|benches|examples|fuzz)(?:/|\.rs$)")
TYPE = re.compile(r"^[ \t]*pub (?:unsafe )?(?:struct|enum|trait|type|union) (\w+)", re.M)


def types(text):
    """The public types of a source: the name and the line of each.

    >>> list(types("// a\\npub struct B;\\npub(crate) enum C {}\\n#[cfg(test)]\\nmod tests { pub type D = B; }"))
    [('B', 2)]
    """
    text = without_tests(code(text)[0])
    for found in TYPE.finditer(text):
        yield found[1], text.count("\n", 0, found.start(1)) + 1


def main():
    """Looks at the sources that git knows or would add."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.rs"]
    listed = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    places = {}
    for path in sorted(set(listed)):
        if (ROOT / path).exists() and not LEFT_OUT.search(path):
            for name, line in types((ROOT / path).read_text()):
                places.setdefault(name, []).append(f"    {path}:{line}")
    twice = {name: at for name, at in places.items() if len(at) > 1}
    wrong = []
    for name in sorted(twice.keys() - ALLOWED):
        wrong += [f"{name} names {len(twice[name])} public types:", *twice[name]]
    wrong += [f".ci/names.py: {name} is no name of two types any more" for name in sorted(ALLOWED - twice.keys())]
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
