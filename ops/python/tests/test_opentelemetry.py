"""The span processor: spans nested, on threads, out of order, not sampled, and in asyncio's tasks."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Callable, Iterator, Sequence

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, Sampler, SamplingResult
from opentelemetry.trace import Span, Tracer

from warploom.opentelemetry import WarploomSpanProcessor, current_span_as_parent, traceparent

Parent = Callable[[], str]


def traced(processor: WarploomSpanProcessor, sampler: Sampler | None = None) -> Tracer:
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return provider.get_tracer("test")


def text(span: Span) -> str | None:
    return traceparent(span.get_span_context())


def in_thread(function: Callable[[], object]) -> object:
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


@pytest.fixture
def processor(parent: Parent) -> Iterator[WarploomSpanProcessor]:
    processor = WarploomSpanProcessor()
    yield processor
    # Whatever happened: all have ended, and left nothing.
    gc.collect()
    assert parent() == "" and not processor._open


@pytest.fixture
def tracer(processor: WarploomSpanProcessor) -> Tracer:
    return traced(processor)


def test_nested_spans_are_parents_in_turn(tracer: Tracer, parent: Parent) -> None:
    with tracer.start_as_current_span("outer") as outer:
        assert parent() == text(outer) and parent().endswith("-01")
        for _ in range(2):
            with tracer.start_as_current_span("inner") as inner:
                assert parent() == text(inner) != text(outer)
            assert parent() == text(outer)
    assert parent() == ""


def test_an_exception_ends_a_span(tracer: Tracer, parent: Parent) -> None:
    with tracer.start_as_current_span("outer") as outer:
        with pytest.raises(KeyError):
            with tracer.start_as_current_span("inner"):
                raise KeyError
        assert parent() == text(outer)


def test_threads_have_parents_of_their_own(tracer: Tracer, parent: Parent) -> None:
    def other() -> tuple[str, bool, str]:
        before = parent()
        with tracer.start_as_current_span("theirs") as span:
            is_own = parent() == text(span)
        return before, is_own, parent()

    with tracer.start_as_current_span("ours") as span:
        assert in_thread(other) == ("", True, "")
        assert parent() == text(span)


def test_many_threads_at_once(tracer: Tracer, parent: Parent) -> None:
    wrong: list[str] = []

    def work() -> None:
        for _ in range(200):
            with tracer.start_as_current_span("outer") as outer, tracer.start_as_current_span("inner") as inner:
                if parent() != text(inner):
                    wrong.append("inner")
                inner.end()
                if parent() != text(outer):
                    wrong.append("outer")
            if parent() != "":
                wrong.append("none")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_the_innermost_open_span_is_the_parent_in_any_order_of_ends(
        tracer: Tracer, parent: Parent, order: Sequence[int]) -> None:
    spans = [tracer.start_span(str(number)) for number in range(3)]
    still = [0, 1, 2]
    for number in order:
        spans[number].end()
        still.remove(number)
        assert parent() == (text(spans[still[-1]]) if still else "")


def test_a_span_that_ends_on_another_thread_goes_with_the_next_event(tracer: Tracer, parent: Parent) -> None:
    with tracer.start_as_current_span("outer") as outer:
        wandering = tracer.start_span("wandering")
        theirs = in_thread(lambda: (wandering.end(), parent()))
        assert theirs == (None, "")
        # The driver cannot be told from there.
        assert parent() == text(wandering)
        with tracer.start_as_current_span("next"):
            pass
        assert parent() == text(outer)


def test_spans_that_all_end_elsewhere_leave_nothing(
        tracer: Tracer, processor: WarploomSpanProcessor, parent: Parent) -> None:
    open_spans: list[Span] = []
    for number in range(100):
        open_spans.append(tracer.start_span(str(number)))
        if len(open_spans) > 3:
            in_thread(open_spans.pop(0).end)
    assert len(processor._open) == 3
    for span in open_spans:
        span.end()


def test_a_span_that_is_dropped_without_an_end_is_over(tracer: Tracer, parent: Parent) -> None:
    with tracer.start_as_current_span("outer") as outer:
        span = tracer.start_span("forgotten")
        assert parent() == text(span)
        del span
        gc.collect()
        assert parent() == text(outer)


def test_a_second_end_changes_nothing(tracer: Tracer, parent: Parent) -> None:
    with tracer.start_as_current_span("outer") as outer:
        span = tracer.start_span("twice")
        span.end()
        span.end()
        assert parent() == text(outer)


def test_two_processors_agree(tracer: Tracer, parent: Parent) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(WarploomSpanProcessor())
    provider.add_span_processor(WarploomSpanProcessor())
    both = provider.get_tracer("test")
    with both.start_as_current_span("outer") as outer:
        with both.start_as_current_span("inner") as inner:
            assert parent() == text(inner)
        assert parent() == text(outer)


def test_after_shutdown_open_spans_end_and_no_more_are_taken(
        tracer: Tracer, processor: WarploomSpanProcessor, parent: Parent) -> None:
    with tracer.start_as_current_span("outer") as outer:
        processor.shutdown()
        with tracer.start_as_current_span("inner"):
            assert parent() == text(outer)


class RecordOnly(Sampler):
    """Spans are recorded, and not sampled."""

    def should_sample(self, *args: object, **kwargs: object) -> SamplingResult:
        return SamplingResult(Decision.RECORD_ONLY)

    def get_description(self) -> str:
        return "RecordOnly"


def test_a_recorded_span_that_is_not_sampled_has_flag_00(processor: WarploomSpanProcessor, parent: Parent) -> None:
    with traced(processor, RecordOnly()).start_as_current_span("unsampled") as span:
        assert parent() == text(span) and parent().endswith("-00")


def test_the_sdk_tells_no_processor_of_a_dropped_span(processor: WarploomSpanProcessor, parent: Parent) -> None:
    with traced(processor, ALWAYS_OFF).start_as_current_span("dropped") as span:
        assert parent() == ""
        with current_span_as_parent():
            assert parent() == text(span) and parent().endswith("-00")
        assert parent() == ""


def test_the_current_span_is_the_parent_on_a_worker_thread(tracer: Tracer, parent: Parent) -> None:
    def work() -> tuple[str, str, str]:
        before = parent()
        with current_span_as_parent():
            inside = parent()
        return before, inside, parent()

    async def main() -> None:
        with tracer.start_as_current_span("request") as span:
            assert await asyncio.to_thread(work) == ("", text(span), "")

    asyncio.run(main())


def test_without_a_current_span_there_is_no_parent(tracer: Tracer, parent: Parent) -> None:
    span = tracer.start_span("not current")
    with current_span_as_parent():
        assert parent() == ""
    assert parent() == text(span)
    span.end()


def test_tasks_of_one_thread_see_the_span_that_started_last(tracer: Tracer, parent: Parent) -> None:
    """A change of tasks is no event for a processor: this is the limit, not the wish."""
    async def main() -> None:
        second_started, first_looked = asyncio.Event(), asyncio.Event()
        spans: dict[str, Span] = {}

        async def first() -> None:
            with tracer.start_as_current_span("first") as spans["first"]:
                assert parent() == text(spans["first"])
                await second_started.wait()
                assert trace.get_current_span() is spans["first"]
                assert parent() == text(spans["second"])
                with current_span_as_parent():
                    assert parent() == text(spans["first"])
                # A span around the work alone is right, too.
                with tracer.start_as_current_span("launch") as launch:
                    assert parent() == text(launch)
                first_looked.set()

        async def second() -> None:
            with tracer.start_as_current_span("second") as spans["second"]:
                second_started.set()
                await first_looked.wait()
                await asyncio.sleep(0)
                # The first has ended; this one is what is left.
                assert parent() == text(spans["second"])

        await asyncio.gather(first(), second())
        assert parent() == ""

    asyncio.run(main())


def test_a_process_ends_quietly_with_an_open_span(python: Callable[..., str]) -> None:
    program = """
from opentelemetry.sdk.trace import TracerProvider
from warploom.opentelemetry import WarploomSpanProcessor
provider = TracerProvider()
provider.add_span_processor(WarploomSpanProcessor())
span = provider.get_tracer("test").start_span("open")
provider.get_tracer("test").start_as_current_span("current").__enter__()
"""
    assert python(program) == ""


def test_a_forked_child_goes_on_as_its_parent(tracer: Tracer, python: Callable[..., str]) -> None:
    program = """
import ctypes, os, warploom
from opentelemetry.sdk.trace import TracerProvider
from warploom.opentelemetry import WarploomSpanProcessor, traceparent
provider = TracerProvider()
provider.add_span_processor(WarploomSpanProcessor())
tracer = provider.get_tracer("test")
library = ctypes.CDLL("libcuda.so.1")
library.fake_parent.restype = ctypes.c_char_p
with tracer.start_as_current_span("outer") as outer:
    if not (child := os.fork()):
        with tracer.start_as_current_span("inner"): pass
        os._exit(library.fake_parent().decode() != traceparent(outer.get_span_context()))
    print(os.waitpid(child, 0)[1])
"""
    assert python(program) == "0"


def test_spans_without_a_drop_in_are_as_ever(python: Callable[..., str]) -> None:
    program = """
from opentelemetry.sdk.trace import TracerProvider
from warploom.opentelemetry import WarploomSpanProcessor
provider = TracerProvider()
provider.add_span_processor(WarploomSpanProcessor())
with provider.get_tracer("test").start_as_current_span("span") as span: print(span.is_recording())
"""
    assert python(program, WARPLOOM_DROP_IN=None, LD_LIBRARY_PATH=None) == "True"
