"""Requests on Numba, each of which the device computes further on what the last one left.

  traced.py [--requests 1000] [--threads 1] [--spans]

A request is 1 to 4 launches and a wait: a copy back, or a synchronization and then a copy as a request of its own. The
result of each is checked. With --spans a span of OpenTelemetry's global provider is around each request. Prints one
JSON object: of each request the thread, the launches, its begin and end, and the trace and the id of its span.
"""

import argparse
import contextlib
import json
import random
import threading
import time

import numpy as np
from numba import cuda

COUNT, BLOCK = 4096, 128
#: So many launches a request may have.
LAUNCHES = (1, 4)


@cuda.jit("void(uint32[::1], uint32)")
def step(values, number):
    i = cuda.grid(1)
    if i < values.size:
        values[i] = values[i] * np.uint32(3) + number


def work(number, requests, span, stream):
    """The requests of a thread; what it says of them."""
    draw, told = random.Random(number), []
    expected = np.arange(COUNT, dtype=np.uint32)
    values = cuda.to_device(expected, stream=stream)
    out = cuda.pinned_array(COUNT, np.uint32)
    stream.synchronize()
    for _ in range(requests):
        numbers = [np.uint32(draw.randrange(1 << 32)) for _ in range(draw.randint(*LAUNCHES))]
        synchronizes = draw.random() < 0.5
        began = time.time_ns()
        with span() as ids:
            for it in numbers:
                step[COUNT // BLOCK, BLOCK, stream](values, it)
            if not synchronizes:
                values.copy_to_host(out, stream=stream)
            stream.synchronize()
        if synchronizes:
            # What the driver knows to be done it does not wait for: then the request ends here.
            values.copy_to_host(out, stream=stream)
            stream.synchronize()
        ended = time.time_ns()
        for it in numbers:
            expected = expected * np.uint32(3) + it
        assert (out == expected).all(), f"request {len(told)} of thread {number} is wrong"
        told.append({"thread": number, "launches": len(numbers), "began": began, "ended": ended, **ids})
    return told


def spans():
    """Makes spans of the global provider."""
    from opentelemetry import trace
    tracer = trace.get_tracer("traced")

    @contextlib.contextmanager
    def span():
        with tracer.start_as_current_span("request") as span:
            context = span.get_span_context()
            yield {"trace": f"{context.trace_id:032x}", "span": f"{context.span_id:016x}"}
    return span


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--spans", action="store_true")
    given = parser.parse_args()
    span = spans() if given.spans else lambda: contextlib.nullcontext({})
    told, threads = {}, []
    for number in range(given.threads):
        # Threads that share a stream wait for each other's work.
        stream = cuda.stream() if given.threads > 1 else cuda.default_stream()

        def run(number=number, stream=stream):
            told[number] = work(number, given.requests // given.threads, span, stream)
        threads.append(threading.Thread(target=run))
    if given.threads == 1:
        run()
    else:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(told) == given.threads, "a thread failed"
    print(json.dumps({"requests": [it for number in sorted(told) for it in told[number]]}))


if __name__ == "__main__":
    main()
