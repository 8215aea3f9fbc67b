"""Processes: their deadlines, and their ends."""

import os
import pathlib
import signal
import subprocess
import time


class Ended(Exception):
    """A program that did not do what it was started for; the text says why, in one line."""


def members(session):
    """The processes of a session, whichever process group each is in."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # The command's name, in brackets, may have spaces; behind it: state, parent, group, session.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z" and int(fields[3]) == session:
                found.append(int(entry.name))
    return found


def end_session(session, patience_s=0.0):
    """Ends all processes of a session: asks first if there is time to wait, then kills."""
    signals = [(signal.SIGTERM, patience_s)] if patience_s else []
    for which, wait_s in [*signals, (signal.SIGKILL, 5.0)]:
        until = time.monotonic() + wait_s
        for process in members(session):
            try:
                os.kill(process, which)
            except ProcessLookupError:
                pass
        while members(session) and time.monotonic() < until:
            time.sleep(0.02)


class Ran:
    """A program that has ended; `code` is None if it was ended at its limit."""

    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    @property
    def failed(self):
        """Why the program did not end well, in one line, or None."""
        if self.code == 0:
            return None
        what = f"took more than {self.seconds:.0f} s" if self.code is None else f"exit code {self.code}"
        said = [it.strip() for it in self.err.splitlines() if it.strip() and not it.startswith("warploom: ")]
        said = said or [it for it in self.out.splitlines() if it.strip()]
        return f"{what}: {said[-1][:300] if said else 'no message'}"

    @property
    def skipped(self):
        """Why the program cannot run on this host, or None."""
        if self.code != 77:
            return None
        said = [it.strip() for it in (self.out + "\n" + self.err).splitlines() if it.strip()]
        return said[-1][:300] if said else "skipped"


def run(command, limit_s, environment=None, folder=None, stdin=None):
    """Runs a program to its end, at most so long."""
    begun = time.monotonic()
    try:
        process = start(command, environment, folder, stdin=subprocess.PIPE if stdin else subprocess.DEVNULL)
    except OSError as failed:
        return Ran(127, "", str(failed), 0.0)
    try:
        out, err = process.communicate(stdin, timeout=max(limit_s, 0.1))
        code = process.returncode
    except subprocess.TimeoutExpired:
        kill(process)
        try:
            out, err = process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            # A process that left the group holds the pipes; the step's end ends it.
            out, err = "", ""
        code = None
    return Ran(code, out or "", err or "", time.monotonic() - begun)


def start(command, environment=None, folder=None, **streams):
    """Starts a program in a process group of its own, with pipes for what it writes unless told otherwise."""
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.Popen([str(it) for it in command], env=environment, cwd=folder, text=True,
                            process_group=0, **options)


def kill(process):
    """Ends a program and what it has started: `warploom run` has the program as its child."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def processor_s(process):
    """Processor time of a process so far, in seconds; None if it has ended."""
    try:
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def roles(state):
    """The processes of a cluster by role: their commands name its state folder."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(state.encode() in it for it in words):
                program = words[0].rpartition(b"/")[2]
                if program == b"nats-server":
                    found["broker"] = int(entry.name)
                elif program == b"warploom":
                    for who in (b"leader", b"worker"):
                        if who in words[1:3]:
                            found[who.decode()] = int(entry.name)
    return found
