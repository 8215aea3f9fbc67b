#!/usr/bin/env python3
"""Runs each end-to-end test many times, half of them beside a build, and names the tests that fail.

An end-to-end test is a test that starts processes: one of a test target whose sources name the binary under
test, a real nats-server or a cluster. The script builds these targets once and runs each test in a process of
its own, round by round. Beside every second round it builds the workspace into a folder of its own, over and over.

    .ci/shake.py                          every end-to-end test, 30 times
    .ci/shake.py --only why:: --times 10  the tests whose name has that in it
    .ci/shake.py --target end-to-end      the tests of that target
    .ci/shake.py --at-once 4              four tests beside one another: harder, and done sooner
    .ci/shake.py --resume                 goes on where the last call was interrupted
    .ci/shake.py --list                   the tests, one in each line

Ctrl-C prints what there is so far. Everything lies in target/shake: the results, and what a failed run printed.
Exit status: 0 if every run passed; 1 if one failed; 2 if not all could be run.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

ROOT = pathlib.Path(__file__).resolve().parents[1]
STARTS = re.compile(r"\b(?:CARGO_BIN_EXE_\w+|TestBroker|TestCluster|DemoCluster|LoadedCluster)\b")
# The unit tests of these libraries start a nats-server as well.
LIBRARIES = ("actors", "admin")
QUIET, LOADED = "quiet", "loaded"


class Trouble(Exception):
    """Why not all could be run."""


@dataclass(frozen=True, order=True)
class Target:
    """A test target of a package."""

    package: str
    name: str
    kind: str
    folder: str

    def selection(self):
        """What selects it for cargo."""
        return ["--package", self.package] + (["--test", self.name] if self.kind == "test" else ["--lib"])


@dataclass(frozen=True, order=True)
class Test:
    """One test, and the binary that has it."""

    target: str
    name: str
    binary: str
    folder: str

    def __str__(self):
        return f"{self.target} {self.name}"


@dataclass(frozen=True)
class Run:
    """How one run of a test ended."""

    test: str
    round: int
    load: str
    outcome: str
    seconds: float
    output: str = ""


def sources(target):
    """The files of a cargo target: its folder, or the one file beside others.

    >>> [path.name for path in sources({"kind": ["test"], "src_path": __file__})]
    ['shake.py']
    """
    path = pathlib.Path(target["src_path"])
    alone = path.name not in ("main.rs", "lib.rs")
    return [path] if alone else sorted(path.parent.rglob("*.rs"))


def starts_processes(text):
    """Whether a source names what starts processes.

    >>> starts_processes('let exe = env!("CARGO_BIN_EXE_warploom");')
    True
    >>> starts_processes("let broker = broker::TestBroker::start();")
    True
    >>> starts_processes("fn a_core_by_hand() {}")
    False
    """
    return bool(STARTS.search(text))


def targets(metadata):
    """The end-to-end targets among those that `cargo metadata` tells of."""
    for package in metadata["packages"]:
        for target in package["targets"]:
            kind = target["kind"][0]
            if kind == "test" or (kind == "lib" and package["name"] in LIBRARIES):
                if any(starts_processes(path.read_text()) for path in sources(target)):
                    folder = str(pathlib.Path(package["manifest_path"]).parent)
                    yield Target(package["name"], target["name"], kind, folder)


def matches(name, pattern):
    """Whether a name has a pattern in it; with `*`, `?` or `[` the pattern is of the whole name.

    >>> matches("end-to-end why::waits", "why"), matches("end-to-end why::waits", "failover")
    (True, False)
    >>> matches("end-to-end why::waits", "*waits"), matches("end-to-end why::waits", "w*")
    (True, False)
    """
    return fnmatch.fnmatchcase(name, pattern) if re.search(r"[*?\[]", pattern) else pattern in name


def listed(text):
    """The names in what a test binary lists.

    >>> listed("why::waits: test\\nsome::speed: benchmark\\n\\n1 test, 1 benchmark\\n")
    ['why::waits']
    """
    return [line.removesuffix(": test") for line in text.splitlines() if line.endswith(": test")]


def load_of(number):
    """What runs beside a round: every second one has a build beside it.

    >>> [load_of(number) for number in range(4)]
    ['quiet', 'loaded', 'quiet', 'loaded']
    """
    return LOADED if number % 2 else QUIET


def left(tests, times, done):
    """The runs that are left, round by round, each with its test.

    >>> a, b = Test("t", "a", "", ""), Test("t", "b", "", "")
    >>> done = [Run("t a", 0, "quiet", "passed", 1.0)]
    >>> [(number, test.name) for number, test in left([a, b], 2, done)]
    [(0, 'b'), (1, 'a'), (1, 'b')]
    """
    known = {(run.round, run.test) for run in done}
    for number in range(times):
        for test in tests:
            if (number, str(test)) not in known:
                yield number, test


def summary(runs, planned):
    """What came of the runs: the counts, and each test that failed, the most often first.

    >>> runs = [Run("t a", 0, "quiet", "passed", 1.0), Run("t a", 1, "loaded", "failed", 3.0, "a.log")]
    >>> told = summary(runs, 4)
    >>> told["runs"], told["planned"], told["failed"][0]["loaded"], told["failed"][0]["quiet"]
    (2, 4, {'runs': 1, 'failed': 1, 'late': 0}, {'runs': 1, 'failed': 0, 'late': 0})
    >>> told["failed"][0]["output"]
    ['a.log']
    """
    by_test = {}
    for run in runs:
        by_test.setdefault(run.test, []).append(run)
    failed = []
    for test, its in by_test.items():
        bad = [run for run in its if run.outcome != "passed"]
        if not bad:
            continue
        row = {"test": test, "failures": len(bad), "output": [run.output for run in bad]}
        for load in (QUIET, LOADED):
            of = [run.outcome for run in its if run.load == load]
            row[load] = {"runs": len(of), "failed": of.count("failed"), "late": of.count("late")}
        failed.append(row)
    failed.sort(key=lambda row: (-row["failures"], row["test"]))
    return {"tests": len(by_test), "runs": len(runs), "planned": planned, "failed": failed}


def told(result):
    """A summary as text.

    >>> run = Run("t a", 1, "loaded", "late", 9.0, "a.log")
    >>> print(told(summary([run], 1)))
    1 of 1 runs, 1 tests; 1 failed:
    t a: quiet 0 of 0, loaded 1 of 1 (1 at the time limit)
        a.log
    """
    head = f"{result['runs']} of {result['planned']} runs, {result['tests']} tests"
    if not result["failed"]:
        return f"{head}; none failed"
    lines = [f"{head}; {len(result['failed'])} failed:"]
    for row in result["failed"]:
        counts = [f"{load} {row[load]['failed'] + row[load]['late']} of {row[load]['runs']}" for load in (QUIET, LOADED)]
        late = row[QUIET]["late"] + row[LOADED]["late"]
        lines.append(f"{row['test']}: {', '.join(counts)}" + (f" ({late} at the time limit)" if late else ""))
        lines += [f"    {path}" for path in row["output"]]
    return "\n".join(lines)


def status_of(result):
    """The exit status.

    >>> status_of({"failed": [], "runs": 2, "planned": 2}), status_of({"failed": [], "runs": 1, "planned": 2})
    (0, 2)
    >>> status_of({"failed": [{}], "runs": 1, "planned": 2})
    1
    """
    if result["failed"]:
        return 1
    return 0 if result["runs"] == result["planned"] else 2


def processes_of(session):
    """The processes of a session that are there, by /proc."""
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, which may hold anything, ends with the last parenthesis.
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[3] == str(session) and fields[0] != "Z":
            yield int(entry.parent.name)


def end_session(session):
    """Kills what is left of a session that this script began."""
    for _ in range(10):
        there = list(processes_of(session))
        for process in there:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if not there:
            return


class Load:
    """A build of the workspace, over and over, while it is wanted."""

    def __init__(self, folder, command=None):
        self.folder = folder
        self.command = command or ["cargo", "build", "--workspace", "--locked", "--target-dir", str(folder)]
        self.process = None

    def want(self, wanted):
        """Goes on with the build, begins it anew where it is complete, or stops it."""
        if not wanted:
            return self.stop()
        if self.process and self.process.poll() is None:
            return None
        if self.process and self.process.returncode == 0:
            shutil.rmtree(self.folder, ignore_errors=True)
        elif self.process:
            raise Trouble(f"the build that tests run beside failed: {' '.join(self.command)}")
        # Of what it builds no byte is used: the less of them the better.
        lean = os.environ | {"CARGO_INCREMENTAL": "0", "CARGO_PROFILE_DEV_DEBUG": "0"}
        self.process = subprocess.Popen(self.command, cwd=ROOT, env=lean, start_new_session=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return None

    def stop(self):
        """Ends the build; what it has built is kept for the next."""
        if self.process and self.process.poll() is None:
            end_session(self.process.pid)
            self.process.wait()
            self.process = None


class Shaker:
    """The runs and where they are kept."""

    def __init__(self, folder, load, limit, at_once=1):
        self.folder, self.load, self.limit, self.at_once = folder, load, limit, at_once
        self.results = folder / "results.jsonl"
        self.runs = []
        self.sessions = set()
        self.ended = False
        self.lock = threading.Lock()

    def begin(self, plan, resume):
        """Begins anew, or goes on with the runs of the same plan."""
        if resume:
            lines = self.results.read_text().splitlines() if self.results.is_file() else []
            if not lines or json.loads(lines[0]) != plan:
                raise Trouble("nothing to go on with: the last call was of another commit or another plan")
            self.runs = [Run(**json.loads(line)) for line in lines[1:]]
            return
        shutil.rmtree(self.folder / "output", ignore_errors=True)
        (self.folder / "output").mkdir(parents=True)
        self.results.write_text(json.dumps(plan) + "\n")

    def run(self, number, test):
        """Runs a test once; gives nothing where the runs were ended before it was done."""
        load = load_of(number)
        name = re.sub(r"\W+", "-", str(test))
        output = self.folder / "output" / f"{name}.{number}.{load}.log"
        began = time.monotonic()
        outcome = self.outcome(test, output)
        if not outcome or outcome == "passed":
            output.unlink(missing_ok=True)
        if not outcome:
            return None
        run = Run(str(test), number, load, outcome, round(time.monotonic() - began, 2),
                  "" if outcome == "passed" else str(output))
        with self.lock, open(self.results, "a", encoding="utf-8") as out:
            self.runs.append(run)
            out.write(json.dumps(asdict(run)) + "\n")
        return run

    def outcome(self, test, output):
        """How the process of a test ends; nothing if the runs were ended."""
        command = [test.binary, "--exact", test.name, "--nocapture", "--test-threads=1"]
        environment = os.environ | {"CARGO_MANIFEST_DIR": test.folder, "RUST_BACKTRACE": "1"}
        with open(output, "wb") as out:
            with self.lock:
                if self.ended:
                    return None
                process = subprocess.Popen(command, cwd=test.folder, env=environment, start_new_session=True,
                                           stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
                self.sessions.add(process.pid)
            try:
                outcome = "failed" if process.wait(self.limit) else "passed"
            except subprocess.TimeoutExpired:
                outcome = "late"
            end_session(process.pid)
            process.wait()
            with self.lock:
                self.sessions.discard(process.pid)
                return None if self.ended else outcome

    def end(self):
        """Ends all runs that are under way; they do not count."""
        with self.lock:
            self.ended = True
            sessions = list(self.sessions)
        for session in sessions:
            end_session(session)

    def shake(self, tests, times, tell):
        """Runs all that is left; gives the summary, of what there is if it is interrupted."""
        planned = len(tests) * times

        def one(number, test):
            tell(f"{len(self.runs) + 1}/{planned} {load_of(number)}: {test}", False)
            run = self.run(number, test)
            if run and run.outcome != "passed":
                tell(f"{run.outcome} after {run.seconds:.0f} s, {run.load}: {test}: {run.output}", True)
        pool = ThreadPoolExecutor(self.at_once)
        try:
            rest = list(left(tests, times, list(self.runs)))
            for number in sorted({number for number, _ in rest}):
                self.load.want(load_of(number) == LOADED)
                for run in [pool.submit(one, number, test) for of, test in rest if of == number]:
                    self.load.want(load_of(number) == LOADED)
                    run.result()
        except KeyboardInterrupt:
            tell("interrupted; --resume goes on", True)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            self.end()
            pool.shutdown()
            self.load.stop()
        return summary(self.runs, planned)


def cargo(*arguments):
    """What cargo prints."""
    done = subprocess.run(["cargo", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Trouble(f"cargo {arguments[0]} failed")
    return done.stdout


def built(chosen):
    """Builds the targets; gives each with its binary."""
    for target in chosen:
        text = cargo("test", "--locked", "--no-run", "--message-format=json-render-diagnostics", *target.selection())
        messages = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        for message in messages:
            made = message.get("executable") and message.get("profile", {}).get("test")
            if made and message["target"]["name"] == target.name and target.kind in message["target"]["kind"]:
                yield target, message["executable"]


def tests_of(target, binary):
    """The tests of a binary that cargo runs unasked."""
    def ask(*arguments):
        command = [binary, "--list", "--format=terse", *arguments]
        return listed(subprocess.run(command, cwd=target.folder, stdout=subprocess.PIPE, text=True, check=True).stdout)
    ignored = set(ask("--ignored"))
    of = target.name if target.kind == "test" and target.package == "warploom" else f"{target.package}/{target.name}"
    return [Test(of, name, binary, target.folder) for name in ask() if name not in ignored]


def teller(stream):
    """Tells of progress: on a terminal in one line, elsewhere what stays only."""
    terminal = stream.isatty()

    def tell(text, stays):
        if terminal:
            width = shutil.get_terminal_size().columns - 1
            stream.write("\r\033[K" + (f"{text}\n" if stays else text[:width]))
        elif stays:
            stream.write(f"{text}\n")
        stream.flush()
    return tell


def options_of(arguments):
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="PATTERN", help="tests whose name has this in it; may be repeated")
    parser.add_argument("--target", action="append", metavar="NAME", help="test targets of this name; may be repeated")
    parser.add_argument("--times", type=int, default=30, help="runs of each test (30)")
    parser.add_argument("--limit", type=float, default=600.0, metavar="SECONDS", help="time of one run (600)")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="tests that run beside one another (1)")
    parser.add_argument("--resume", action="store_true", help="go on where the last call was interrupted")
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    parser.add_argument("--list", action="store_true", help="the tests, and no run")
    options = parser.parse_args(arguments)
    if options.times < 1 or options.limit <= 0 or options.at_once < 1:
        parser.error("--times, --limit and --at-once are above 0")
    return options


def main(arguments):
    """Reads the command line, runs, and tells."""
    options = options_of(arguments)
    tell = teller(sys.stderr)
    try:
        metadata = json.loads(cargo("metadata", "--locked", "--no-deps", "--format-version=1"))
        chosen = [it for it in sorted(targets(metadata)) if not options.target or it.name in options.target]
        every = [test for made in built(chosen) for test in tests_of(*made)]
        tests = [it for it in every if not options.only or any(matches(str(it), only) for only in options.only)]
        if not tests:
            raise Trouble("no end-to-end test is called so")
        if options.list:
            print(*tests, sep="\n")
            return 0
        folder = pathlib.Path(metadata["target_directory"]) / "shake"
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        shaker = Shaker(folder, Load(folder / "build"), options.limit, options.at_once)
        shaker.begin({"commit": commit.stdout.strip(), "times": options.times, "tests": [str(it) for it in tests]},
                     options.resume)
        result = shaker.shake(tests, options.times, tell)
    except (Trouble, OSError, subprocess.CalledProcessError) as trouble:
        tell(f"shake: {trouble}", True)
        return 2
    except KeyboardInterrupt:
        return 2
    tell("", False)
    print(json.dumps(result, indent=2) if options.json else told(result))
    return status_of(result)


if __name__ == "__main__":
    # A kill ends what runs, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
