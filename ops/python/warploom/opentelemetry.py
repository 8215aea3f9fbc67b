"""OpenTelemetry: a GPU request becomes a child of the span in which the program makes it.

    provider.add_span_processor(warploom.opentelemetry.WarploomSpanProcessor())

`opentelemetry-instrument python app.py` does that by itself. docs/howto/traces-python.md says what holds.
Needs opentelemetry-sdk: `pip install "warploom[otel]"`.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from typing import Iterator, Optional

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import SpanContext, TraceFlags, get_current_span

from .traceparent import hand_over

__all__ = ["WarploomSpanProcessor", "current_span_as_parent", "traceparent"]


def traceparent(context: SpanContext) -> str | None:
    """The value of a `traceparent` header for a span; None for the span that is none."""
    if not context.is_valid:
        return None
    # Warploom knows the flag of sampled traces and no other.
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & TraceFlags.SAMPLED:02x}"


class _Parent:
    """A parent that a thread has had since some moment, until it is removed."""

    __slots__ = ("text", "stack", "alive")

    def __init__(self, context: SpanContext, stack: list[_Parent]) -> None:
        text = traceparent(context)
        self.text = text.encode("ascii") if text is not None else None
        self.stack = stack
        #: Calls back when the span is gone.
        self.alive: Optional[weakref.ref[Span]] = None


class _Thread(threading.local):
    """The parents of a thread, the innermost last.

    Another thread may remove one, but only the thread itself adds some. All that is done to the list are
    single operations of `list`, which are atomic.
    """

    def __init__(self) -> None:
        self.stack: list[_Parent] = []


_thread = _Thread()


def _add(context: SpanContext) -> _Parent:
    stack = _thread.stack
    parent = _Parent(context, stack)
    stack.append(parent)
    hand_over(parent.text)
    return parent


def _remove(parent: _Parent) -> None:
    parent.stack.remove(parent)
    # The driver knows the calling thread only. If the stack is another's, that thread's next start or
    # end puts its parent right.
    stack = _thread.stack
    if parent.stack is stack:
        # A slice, because another thread may take the last one away.
        last = stack[-1:]
        hand_over(last[0].text if last else None)


class WarploomSpanProcessor(SpanProcessor):
    """Makes a started span the parent of its thread's requests until it ends.

    Spans may end out of order: the innermost that is open stays the parent. A span that ends on another
    thread is no parent any more from the next start or end on its own thread.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[int, int], _Parent] = {}
        self._is_shut_down = False

    def on_start(self, span: Span, parent_context: Optional[Context] = None) -> None:
        context = span.get_span_context()
        if self._is_shut_down or context is None or not context.is_valid:
            return
        key = (context.trace_id, context.span_id)
        parent = self._open[key] = _add(context)
        # A span that the program forgets to end is over when it is gone.
        parent.alive = weakref.ref(span, lambda _: self._end(key))

    def on_end(self, span: ReadableSpan) -> None:
        context = span.get_span_context()
        if context is not None:
            self._end((context.trace_id, context.span_id))

    def shutdown(self) -> None:
        """Takes no more spans; those that are open stay parents until they end."""
        self._is_shut_down = True

    def _end(self, key: tuple[int, int]) -> None:
        parent = self._open.pop(key, None)
        if parent is not None:
            _remove(parent)


@contextlib.contextmanager
def current_span_as_parent() -> Iterator[None]:
    """Makes the current span of the context the parent of this thread's requests for a block.

    For asyncio, worker threads and spans that are not sampled, which a processor does not see. The block must
    not contain `await`: another task would run with this one's parent.
    """
    parent = _add(get_current_span().get_span_context())
    try:
        yield
    finally:
        _remove(parent)
