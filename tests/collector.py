"""Collectors: a stand-in that is away, slow or full when told to be, and a real one before it."""

from __future__ import annotations

import gzip
import importlib.util
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tools.servers import Child, free_port

START_SECONDS = 30.0


class StandIn:
    """What came: requests with their headers, and spans by id.

    ``statuses`` are those of the next answers, 200 after them; ``refuses`` is how many spans it
    says it refused, of each request.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], ExportTraceServiceRequest]] = []
        self.statuses: list[tuple[int, dict[str, str]]] = []
        self.refuses = 0
        self.tries = 0
        self.url = ""

    @property
    def spans(self) -> dict[tuple[bytes, bytes], Span]:
        return {
            (span.trace_id, span.span_id): span
            for _, request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        }

    def answer(self, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        self.tries += 1
        if self.statuses:
            status, more = self.statuses.pop(0)
            return status, {"content-type": "text/plain", **more}, b"not\nnow"
        request = ExportTraceServiceRequest.FromString(gzip.decompress(body))
        self.requests.append((headers, request))
        partial = ExportTracePartialSuccess(rejected_spans=self.refuses, error_message="too old")
        full = ExportTraceServiceResponse(partial_success=partial if self.refuses else None)
        return 200, {"content-type": "application/x-protobuf"}, full.SerializeToString()


@contextmanager
def collecting() -> Iterator[StandIn]:
    """A collector on a port of its own."""
    standing = StandIn()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, more, answer = standing.answer({"path": self.path, **headers}, body)
            self.send_response(status)
            for name, value in {**more, "content-length": str(len(answer))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: tests look at what came."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    standing.url = f"http://127.0.0.1:{server.server_port}/v1/traces"
    try:
        yield standing
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Rotel:
    """Rotel, a collector from PyPI, which passes on all that it takes; with its log in a folder."""

    def __init__(self, behind: StandIn, folder: Path) -> None:
        ports = free_port(), free_port()
        package = importlib.util.find_spec("rotel")
        assert package is not None
        assert package.origin is not None
        self.url = f"http://127.0.0.1:{ports[0]}"
        self._log = folder / "rotel.log"
        self._command = [
            *(str(Path(package.origin).with_name("rotel-agent")), "start"),
            *("--otlp-http-endpoint", f"127.0.0.1:{ports[0]}"),
            *("--otlp-grpc-endpoint", f"127.0.0.1:{ports[1]}"),
            *("--pid-file", str(folder / "rotel.pid"), "--log-file", str(folder / "rotel.out")),
            *("--exporter", "otlp", "--otlp-exporter-protocol", "http"),
            *("--otlp-exporter-endpoint", behind.url.removesuffix("/v1/traces")),
        ]
        self._child: Child | None = None

    def start(self) -> None:
        self._child = Child("rotel", self._command, log=self._log)

    def stop(self) -> None:
        """Stop it once it has passed on what it took."""
        if self._child is not None:
            self._child.stop()
            self._child = None
