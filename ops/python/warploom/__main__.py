"""`warploom`, and `python -m warploom`: the program in the package, in place of this process."""

import os
import sys

from . import binary, environment


def main():
    program = str(binary())
    os.execve(program, [program, *sys.argv[1:]], environment())


if __name__ == "__main__":
    main()
