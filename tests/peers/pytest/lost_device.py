"""A plugin of pytest: what Numba's suite asks its configuration for, and what a lost device takes."""

import os

import pytest

#: Errors after which CUDA answers nothing else in this process.
STICKY = ("ILLEGAL_ADDRESS", "LAUNCH_FAILED", "LAUNCH_TIMEOUT", "MISALIGNED_ADDRESS", "ASSERT",
          "ILLEGAL_INSTRUCTION", "DEVICE_UNAVAILABLE", "HARDWARE_STACK_ERROR")
#: The same as programs say it that have the runtime's words, or only the driver's text.
SAID = ("an illegal memory access was encountered", "unspecified launch failure", "misaligned address",
        "device-side assert triggered", "the launch timed out and was terminated")
LOST = pytest.StashKey[bool]()


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request):
    request.cls._dump_failed_filechecks = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    # What a unittest ran into is known only now.
    said = str(call.excinfo.value) if call.excinfo is not None else ""
    if any(text in said for text in (*(f"CUDA_ERROR_{error}" for error in STICKY), *SAID)):
        item.stash[LOST] = True
    return report


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item):
    # The tests behind this one are not to blame: a fresh process goes on with them.
    if item.stash.get(LOST, False) and "PYTEST_XDIST_WORKER" in os.environ:
        os._exit(1)
