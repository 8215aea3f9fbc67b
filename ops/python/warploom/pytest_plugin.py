"""`pytest --warploom`: the tests run on a cluster of this machine's own, without a GPU.

The tests are collected and run in a process of their own, under `warploom run`; this one shows what
comes of them. A test that loses its device (a trap, an illegal address, the watchdog) fails alone:
those behind it run in a fresh process. A test that fails for a kernel that there is no PTX of is
skipped, with the kernel and its library as the reason. A session in which no kernel ran fails: it has
tested no CUDA code, whatever its tests say.
"""

import collections
import pathlib
import shutil
import tempfile

import pytest

from . import session as sessions


def pytest_addoption(parser):
    group = parser.getgroup("warploom", "CUDA without a GPU")
    group.addoption("--warploom", action="store_true",
                    help="run the tests on a cluster of this machine's own, on its CPU")
    group.addoption("--warploom-cuda-runtime", action="store_true",
                    help="give NVIDIA's CUDA runtime the tables that it asks its driver for; see Warploom's "
                         "docs/howto/cuda-runtime.md for what they are (or `warploom_cuda_runtime = true`)")
    group.addoption("--warploom-model", metavar="MODEL",
                    help="what the device says of itself: usual, machine, t4, a100, ...")
    group.addoption("--warploom-allow-no-kernels", action="store_true",
                    help="a session in which no kernel ran does not fail for that "
                         "(or `warploom_allow_no_kernels = true`)")
    parser.addini("warploom_allow_no_kernels", "as --warploom-allow-no-kernels", type="bool", default=False)
    parser.addini("warploom_cuda_runtime", "as --warploom-cuda-runtime", type="bool", default=False)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    if not config.getoption("--warploom") or sessions.is_child():
        return
    if config.getoption("numprocesses", None):
        raise pytest.UsageError("--warploom runs one test after the other: leave -n out")
    if config.getoption("usepdb", False):
        raise pytest.UsageError("--warploom runs tests in another process: leave --pdb out")
    config.pluginmanager.register(Conductor(config), "warploom-conductor")


class Conductor:
    """Has the tests run by a child, and shows what comes of them."""

    def __init__(self, config):
        self.config = config
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="warploom-"))
        self.cluster = None
        self.child = None
        self.processes = 0
        self.deselected = 0
        #: What the children said of themselves at their ends.
        self.stats = []
        #: Why tests were skipped, each as often as it was.
        self.skipped = collections.Counter()
        #: The sentence that the session fails with.
        self.failed = None

    def pytest_sessionstart(self, session):
        try:
            self.cluster = sessions.Cluster(self.folder, self.config.getoption("--warploom-model"))
        except sessions.Failed as why:
            # What did not begin is not told of its end.
            shutil.rmtree(self.folder, ignore_errors=True)
            pytest.exit(f"warploom: {why}", returncode=1)

    def pytest_sessionfinish(self, session, exitstatus):
        self._end_child()
        if exitstatus == 0 and not self._allowed() and sessions.total(self.stats)["launches"] == 0:
            self.failed = no_kernels(self.skipped)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self.cluster is not None:
            self.cluster.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session):
        try:
            return self._collect(session, self._child())
        except sessions.Failed as why:
            pytest.exit(f"warploom: {why}", returncode=1)

    def _collect(self, session, child):
        session.items = []
        for said in child.collected():
            if "report" in said:
                self._report(session.ihook.pytest_collectreport, said["report"])
            elif "deselected" in said:
                self.deselected += len(said["deselected"])
                gone = [Far.of(session, it) for it in said["deselected"]]
                session.config.hook.pytest_deselected(items=gone)
            else:
                session.items = [Far.of(session, it) for it in said["items"]]
        session.testscollected = len(session.items)
        if terminal := self.config.pluginmanager.getplugin("terminalreporter"):
            # It counts what is collected here.
            terminal._numcollected = len(session.items) + self.deselected
        session.config.hook.pytest_collection_finish(session=session)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        if not isinstance(item, Far):
            return None
        child = self._child()
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        over = nextitem.nodeid if nextitem is not None else None
        for said in child.run(item.nodeid, over):
            if "report" in said:
                self._report(item.ihook.pytest_runtest_logreport, said["report"])
            elif "died" in said:
                item.ihook.pytest_runtest_logreport(report=_died(item, said["died"]))
                self._end_child()
            elif said.get("lost"):
                self._end_child()
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def pytest_terminal_summary(self, terminalreporter):
        total = sessions.total(self.stats)
        rows = [f"kernels run: {total['kernels']}, launches: {total['launches']}, "
                f"processes: {self.processes}"]
        rows += [f"no PTX: {count} of {file}" for file, count in total["refused"].items()]
        if total["missed"]:
            rows.append(f"not supported yet: {', '.join(total['missed'])}")
        if total["tables"] and not self._runtime():
            rows.append("NVIDIA's CUDA runtime was refused: --warploom-cuda-runtime answers it")
        terminalreporter.section("warploom")
        for row in rows:
            terminalreporter.write_line(row)
        if self.failed:
            terminalreporter.write_line(self.failed, red=True)

    def _allowed(self):
        """Whether a session without a kernel is as it is meant to be."""
        return (self.config.getoption("--warploom-allow-no-kernels")
                or self.config.getini("warploom_allow_no_kernels")
                or self.config.option.collectonly)

    def _runtime(self):
        return (self.config.getoption("--warploom-cuda-runtime")
                or self.config.getini("warploom_cuda_runtime"))

    def _child(self):
        if self.child is None:
            self.processes += 1
            self.child = sessions.Child(self.cluster, self.folder / f"stats-{self.processes}",
                                        self.config.invocation_params, self._runtime())
        return self.child

    def _end_child(self):
        if self.child is not None:
            self.stats.append(self.child.end())
            self.child = None

    def _report(self, hook, data):
        report = self.config.hook.pytest_report_from_serializable(config=self.config, data=data)
        if isinstance(report.longrepr, list):
            # JSON knows no tuples; others look for the one that says why a test was skipped.
            report.longrepr = tuple(report.longrepr)
        if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
            self.skipped[report.longrepr[2].removeprefix("Skipped: ")] += 1
        hook(report=report)


class Far(pytest.Item):
    """A test that is elsewhere."""

    @classmethod
    def of(cls, session, said):
        item = cls.from_parent(session, name=said["name"], nodeid=said["nodeid"])
        item.said = said["location"]
        return item

    def reportinfo(self):
        path, line, name = self.said
        return path, line, name

    @property
    def location(self):
        return tuple(self.said)

    def runtest(self):
        raise RuntimeError("this test runs in another process")


def no_kernels(skipped):
    """The sentence that a session without a kernel fails with; `skipped` counts the reasons of skipped tests."""
    why = ""
    if skipped:
        (reason, count), = skipped.most_common(1)
        why = f" {sum(skipped.values())} were skipped, {count} of them for {reason!r}."
    return (f"No kernel ran, so these tests have tested no CUDA code.{why} See what they need to find the device "
            "(`warploom run -- python ...` shows their errors), or give --warploom-allow-no-kernels.")


def _died(item, why):
    """A report for a test whose process ended beneath it."""
    return pytest.TestReport(nodeid=item.nodeid, location=item.location, keywords={},
                             outcome="failed", longrepr=f"the process that ran it {why}", when="call")
