"""The process that runs the tests: what its reports have of a lost device."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TESTS = """
import ctypes

def fail(text):
    ctypes.CDLL("libcuda.so.1").fake_fail(text)

def test_well():
    assert True

def test_lost():
    fail(b"E-KERNEL-ADDRESS: illegal address in kernel `saxpy`\\nblock [0, 0, 0]")
    raise RuntimeError("an illegal memory access was encountered")

def test_behind():
    assert False
"""


def reports(folder: pathlib.Path, drop_in: pathlib.Path, *names: str) -> list[dict]:
    """Has a child run these tests; its reports."""
    (folder / "test_device.py").write_text(TESTS)
    to_read, theirs_to_write = os.pipe()
    theirs_to_read, to_write = os.pipe()
    variables = {**os.environ, "PYTHONPATH": str(HERE.parent), "LD_LIBRARY_PATH": str(drop_in),
                 "WARPLOOM_PYTEST": f"{theirs_to_read},{theirs_to_write}"}
    command = [sys.executable, "-m", "pytest", "-p", "warploom.pytest_child", "-p", "no:cacheprovider"]
    with subprocess.Popen([*command, "test_device.py"], env=variables, cwd=folder, text=True,
                          pass_fds=(theirs_to_read, theirs_to_write)) as child:
        os.close(theirs_to_read)
        os.close(theirs_to_write)
        with os.fdopen(to_read) as reader, os.fdopen(to_write, "w") as writer:
            for name in names:
                writer.write(json.dumps({"run": f"test_device.py::{name}", "next": None}) + "\n")
            writer.flush()
            said = []
            for line in reader:
                said.append(json.loads(line))
                if sum("done" in it for it in said) == len(names) or said[-1].get("lost"):
                    break
        child.kill()
    return [it["report"] for it in said if "report" in it]


def test_a_report_says_what_is_known_of_a_lost_device(tmp_path: pathlib.Path, drop_in: pathlib.Path) -> None:
    told = reports(tmp_path, drop_in, "test_well", "test_lost")
    by_name = {(it["nodeid"].split("::")[1], it["when"]): it for it in told}
    assert by_name["test_well", "call"]["sections"] == []
    lost = by_name["test_lost", "call"]
    text = "E-KERNEL-ADDRESS: illegal address in kernel `saxpy`\nblock [0, 0, 0]"
    assert lost["outcome"] == "failed" and lost["sections"] == [["warploom", text]]


def test_an_ordinary_failure_has_no_section(tmp_path: pathlib.Path, drop_in: pathlib.Path) -> None:
    told = reports(tmp_path, drop_in, "test_behind")
    assert [it["outcome"] for it in told if it["when"] == "call"] == ["failed"]
    assert not any(name == "warploom" for it in told for name, _ in it["sections"])
