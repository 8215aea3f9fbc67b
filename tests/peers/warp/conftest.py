"""Warp on the cluster's device, with its own compiler and nothing set in the program."""

import numpy as np
import pytest
import warp as wp

wp.config.quiet = True
wp.init()


@pytest.fixture(autouse=True)
def device():
    """Everything lies on the device, and the device has done it all when a test ends."""
    with wp.ScopedDevice("cuda:0"):
        yield
        wp.synchronize()


@pytest.fixture
def random():
    """Numbers that are the same in every run."""
    return np.random.default_rng(7)
