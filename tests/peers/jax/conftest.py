"""JAX on the cluster's device: docs/howto/programs.md has the line that a program needs."""

import jax._src.hardware_utils

# JAX looks for the files of NVIDIA's kernel driver before it asks for a device.
jax._src.hardware_utils.has_visible_nvidia_gpu = lambda: True

import jax  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402


@pytest.fixture(autouse=True)
def device():
    """JAX goes on with the processor where it cannot start its device: nothing may pass by that."""
    assert jax.default_backend() == "gpu"


@pytest.fixture
def random():
    """Numbers that are the same in every run."""
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def host():
    """The host as a device, to compare with."""
    return jax.devices("cpu")[0]
