"""The plugin of `opentelemetry-instrument`: adds the span processor to the global tracer provider."""

from __future__ import annotations

import logging
from typing import Any, Callable, Collection, Optional

from opentelemetry import trace
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

_log = logging.getLogger(__name__)


class WarploomInstrumentor(BaseInstrumentor):
    """Adds the processor to the provider that is there, and else to the one that the program sets.

    The configurator of a distribution sets the provider before instrumentors are loaded. Without one the
    program may set it later by `trace.set_tracer_provider`.
    """

    #: The processor that was added, and its provider.
    _processor: Optional[Any] = None
    #: `trace.set_tracer_provider` as it was.
    _original: Optional[Callable[..., None]] = None

    def instrumentation_dependencies(self) -> Collection[str]:
        return ["opentelemetry-sdk >= 1.20"]

    def _instrument(self, **kwargs: Any) -> None:
        if self._added(kwargs.get("tracer_provider") or trace.get_tracer_provider()):
            return
        original = self._original = trace.set_tracer_provider

        def set_tracer_provider(tracer_provider: Any) -> None:
            original(tracer_provider)
            # The first provider that is set stays; others are refused.
            if trace.get_tracer_provider() is tracer_provider and self._original is not None:
                self._added(tracer_provider)

        trace.set_tracer_provider = set_tracer_provider

    def _uninstrument(self, **kwargs: Any) -> None:
        if self._original is not None:
            trace.set_tracer_provider, self._original = self._original, None
        if self._processor is not None:
            # A provider gives no processor back.
            self._processor.shutdown()
            self._processor = None

    def _added(self, provider: Any) -> bool:
        """True if the provider has the processor now; one of the API alone takes none."""
        if self._processor is not None:
            return True
        if not hasattr(provider, "add_span_processor"):
            return False
        try:
            from .opentelemetry import WarploomSpanProcessor
        except ImportError as why:
            # An instrumentor that fails would stop all others.
            _log.debug("no parents for Warploom's requests: %s", why)
            return False
        self._processor = WarploomSpanProcessor()
        provider.add_span_processor(self._processor)
        return True
