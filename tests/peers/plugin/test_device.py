"""A repository's tests of its CUDA code, as `pytest --warploom` meets them: some pass, some cannot."""

import ctypes
import os
import signal

import pytest
from driver import MACHINE_CODE, PTX, CudaError, Driver


def has_device():
    try:
        Driver()
    except (OSError, CudaError):
        return False
    return True


@pytest.fixture(scope="session")
def driver():
    return Driver()


@pytest.mark.skipif(not has_device(), reason="there is no device")
def test_first(driver):
    assert driver.run(driver.function(PTX.encode(), "double_it"), 21) == 42


@pytest.mark.parametrize("value", [0, 1, 2**31])
def test_each(driver, value):
    assert driver.run(driver.function(PTX.encode(), "double_it"), value) == 2 * value % 2**32


def test_wrong(driver):
    assert driver.run(driver.function(PTX.encode(), "double_it"), 21) == 43


def test_machine_code(driver):
    driver.function(MACHINE_CODE, "gemm_sm90")


def test_machine_code_with_a_way_out(driver):
    with pytest.raises(CudaError, match="209"):
        driver.function(MACHINE_CODE, "gemm_sm90")


def test_trap(driver):
    driver.run(driver.function(PTX.encode(), "trapped"), 1)


def test_behind_the_trap(driver):
    assert driver.run(driver.function(PTX.encode(), "double_it"), 4) == 8


def test_crash(driver):
    os.kill(os.getpid(), signal.SIGSEGV)


def test_behind_the_crash(driver):
    assert driver.run(driver.function(PTX.encode(), "double_it"), 5) == 10


def test_captured(capfd):
    os.write(1, b"to be shown with a failure only\n")


def test_without_a_device():
    assert ctypes.sizeof(ctypes.c_void_p) == 8


@pytest.mark.slow
def test_left_out():
    raise AssertionError("it is deselected")
