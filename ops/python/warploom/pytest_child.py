"""The process that collects and runs the tests: what it is told and what it says goes over pipes."""

import ctypes
import json
import os
import sys

import pytest
from _pytest.config import create_terminal_writer

from .session import PIPES


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    # Other plugins take it for a worker: they write no files and print nothing.
    config.workerinput = {"workerid": "warploom", "mainargs": sys.argv}
    config.option.xmlpath = None


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    config = session.config
    terminal = config.pluginmanager.getplugin("terminalreporter")
    if terminal is not None:
        # Others ask it for its writer, so it stays; nobody reads it.
        terminal._tw = create_terminal_writer(config, open(os.devnull, "w"))
    config.pluginmanager.register(Runner(config), "warploom-runner")


class Driver:
    """The drop-in library in this process, if it is there."""

    def __init__(self):
        try:
            # It is the one that the program finds: by its name.
            library = ctypes.CDLL("libcuda.so.1")
            self._lost, self._refusals = library.warploom_lost, library.warploom_refusals
            self._failure = library.warploom_last_failure
        except (OSError, AttributeError):
            self._lost = self._refusals = self._failure = None

    def is_lost(self):
        """Whether a device of this process answers no more."""
        return self._lost is not None and self._lost() != 0

    def refusals(self):
        """How many kernels without PTX were asked for, and what was said of the last."""
        return _told(self._refusals)

    def failures(self):
        """How many devices of this process were lost, and what is known of the last: two lines for a kernel's fault."""
        return _told(self._failure)


def _told(function):
    if function is None:
        return 0, ""
    text = ctypes.create_string_buffer(4096)
    count = function(text, ctypes.c_size_t(len(text)))
    return count, text.value.decode(errors="replace")


class Runner:
    """Says what is collected, and runs what it is told to."""

    def __init__(self, config):
        self.config, self.driver = config, Driver()
        #: How many failures of devices are in reports.
        self.failures = 0
        to_read, to_write = (int(number) for number in os.environ[PIPES].split(","))
        # They are ours: what the tests start must not hold them.
        os.set_inheritable(to_read, False)
        os.set_inheritable(to_write, False)
        self.reader, self.writer = os.fdopen(to_read), os.fdopen(to_write, "w")

    def _say(self, **what):
        self.writer.write(json.dumps(what) + "\n")
        self.writer.flush()

    def _serialized(self, report):
        return self.config.hook.pytest_report_to_serializable(config=self.config, report=report)

    def pytest_collectreport(self, report):
        if report.outcome != "passed":
            self._say(report=self._serialized(report))

    def pytest_deselected(self, items):
        self._say(deselected=[_named(item) for item in items])

    def pytest_runtest_logreport(self, report):
        self._say(report=self._serialized(report))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        count, reason = self.driver.refusals()
        grown, item.session.warploom_refused = (
            count > getattr(item.session, "warploom_refused", 0), count)
        if report.failed and grown:
            path, line, _ = item.location
            report.outcome = "skipped"
            report.longrepr = (str(path), (line or 0) + 1, f"Skipped: {reason}")
        self._explain(report)
        return report

    def _explain(self, report):
        """Adds what is known of a lost device to the first report of a failure behind it."""
        count, said = self.driver.failures()
        if report.failed and count > self.failures:
            self.failures = count
            report.sections.append(("warploom", said))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        self._say(items=[_named(item) for item in session.items])
        by_name = {item.nodeid: item for item in session.items}
        for line in self.reader:
            told = json.loads(line)
            item, following = by_name[told["run"]], by_name.get(told["next"])
            self.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self._say(done=True, lost=self.driver.is_lost())
            if self.driver.is_lost():
                break
        return True


def _named(item):
    path, line, name = item.location
    return {"nodeid": item.nodeid, "name": item.name, "location": [str(path), line, name]}
