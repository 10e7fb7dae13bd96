"""An OpenTelemetry collector on loopback that keeps the spans it gets."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    def __init__(self):
        self.spans = []
        self.resources = []
        self.endpoint = ""

    def __getitem__(self, name):
        return next(span for span in self.spans if span.name == name)

    def all(self, name):
        return sorted(
            (span for span in self.spans if span.name == name),
            key=lambda span: span.end_time_unix_nano,
        )


def read_attributes(span):
    return {
        item.key: getattr(item.value, item.value.WhichOneof("value")) for item in span.attributes
    }


@contextmanager
def open_collector() -> Iterator[Collector]:
    collector = Collector()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            request = ExportTraceServiceRequest()
            request.ParseFromString(self.rfile.read(int(self.headers["content-length"])))
            for resource in request.resource_spans:
                collector.resources.append(resource.resource)
                for scope in resource.scope_spans:
                    collector.spans.extend(scope.spans)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    collector.endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
