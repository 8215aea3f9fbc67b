"""`warploom.set_traceparent`: the text, the library that gets it, and the price."""

from __future__ import annotations

import pathlib
import threading
import timeit
from typing import Callable

import pytest

import warploom

ONE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TWO = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b8-00"
#: Prints if the drop-in took a parent, and the library's files that the process has then.
PROGRAM = f"""
import warploom
took = warploom.set_traceparent("{ONE}")
maps = open("/proc/self/maps").read().split()
print(took, *sorted({{it for it in maps if "libcuda" in it or "libwarploom" in it}}))
"""

Parent = Callable[[], str]
Python = Callable[..., str]


def test_a_parent_is_the_threads_own(parent: Parent) -> None:
    assert warploom.set_traceparent(ONE) and parent() == ONE
    seen = []

    def other() -> None:
        seen.append(parent())
        warploom.set_traceparent(TWO)
        seen.append(parent())

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == ["", TWO] and parent() == ONE
    assert warploom.set_traceparent(None) and parent() == ""


def test_an_empty_text_ends_it_too(parent: Parent) -> None:
    assert warploom.set_traceparent(ONE)
    assert warploom.set_traceparent("") and parent() == ""


@pytest.mark.parametrize("text", [
    "00", ONE[:-1], ONE + "-", ONE + "\n", ONE + "\0", ONE.upper(), ONE.replace("-", "_", 1), "ff" + ONE[2:],
    ONE.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32), ONE.replace("00f067aa0ba902b7", "0" * 16),
    ONE.replace("4bf9", "٤bf9"), "cc" + ONE[2:] + ".more"])
def test_other_text_is_refused_and_changes_nothing(parent: Parent, text: str) -> None:
    warploom.set_traceparent(ONE)
    with pytest.raises(ValueError):
        warploom.set_traceparent(text)
    assert parent() == ONE
    warploom.set_traceparent(None)


def test_a_later_version_is_the_drop_ins_decision(parent: Parent) -> None:
    with pytest.raises(ValueError, match="takes no such"):
        warploom.set_traceparent("cc" + ONE[2:] + "-more")
    assert parent() == ""


def test_other_text_is_refused_without_a_drop_in(python: Python) -> None:
    program = """
import warploom
try: warploom.set_traceparent("nonsense")
except ValueError: print("refused", warploom.set_traceparent(None))
"""
    assert python(program, WARPLOOM_DROP_IN=None, LD_LIBRARY_PATH=None) == "refused False"


def test_the_drop_in_of_run_is_loaded(python: Python, drop_in: pathlib.Path) -> None:
    assert python(PROGRAM) == f"True {drop_in}/libcuda.so.1"


def test_a_loaded_drop_in_is_found_without_variables(python: Python, drop_in: pathlib.Path) -> None:
    load = f"import ctypes; ctypes.CDLL('{drop_in}/libcuda.so.1')"
    said = python(load + PROGRAM, WARPLOOM_DROP_IN=None, LD_LIBRARY_PATH=None)
    assert said == f"True {drop_in}/libcuda.so.1"


def test_a_loaded_driver_of_others_stays_alone(python: Python, foreign: pathlib.Path) -> None:
    load = f"import ctypes; ctypes.CDLL('{foreign}/libcuda.so.1')"
    assert python(load + PROGRAM) == f"False {foreign}/libcuda.so.1"


@pytest.mark.parametrize("folder", ["none", "foreign first", "not on the path", "not run"])
def test_nothing_is_loaded_that_the_program_would_not_find(
        python: Python, drop_in: pathlib.Path, foreign: pathlib.Path, folder: str) -> None:
    variables = {
        "none": {"WARPLOOM_DROP_IN": None, "LD_LIBRARY_PATH": None},
        "foreign first": {"LD_LIBRARY_PATH": f"{foreign}:{drop_in}"},
        "not on the path": {"LD_LIBRARY_PATH": "/nowhere"},
        "not run": {"WARPLOOM_DROP_IN": None, "LD_LIBRARY_PATH": foreign},
    }[folder]
    assert python(PROGRAM, **variables) == "False"


def test_a_drop_in_that_is_loaded_later_is_found(python: Python, drop_in: pathlib.Path) -> None:
    later = f"""
import ctypes, time, warploom
print(warploom.set_traceparent(None))
ctypes.CDLL("{drop_in}/libcuda.so.1")
time.sleep(0.2)
print(warploom.set_traceparent(None))
"""
    assert python(later, WARPLOOM_DROP_IN=None, LD_LIBRARY_PATH=None).split() == ["False", "True"]


def test_threads_may_search_at_once(python: Python) -> None:
    program = f"""
import concurrent.futures, warploom
with concurrent.futures.ThreadPoolExecutor(16) as pool:
    print(set(pool.map(lambda _: warploom.set_traceparent("{ONE}"), range(1000))))
"""
    assert python(program) == "{True}"


def test_a_call_is_cheap_with_and_without_a_drop_in(parent: Parent, python: Python) -> None:
    # The goal is 2 us; the limit leaves room for a busy machine.
    def cost() -> float:
        return min(timeit.repeat(lambda: warploom.set_traceparent(ONE), number=2000, repeat=20)) / 2000
    assert cost() < 5e-6
    program = f"""
import timeit, warploom
print(min(timeit.repeat(lambda: warploom.set_traceparent("{ONE}"), number=2000, repeat=20)) / 2000)
"""
    assert float(python(program, WARPLOOM_DROP_IN=None, LD_LIBRARY_PATH=None)) < 5e-6
    warploom.set_traceparent(None)
