"""A plugin of pytest: a sample of the tests that were collected, drawn by a seed."""

import random

import pytest


def pytest_addoption(parser):
    group = parser.getgroup("sampled")
    group.addoption("--sampled", type=int, metavar="N", help="so many of the tests")
    group.addoption("--sampled-seed", type=int, default=0, metavar="SEED", help="what draws them")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Behind marks and plugins that leave tests out themselves; each process draws the same."""
    number = config.getoption("--sampled")
    if number is None or number >= len(items):
        return
    chosen = random.Random(config.getoption("--sampled-seed"))
    names = sorted({item.nodeid for item in items})
    chosen = set(chosen.sample(names, min(number, len(names))))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in chosen])
    items[:] = [item for item in items if item.nodeid in chosen]

