"""A terminal, and a program in it: what it shows, what keys and signals do, whether the terminal is left as it was.

    terminal.py SIZES END PROGRAM...

SIZES are COLUMNSxROWS with commas between: it is given each in its turn, and draws anew. END is a key or the name of
a signal, after which the program has to end. Prints its exit code. What it shows must say `quit`.
"""

import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time

sizes = [tuple(map(int, size.split("x"))) for size in sys.argv[1].split(",")]
end, program = sys.argv[2], sys.argv[3:]
own, its = os.openpty()


def resize(size):
    columns, rows = size
    fcntl.ioctl(own, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def until(what, seconds=30):
    """What comes until it has this in it."""
    came, late = b"", time.monotonic() + seconds
    while not all(part in came for part in what):
        assert time.monotonic() < late, f"{what} does not come: {came!r}"
        if select.select([own], [], [], 0.1)[0]:
            came += os.read(own, 65536)
    return came


resize(sizes[0])
before = termios.tcgetattr(its)
running = subprocess.Popen(
    program,
    stdin=its,
    stdout=its,
    stderr=its,
    start_new_session=True,
    preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
)
until([b"\x1b[?1049h", b"tenants", b"quit"])
assert termios.tcgetattr(its) != before, "keys come as they are pressed"
for size in sizes[1:]:
    resize(size)
    # The line of keys is the last one.
    until([b"\x1b[%d;1H" % size[1], b"quit"])
if len(end) == 1:
    os.write(own, end.encode())
else:
    running.send_signal(getattr(signal, end))
rest = until([b"\x1b[?1049l", b"\x1b[?25h"])
code = running.wait(timeout=30)
assert termios.tcgetattr(its) == before, "the terminal is not as it was"
print(code)
