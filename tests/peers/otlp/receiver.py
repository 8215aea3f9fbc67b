#!/usr/bin/env python3
"""An OTLP/HTTP receiver for tests: writes what it is sent as JSON lines.

It decodes with opentelemetry-proto from PyPI, so what it accepts is what any collector
accepts. Packages are pinned in requirements.txt beside this file and installed with pip
into TOOLS/otlp-<version> on first use.

  receiver.py --tools target/tools --out received.jsonl [--port N] [--fail N] [--hold FILE] [--tls FILE]

Prints `listening PORT` on stdout once it serves, and runs until stdin closes. Each line of
the output is one span, one metric data point or one log record:

  {"kind": "span", "service": "warploom-worker", "resource": {…}, "name": "execute",
   "trace": "32 hex", "span": "16 hex", "parent": "16 hex or empty", "span_kind": "SERVER",
   "start": ns, "end": ns, "attributes": {…}, "events": [{"name": …, "at": ns, "attributes": {…}}],
   "error": "text or empty"}
  {"kind": "metric", "service": …, "resource": {…}, "name": …, "unit": …, "type": "histogram",
   "attributes": {…}, "count": n, "sum": x}              (gauges and sums: "value": x)
  {"kind": "log", "service": …, "resource": {…}, "body": …, "severity": "WARN", "at": ns,
   "trace": "32 hex or empty", "span": "16 hex or empty", "attributes": {…}}

Each line has the number of its post, `post`, and the number of lines of that post behind it, `left`.

With --fail N the first N posts are answered 503, to see whether the sender tries again.
While the FILE of --hold exists posts are taken and not answered: their sender does not know that they were.
With --tls it serves https, by the certificate and the key in FILE.
"""

import argparse
import fcntl
import http.server
import itertools
import json
import pathlib
import re
import shutil
import ssl
import subprocess
import sys
import threading
import time

REQUIREMENTS = pathlib.Path(__file__).resolve().parent / "requirements.txt"


def install(tools):
    """Give the folder with the packages, installed there if it is not."""
    pinned = dict(re.findall(r"^(\S+)==(\S+)", REQUIREMENTS.read_text(), re.M))
    folder = tools / ("otlp-" + "-".join(pinned.values()))
    if folder.is_dir():
        return folder
    tools.mkdir(parents=True, exist_ok=True)
    with open(tools / ".otlp.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder
        partial = folder.with_name(folder.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes",
             "--disable-pip-version-check", "--root-user-action=ignore", "--only-binary", ":all:",
             "--requirement", str(REQUIREMENTS), "--target", str(partial)],
            check=True, stdout=sys.stderr)
        partial.rename(folder)
    return folder


def plain(value):
    """An AnyValue as JSON has it."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return attributes(value.kvlist_value.values)
    if kind == "bytes_value":
        return value.bytes_value.hex()
    return getattr(value, kind) if kind else None


def attributes(pairs):
    """A list of KeyValue as a dictionary."""
    return {pair.key: plain(pair.value) for pair in pairs}


def origin(holder):
    """What every line says of its sender."""
    resource = attributes(holder.resource.attributes)
    return {"service": resource.get("service.name"), "resource": resource}


def spans(request):
    """The lines of an ExportTraceServiceRequest."""
    for holder in request.resource_spans:
        common = origin(holder)
        for scope in holder.scope_spans:
            for span in scope.spans:
                yield common | {
                    "kind": "span",
                    "scope": scope.scope.name,
                    "name": span.name,
                    "trace": span.trace_id.hex(),
                    "span": span.span_id.hex(),
                    "parent": span.parent_span_id.hex(),
                    "span_kind": span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
                    "start": span.start_time_unix_nano,
                    "end": span.end_time_unix_nano,
                    "attributes": attributes(span.attributes),
                    "events": [{"name": event.name, "at": event.time_unix_nano,
                                "attributes": attributes(event.attributes)}
                               for event in span.events],
                    "links": [{"trace": link.trace_id.hex(), "span": link.span_id.hex()} for link in span.links],
                    "error": span.status.message if span.status.code == 2 else "",
                }


def points(request):
    """The lines of an ExportMetricsServiceRequest."""
    for holder in request.resource_metrics:
        common = origin(holder)
        for scope in holder.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                for point in getattr(metric, kind).data_points:
                    line = common | {
                        "kind": "metric",
                        "scope": scope.scope.name,
                        "name": metric.name,
                        "unit": metric.unit,
                        "description": metric.description,
                        "type": kind,
                        "attributes": attributes(point.attributes),
                    }
                    if kind == "histogram":
                        line |= {"count": point.count, "sum": point.sum,
                                 "bounds": list(point.explicit_bounds),
                                 "counts": list(point.bucket_counts)}
                    else:
                        line |= {"value": getattr(point, point.WhichOneof("value"))}
                    yield line


def records(request):
    """The lines of an ExportLogsServiceRequest."""
    for holder in request.resource_logs:
        common = origin(holder)
        for scope in holder.scope_logs:
            for record in scope.log_records:
                yield common | {
                    "kind": "log",
                    "scope": scope.scope.name,
                    "body": plain(record.body),
                    "severity": record.severity_text,
                    "at": record.time_unix_nano or record.observed_time_unix_nano,
                    "trace": record.trace_id.hex(),
                    "span": record.span_id.hex(),
                    "attributes": attributes(record.attributes),
                }


def serve(options):
    """Serve until stdin closes."""
    # pylint: disable=import-outside-toplevel,import-error
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces

    signals = {
        "/v1/traces":
            (traces.ExportTraceServiceRequest, traces.ExportTraceServiceResponse, spans),
        "/v1/logs":
            (logs.ExportLogsServiceRequest, logs.ExportLogsServiceResponse, records),
        "/v1/metrics":
            (metrics.ExportMetricsServiceRequest, metrics.ExportMetricsServiceResponse, points),
    }
    lock = threading.Lock()
    left, posts = {"fail": options.fail}, itertools.count(1)

    class Handler(http.server.BaseHTTPRequestHandler):
        """One connection of a sender."""

        protocol_version = "HTTP/1.1"

        def do_POST(self):  # pylint: disable=invalid-name
            """Take in one export."""
            body = self.rfile.read(length := int(self.headers["content-length"]))
            if len(body) < length:
                # Its sender was killed.
                self.close_connection = True
                return None
            with lock:
                left["fail"] -= 1
                if left["fail"] >= 0:
                    return self.answer(503)
            if self.path not in signals:
                return self.answer(404)
            if self.headers["content-type"] != "application/x-protobuf":
                return self.answer(415)
            request, response, lines = signals[self.path]
            try:
                decoded = request.FromString(body)
            except DecodeError:
                return self.answer(400)
            decoded = list(lines(decoded))
            with lock, open(options.out, "a", encoding="utf-8") as out:
                post = next(posts)
                out.writelines(json.dumps(line | {"post": post, "left": len(decoded) - at}) + "\n"
                               for at, line in enumerate(decoded, 1))
            while options.hold and options.hold.exists():
                time.sleep(0.005)
            return self.answer(200, response().SerializeToString())

        def answer(self, status, body=b""):
            """Send one answer."""
            self.send_response(status)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format, *args):  # pylint: disable=redefined-builtin
            """Stay quiet."""

    class Server(http.server.ThreadingHTTPServer):
        """A server that takes it well if senders are killed."""

        def handle_error(self, request, client_address):
            """Tell of an error, unless it is the connection's."""
            if not isinstance(sys.exc_info()[1], OSError):
                super().handle_error(request, client_address)

    server = Server(("127.0.0.1", options.port), Handler)
    if options.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options.tls)
        # The handshake is a connection's own, so that one that fails holds up no other.
        server.socket = context.wrap_socket(server.socket, server_side=True,
                                            do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"listening {server.server_address[1]}", flush=True)
    sys.stdin.read()


def main():
    """Read the command line, then serve."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tools", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--fail", type=int, default=0)
    parser.add_argument("--hold", type=pathlib.Path)
    parser.add_argument("--tls", type=pathlib.Path)
    options = parser.parse_args()
    sys.path.insert(0, str(install(options.tools.resolve())))
    serve(options)


if __name__ == "__main__":
    main()
