"""What the tests of Triton's language share: memory of the device, and how it is made."""

import pytest

from memory import DriverArrays, Memory, TorchArrays

ARRAYS = {"driver": DriverArrays, "torch": TorchArrays}


def pytest_addoption(parser):
    parser.addoption("--arrays", choices=ARRAYS, default="driver",
                     help="who makes the arrays: the driver API alone, or PyTorch")


def pytest_ignore_collect(collection_path, config):
    """What is about PyTorch's tensors themselves needs PyTorch."""
    if collection_path.name == "test_with_torch.py" and config.getoption("--arrays") != "torch":
        return True
    return None


@pytest.fixture(scope="session")
def memory(request):
    return Memory(ARRAYS[request.config.getoption("--arrays")]())
