"""Requests, each of which the device computes further on what the last one left.

  traced.py [--on numba|cupy|torch] [--requests 1000] [--threads 1] [--parents none|spans|set] [--until FILE]
            [--pause MS]

A request is 1 to 4 launches and a wait: a copy back, or a synchronization and then a copy as a request of its own. The
result of each is checked. With `--parents spans` a span of OpenTelemetry's global provider is around each request. With
`set` each has a parent by warploom.set_traceparent. With --until it goes on until that file exists. With --pause it
sleeps in each request before it waits.

Prints one JSON object: the time from which on it counts, and of each request the thread, the launches, its begin and
end, and the trace and the id of its parent. If its device is lost, `lost` is the error, and requests are those that had
ended before.
"""

import argparse
import contextlib
import importlib
import json
import pathlib
import random
import secrets
import threading
import time

import numpy as np

COUNT = 4096
#: So many launches a request may have.
LAUNCHES = (1, 4)


class Work:
    """The requests of a thread."""

    def __init__(self, number, make, span, pause, is_alone):
        self.number, self.draw, self.span, self.pause, self.told = number, random.Random(number), span, pause, []
        self.expected = np.arange(COUNT, dtype=np.uint32)
        self.device = make(self.expected, is_alone)
        # The first request begins with the first op of all. It may compile, and launch more.
        self.request()
        self.told, self.since, self.lost = [], None, None

    def run(self, is_over):
        """Makes requests until it is over, or the device is lost."""
        try:
            while not is_over(len(self.told)):
                self.request()
        except AssertionError:
            raise
        except Exception as error:
            self.lost = repr(error)

    def request(self):
        """Makes a request, and checks what it computed."""
        device, draw = self.device, self.draw
        numbers = [draw.randrange(1 << 32) for _ in range(draw.randint(*LAUNCHES))]
        synchronizes = draw.random() < 0.5
        began = time.time_ns()
        with self.span() as ids:
            for it in numbers:
                device.step(it)
            if not synchronizes:
                device.copy_out()
            time.sleep(self.pause)
            device.wait()
        if synchronizes:
            # What the driver knows to be done it does not wait for: then the request ends here.
            device.copy_out()
            device.wait()
        ended = time.time_ns()
        for it in numbers:
            self.expected = self.expected * np.uint32(3) + np.uint32(it)
        assert (device.out == self.expected).all(), f"request {len(self.told)} of thread {self.number} is wrong"
        self.told.append({"thread": self.number, "launches": len(numbers), "began": began, "ended": ended, **ids})


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


def parents():
    """Sets parents by Warploom's own function."""
    import warploom

    @contextlib.contextmanager
    def span():
        ids = {"trace": secrets.token_hex(16), "span": secrets.token_hex(8)}
        assert warploom.set_traceparent(f"00-{ids['trace']}-{ids['span']}-01"), "there is no drop-in"
        try:
            yield ids
        finally:
            warploom.set_traceparent(None)
    return span


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--on", choices=["numba", "cupy", "torch"], default="numba")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--parents", choices=["none", "spans", "set"], default="none")
    parser.add_argument("--until", type=pathlib.Path)
    parser.add_argument("--pause", type=float, default=0, metavar="MS")
    given = parser.parse_args()
    make = importlib.import_module(f"traced_{given.on}").Device
    span = {"none": lambda: lambda: contextlib.nullcontext({}), "spans": spans, "set": parents}[given.parents]()
    works, ready = {}, threading.Barrier(given.threads)

    def is_over(made):
        return given.until.exists() if given.until else made >= given.requests // given.threads

    def run(number):
        try:
            work = Work(number, make, span, given.pause / 1000, given.threads == 1)
        except BaseException:
            ready.abort()
            raise
        # The first request of a thread is not counted, so none goes on before all have made theirs.
        ready.wait()
        # Warploom's clock may differ from this one by less.
        time.sleep(0.01)
        work.since = time.time_ns()
        work.run(is_over)
        works[number] = work
    if given.threads == 1:
        run(0)
    else:
        threads = [threading.Thread(target=run, args=(number,)) for number in range(given.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(works) == given.threads, "a thread failed"
    print(json.dumps({"since": min(it.since for it in works.values()),
                      "lost": next((it.lost for it in works.values() if it.lost), None),
                      "requests": [it for number in sorted(works) for it in works[number].told]}))


if __name__ == "__main__":
    main()
