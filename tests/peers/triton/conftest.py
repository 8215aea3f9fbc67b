"""What the tests of Triton's language share: memory of the device, and how it is made."""

import pytest

from memory import DriverArrays, Memory, TorchArrays

ARRAYS = {"driver": DriverArrays, "torch": TorchArrays}


def pytest_addoption(parser):
    parser.addoption("--arrays", choices=ARRAYS, default="driver",
                     help="who makes the arrays: the driver API alone, or PyTorch")


@pytest.fixture(scope="session")
def memory(request):
    return Memory(ARRAYS[request.config.getoption("--arrays")]())
