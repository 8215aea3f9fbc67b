"""What .ci/shake.py does with a test binary: a program of the same manners stands for it."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import shake  # pylint: disable=wrong-import-position

BINARY = """\
    #!{python}
    import os, pathlib, subprocess, sys, time
    if "--list" in sys.argv:
        names = ["ignored"] if "--ignored" in sys.argv else ["fails", "hangs", "ignored", "passes", "twice"]
        print("".join(name + ": test\\n" for name in names))
        sys.exit()
    name = sys.argv[sys.argv.index("--exact") + 1]
    print("this is", name, "in", os.environ["CARGO_MANIFEST_DIR"], flush=True)
    if name == "hangs":
        child = subprocess.Popen(["sleep", "600"], process_group=0)
        pathlib.Path("new").write_text(str(child.pid))
        os.rename("new", "child")
        time.sleep(600)
    if name == "interrupts" and not pathlib.Path("interrupted").exists():
        pathlib.Path("interrupted").touch()
        os.kill(os.getppid(), 2)
        time.sleep(600)
    if name.startswith("meets"):
        pathlib.Path("here-" + name).touch()
        while len(list(pathlib.Path().glob("here-*"))) < 2:
            time.sleep(0.01)
    count = pathlib.Path(name)
    count.write_text(count.read_text() + "." if count.exists() else ".")
    failing = name == "fails" or (name == "twice" and len(count.read_text()) > 2)
    sys.exit(101 if failing else 0)
"""


def lives(process):
    """Whether a process runs: one that has ended may wait for its parent."""
    try:
        return "Z" != pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


class Shaken(unittest.TestCase):
    """A binary shaken in a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        binary = self.folder / "binary"
        binary.write_text(textwrap.dedent(BINARY).format(python=sys.executable))
        binary.chmod(0o755)
        target = shake.Target("warploom", "some", "test", str(self.folder))
        self.tests = {test.name: test for test in shake.tests_of(target, str(binary))}
        self.binary = str(binary)
        self.told = []

    def shaker(self, limit=60.0, at_once=1):
        """One that begins in the folder, with a load that only sleeps."""
        load = shake.Load(self.folder / "build", ["sleep", "600"])
        self.addCleanup(load.stop)
        return shake.Shaker(self.folder / "shake", load, limit, at_once)

    def tell(self, text, _stays):
        """Keeps what is told."""
        self.told.append(text)

    def shaken(self, names, times, limit=60.0):
        """The summary of these tests."""
        shaker = self.shaker(limit)
        shaker.begin({"plan": names}, False)
        return shaker, shaker.shake([self.tests[name] for name in names], times, self.tell)

    def test_what_cargo_leaves_out_is_left_out(self):
        self.assertEqual(sorted(self.tests), ["fails", "hangs", "passes", "twice"])

    def test_tests_that_fail_are_named_with_what_they_printed(self):
        shaker, result = self.shaken(["passes", "twice", "fails"], 4)
        self.assertEqual((result["tests"], result["runs"], result["planned"]), (3, 12, 12))
        fails, twice = result["failed"]
        self.assertEqual((fails["test"], fails["failures"]), ("some fails", 4))
        self.assertEqual(twice["test"], "some twice")
        self.assertEqual(twice["quiet"], {"runs": 2, "failed": 1, "late": 0})
        self.assertEqual(twice["loaded"], {"runs": 2, "failed": 1, "late": 0})
        kept = sorted((shaker.folder / "output").iterdir())
        self.assertEqual(sorted(map(str, kept)), sorted(fails["output"] + twice["output"]))
        self.assertIn(f"this is fails in {self.folder}", pathlib.Path(fails["output"][0]).read_text())
        self.assertEqual(shake.status_of(result), 1)

    def test_a_test_past_its_time_is_ended_with_all_that_it_started(self):
        limit = 0.5
        # On a busy machine the test needs longer until it has started something.
        while not (self.folder / "child").exists():
            limit *= 4
            _, result = self.shaken(["hangs"], 1, limit)
        self.assertEqual(result["failed"][0]["quiet"], {"runs": 1, "failed": 0, "late": 1})
        child = int((self.folder / "child").read_text())
        self.assertFalse(lives(child))

    def test_an_interrupted_call_tells_what_it_has_and_goes_on_when_asked(self):
        waits = shake.Test("some", "interrupts", self.binary, str(self.folder))
        tests = [self.tests["passes"], waits]
        plan = {"commit": "1", "times": 2}
        first = self.shaker()
        first.begin(plan, False)
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        result = first.shake(tests, 2, self.tell)
        self.assertEqual((result["runs"], result["planned"]), (1, 4))
        self.assertEqual(shake.status_of(result), 2)
        second = self.shaker()
        with self.assertRaises(shake.Trouble):
            second.begin(plan | {"times": 3}, True)
        second.begin(plan, True)
        result = second.shake(tests, 2, self.tell)
        self.assertEqual((result["runs"], result["failed"]), (4, []))
        self.assertEqual((self.folder / "passes").read_text(), "..", "no run is done twice")
        self.assertEqual(shake.status_of(result), 0)

    def test_several_run_beside_one_another_when_asked(self):
        tests = [shake.Test("some", name, self.binary, str(self.folder)) for name in ("meets a", "meets b", "passes")]
        shaker = self.shaker(at_once=2)
        shaker.begin({"plan": 1}, False)
        result = shaker.shake(tests, 2, self.tell)
        self.assertEqual((result["runs"], result["failed"]), (6, []))
        rounds = [json.loads(line)["round"] for line in shaker.results.read_text().splitlines()[1:]]
        self.assertEqual(rounds, [0, 0, 0, 1, 1, 1], "no test of a round begins before the last round has ended")

    def test_a_load_that_fails_is_told_and_one_that_is_complete_begins_anew(self):
        load = shake.Load(self.folder / "build", ["false"])
        load.want(True)
        load.process.wait()
        with self.assertRaises(shake.Trouble):
            load.want(True)
        load = shake.Load(self.folder / "build", ["true"])
        (self.folder / "build").mkdir()
        load.want(True)
        load.process.wait()
        load.want(True)
        self.assertFalse((self.folder / "build").exists())
        load.stop()

    def test_the_end_to_end_targets_of_this_workspace_are_found(self):
        printed = subprocess.run(["cargo", "metadata", "--locked", "--no-deps", "--format-version=1"], cwd=shake.ROOT,
                                 stdout=subprocess.PIPE, text=True, check=True)
        found = {(it.package, it.name) for it in shake.targets(json.loads(printed.stdout))}
        for target in [("warploom", "end-to-end"), ("warploom", "telemetry"), ("scheduler-leader", "election"),
                       ("actors", "worker"), ("actors", "actors"), ("gpu-worker", "role"), ("client-agent", "bus")]:
            self.assertIn(target, found)
        self.assertNotIn(("gpu-worker-core", "rules"), found)


if __name__ == "__main__":
    os.chdir(shake.ROOT)
    unittest.main()
