"""Runs one source module: `python -m harness WHEELS SOURCE OUT` writes its files into OUT."""

import importlib.util
import pathlib
import sys

from harness import wheels


def main():
    """Loads the module and writes what it made."""
    root, source, out = (pathlib.Path(argument) for argument in sys.argv[1:4])
    wheels.ready(root)
    # The name is part of what Numba and Warp make of a kernel's name: the same on every machine.
    spec = importlib.util.spec_from_file_location(source.stem, source)
    module = importlib.util.module_from_spec(spec)
    sys.modules[source.stem] = module
    spec.loader.exec_module(module)
    from harness import files
    files.write(out)


if __name__ == "__main__":
    main()
