"""The Python wheel in a fresh environment, and its plugin of pytest on a repository's tests."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from . import outcome, wheels

PEERS = pathlib.Path(__file__).resolve().parents[1]
BUILD = PEERS.parents[1] / "ops/python/build.py"

#: What must come of each test of tests/peers/plugin.
WANTED = {
    "test_first": "passed", "test_each[0]": "passed", "test_each[1]": "passed",
    "test_each[2147483648]": "passed", "test_wrong": "failed", "test_machine_code": "skipped",
    "test_machine_code_with_a_way_out": "passed", "test_trap": "failed",
    "test_behind_the_trap": "passed", "test_crash": "failed", "test_behind_the_crash": "passed",
    "test_captured": "passed", "test_without_a_device": "passed",
}
#: What it must say at its end; the process that crashed took its own counts along.
SAID = ("assert 42 == 43", "E-KERNEL-TRAP: trap in kernel `trapped`", "\nblock [0, 0, 0], thread [0, 0, 0]",
        "kernels run: 2, launches: 7, processes: 3", "no PTX: 2 of memory",
        "collected 14 items / 1 deselected / 13 selected",
        "3 failed, 9 passed, 1 skipped")


def plugin(stage, row):
    """`pytest --warploom` from the wheel: passes, failures, machine code, a trap, a crash."""
    row.notes.append(build(stage))
    (wheel,) = stage.keep.glob("*.whl")
    python = fresh(stage, wheel)
    tests = stage.keep / "repository"
    shutil.copytree(PEERS / "plugin", tests)
    junit = stage.keep / "plugin.xml"
    pytest = Pytest(python, tests, stage.keep)
    ran = pytest.run(f"--junitxml={junit}", "-m", "not slow")
    (stage.keep / "plugin.log").write_text(ran.stdout + ran.stderr)
    came = {name.rsplit(".", 1)[-1]: it for name, it in outcome.read(junit).items()}
    for name, wanted in WANTED.items():
        if came.get(name) == wanted:
            row.passed += 1
        else:
            row.failed += 1
            row.fail(f"{name} {came.get(name, 'did not run')}, not {wanted}")
    more = sorted(set(came) - set(WANTED))
    missing = [text for text in SAID if text not in ran.stdout]
    if more or missing or ran.returncode != 1 or "to be shown" in ran.stdout:
        row.fail(f"tests beyond the wanted {more}, not said {missing}, exit {ran.returncode}")
    for check in (_first_failure, _no_cluster, _no_kernel, _no_collection, _killed):
        if wrong := check(pytest):
            row.failed += 1
            row.fail(f"{check.__name__.strip('_')}: {wrong}")
        else:
            row.passed += 1


class Pytest:
    """`pytest --warploom` in an environment, on a folder of tests, with temporary files of its own."""

    def __init__(self, python, tests, keep):
        self.command, self.tests = [python, "-m", "pytest", "--warploom"], tests
        self.environment = str(python.parents[1])
        self.temporary = keep / "temporary"
        self.temporary.mkdir()
        self.variables = {name: value for name, value in os.environ.items()
                          if not name.startswith(("WARPLOOM_", "NATS_", "PYTHON"))}
        self.variables["TMPDIR"] = str(self.temporary)

    def run(self, *arguments):
        return subprocess.run([*self.command, *arguments], cwd=self.tests, env=self.variables,
                              capture_output=True, text=True, timeout=300, check=False)

    def left(self):
        """Processes and folders that are still there though it has ended."""
        listed = [path.name for path in self.temporary.glob("warploom-*")]
        for process in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                command = process.read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if str(self.temporary) in command or self.environment in command:
                    listed.append(command)
        return listed


def _first_failure(pytest):
    """`-x` ends at the first failure, `-k` leaves tests out; what goes wrong comes back as words."""
    ran = pytest.run("-x", "-k", "wrong or behind")
    wanted = "1 failed, 11 deselected"
    if ran.returncode != 1 or wanted not in ran.stdout or pytest.left():
        return f"exit {ran.returncode}, not said {wanted!r}: {ran.stdout[-400:]} {pytest.left()}"
    return None


def _no_cluster(pytest):
    ran = pytest.run("--warploom-model", "nonsense")
    said = ran.stdout + ran.stderr
    if ran.returncode != 1 or "worker.model" not in said or "Traceback" in said or pytest.left():
        return f"exit {ran.returncode}: {said[-400:]} {pytest.left()}"
    return None


def _no_kernel(pytest):
    """A session in which no kernel ran fails, unless that is meant: tests that skip themselves, and none but those
    of the host."""
    skips = pytest.tests / "test_skips.py"
    skips.write_text("import pytest\n\n@pytest.mark.skipif(True, reason='there is no CUDA')\ndef test_kernel():\n    pass\n")
    said = "No kernel ran, so these tests have tested no CUDA code."
    for tests, more in ((["test_skips.py"], "1 were skipped, 1 of them for 'there is no CUDA'"),
                        (["test_device.py", "-k", "without_a_device"], "")):
        ran = pytest.run(*tests)
        if ran.returncode != 1 or said not in ran.stdout or more not in ran.stdout:
            return f"{tests}: exit {ran.returncode}: {ran.stdout[-600:]}"
        for allowed in ("--warploom-allow-no-kernels", "--collect-only", "--override-ini=warploom_allow_no_kernels=true"):
            ran = pytest.run(*tests, allowed)
            if ran.returncode != 0 or said in ran.stdout:
                return f"{tests} {allowed}: exit {ran.returncode}: {ran.stdout[-600:]}"
    # What fails anyway fails for its own reason.
    ran = pytest.run("test_skips.py", "-k", "nothing")
    if ran.returncode != 5 or said in ran.stdout or pytest.left():
        return f"exit {ran.returncode}: {ran.stdout[-400:]} {pytest.left()}"
    skips.unlink()
    return None


def _no_collection(pytest):
    """A process that ends while it collects."""
    (pytest.tests / "test_ends.py").write_text("import os\nos._exit(7)\n")
    ran = pytest.run("test_ends.py")
    said = ran.stdout + ran.stderr
    if ran.returncode != 1 or "ended with 7" not in said or "INTERNALERROR" in said or pytest.left():
        return f"exit {ran.returncode}: {said[-400:]} {pytest.left()}"
    return None


def _killed(pytest):
    """Whoever is killed leaves no cluster behind."""
    (pytest.tests / "test_hangs.py").write_text(
        "import os, signal\n\ndef test_kills_its_session():\n"
        "    os.kill(int(os.environ['SESSION']), signal.SIGKILL)\n    signal.pause()\n")
    # The shell's number is pytest's: it becomes it.
    shell = ["sh", "-c", 'SESSION=$$ exec "$@" test_hangs.py', "sh", *pytest.command]
    ran = subprocess.run([str(part) for part in shell], cwd=pytest.tests, env=pytest.variables, timeout=120,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    if ran.returncode != -signal.SIGKILL:
        return f"exit {ran.returncode}"
    ends = time.monotonic() + 60
    while [it for it in pytest.left() if not it.startswith("warploom-")]:
        if time.monotonic() > ends:
            return f"left behind: {pytest.left()}"
        time.sleep(0.2)
    return None


def build(stage):
    """Makes the wheel of the binaries under test, in the folder of the run; what is said of it."""
    binaries = stage.keep / "binaries"
    binaries.mkdir(exist_ok=True)
    folder = stage.options.binary.parent
    for path in (folder / "warploom", folder / "libwarploom_cuda.so",
                 folder / "deps/libwarploom_cuda.so"):
        if path.is_file() and not (binaries / path.name).exists():
            (binaries / path.name).symlink_to(path)
    made = subprocess.run([BUILD, "--binaries", binaries, "--out", stage.keep], check=True,
                          capture_output=True, text=True).stdout.strip()
    return made.removeprefix(f"{stage.keep}/")


def fresh(stage, wheel):
    """The interpreter of a new environment that has the wheel and what it depends on."""
    place = stage.keep / "environment"
    wheels.ran([sys.executable, "-m", "venv", "--without-pip", place])
    python = place / "bin" / "python"
    install = [*wheels.PIP, "--python", python, "install", *wheels.QUIETLY, "--root-user-action=ignore"]
    wheels.ran([*install, "--only-binary", ":all:", "-r", PEERS / "plugin-requirements.txt"])
    # Its own hash is nobody's to pin: it was made just now.
    install.remove("--require-hashes")
    wheels.ran([*install, wheel])
    return python
