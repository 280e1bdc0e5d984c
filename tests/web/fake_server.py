"""A small stand-in for the service: the REST API over a made-up history, and the static files.

The tests of the dashboard run against it, because it can show what a real broker seldom does:
a million events, hostile names, a trace that failed, a server that refuses. It sends the security
headers of the real server, so what the page may do here it may do there. `test_fake_server.py`
holds its answers to the API's document.

    python -m tests.web.fake_server --port 8099 --events 3000 --rate 5
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import gzip
import json
import mimetypes
import threading
import time
from collections.abc import Iterable, Iterator
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from app.api.headers import SECURITY_HEADERS
from tests.web import (
    conversations,
    fake_assertions,
    fake_chain,
    fake_failures,
    fake_reports,
)
from tests.web.history import Event
from tests.web.world import FIELDS, FORMATS, Problem, World, bad_request, demo_world, not_found, now

WEB = Path(__file__).resolve().parents[2] / "web"
LIVE_AT_ONCE = 100
_KEPT = 512
LOOK_SECONDS = 0.01  # how soon the end is noticed; by default half a second, at each end

USERS = {
    "admin": ("admin", ["administrator"]),
    "watch": ("watch", ["monitoring"]),
    "nobody": ("nobody", ["management"]),
}


class Handler(BaseHTTPRequestHandler):
    """Routes by the raw path, because virtual hosts hold percent-encoded slashes."""

    protocol_version = "HTTP/1.1"
    # Head and body in one packet, as the service sends them: in two, the second waits 40 ms for the
    # browser to acknowledge the first.
    wbufsize = -1
    disable_nagle_algorithm = True
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        """No access log."""

    @property
    def world(self) -> World:
        return self.server.world

    def do_GET(self) -> None:
        self.answer()

    do_PUT = do_POST = do_DELETE = do_GET

    def answer(self) -> None:
        self.world.requests += 1
        length = int(self.headers.get("content-length") or 0)
        self.body = self.rfile.read(length) if length else b""
        url = urlsplit(self.path)
        query = dict(parse_qsl(url.query))
        parts = [unquote(p) for p in url.path.split("/")[1:]]
        try:
            self.route(parts, query)
        except Problem as problem:
            self.problem(problem)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def problem(self, problem: Problem) -> None:
        headers = {}
        if problem.status == 401 and "x-requested-with" not in self.headers:
            headers["www-authenticate"] = 'Basic realm="fake"'
        body = {"error": problem.error, "reason": problem.reason}
        self.send(problem.status, json.dumps(body).encode(), "application/json", headers)

    def send(
        self,
        status: int,
        body: bytes,
        kind: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in {**SECURITY_HEADERS, **(headers or {})}.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        if status != 204:
            self.wfile.write(body)
        self.world.sent_bytes += len(body)

    def json(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.send(status, json.dumps(value).encode(), headers=headers)

    # -- routes ------------------------------------------------------------------------------

    def route(self, parts: list[str], query: dict[str, str]) -> None:
        if parts[0] == "health":
            checks = self.world.checks
            well = set(checks.values()) == {"ok"}
            body = {"status": "ok" if well else "unavailable", "checks": checks}
            return self.json(body, 200 if well else 503)
        if parts[0] != "itc_db":
            return self.static(parts)
        user, tags = self.authenticate()
        if parts[1:] == ["whoami"]:
            may_write = "administrator" in tags
            return self.json(
                {"name": user, "tags": tags, "vhosts": self.world.vhosts, "may_write": may_write}
            )
        if not {"administrator", "monitoring"} & set(tags):
            raise Problem(401, "not_authorised", "Not monitor user")
        if self.command != "GET" and "administrator" not in tags:
            raise Problem(401, "not_authorised", "Not administrator user")
        return self.itc_db(parts[1:], query)

    def authenticate(self) -> tuple[str, list[str]]:
        if not self.world.auth:
            return "anyone", ["administrator"]
        kind, _, secret = self.headers.get("authorization", "").partition(" ")
        if kind != "Basic":
            raise Problem(401, "not_authorised", "Login failed")
        name, _, password = base64.b64decode(secret).decode().partition(":")
        known = USERS.get(name)
        if known is None or known[0] != password:
            raise Problem(401, "not_authorised", "Login failed")
        return name, known[1]

    def itc_db(self, parts: list[str], query: dict[str, str]) -> None:
        world = self.world
        match (self.command, *parts):
            case ("GET",):
                self.json(world.page(query))
            case ("GET", "traces"):
                self.json([world.trace_json(v) for v in world.traces])
            case ("GET", "histogram"):
                self.json(world.histogram(query))
            case ("GET", "certainty"):
                if query.get("vhost") not in world.traces:
                    raise not_found() if "vhost" in query else bad_request("vhost is missing")
                period = query.get("since"), query.get("until")
                self.json(world.period_json(query["vhost"], *period))
            case ("GET", "participants"):
                if query.get("vhost") not in world.traces:
                    raise not_found() if "vhost" in query else bad_request("vhost is missing")
                self.json(world.participants_json(query["vhost"])[: int(query.get("limit", 1000))])
            case ("GET", "quarantine"):
                self.json(world.quarantine)
            case ("GET", "fields"):
                self.json(FIELDS)
            case ("GET", "formats"):
                self.json(FORMATS)
            case ("GET", "exports"):
                self.json(
                    [
                        {
                            "from": key[0],
                            "to": key[1],
                            "file": key[2],
                            "location": about["location"],
                            "vhost": about["vhost"],
                            "bytes": about["bytes"],
                            "created_at": about["created_at"],
                            "events": about["events"],
                        }
                        for key, (_, about) in world.exports.items()
                    ]
                )
            case ("GET", "hidden", "ways"):
                if query.get("vhost") not in world.traces:
                    raise not_found() if "vhost" in query else bad_request("vhost is missing")
                self.json(world.hidden_json(query["vhost"]))
            case ("GET", "live"):
                self.live(query)
            case ("GET", "topology"):
                counted = world.topologies.get(query["vhost"])
                if counted is None or any(
                    counted[name] != query.get(name, counted[name]) for name in ("since", "until")
                ):
                    raise not_found()
                self.json(counted)
            case ("PUT", "topology"):
                self.json(world.start_count(query["vhost"]), 202)
            case ("GET", "events", number):
                event = world.event(number)
                detail = {"clocks": world.clocks_json(event), "handled": []}
                self.json(world.event_json(event) | detail | world.links_json(event))
            case ("GET", "events", number, "causes" | "effects" as side):
                self.relatives(world.event(number), side, query)
            case ("GET", "events", number, "deliveries"):
                self.json(world.deliveries_json(world.event(number)))
            case ("GET", "compare", a, b):
                one, other = world.event(a), world.event(b)
                self.json(world.compare_json(one, other) | world.answer_json(one, other))
            case ("GET", "conversations"):
                self.json(conversations.listed(world, query))
            case ("GET", "conversations", number):
                self.json(conversations.conversation(world, world.event(number), query))
            case ("GET", "jobs"):
                self.json(list(reversed(world.jobs.values())))
            case (_, "jobs", number, *rest):
                self.job(int(number), rest)
            case (_, "undefined", first, last, file):
                self.chain(first, last, file, query.get("via", "any"))
            case ("GET", "chain", first, last):
                self.json(fake_chain.chain_json(world, first, last, query))
            case ("GET", "touched"):
                self.json(fake_chain.touched_json(world, query))
            case ("PUT", "touched", number, file):
                self.json(fake_chain.start_touched(world, number, file), 202)
            case ("GET", "touched", _, _) if self.path in world.touched_files:
                self.send(200, world.touched_files[self.path])
            case ("GET", "failures"):
                self.json(fake_failures.failures_json(world, query))
            case ("GET", "assertions"):
                self.json(fake_assertions.listed(world, query))
            case ("PUT", "assertions", vhost):
                fake_assertions.set_all(world, vhost, self.body)
                self.send(204, b"")
            case ("DELETE", "assertions", vhost, name):
                fake_assertions.remove(world, vhost, name)
                self.send(204, b"")
            case ("GET", "violations"):
                self.json(fake_assertions.violations_json(world, query))
            case ("GET", "reports"):
                self.json(fake_reports.listed(world))
            case ("GET", "reports", number):
                self.json(fake_reports.report(world, number))
            case ("PUT", "reports", kind):
                self.json(fake_reports.start(world, kind, query, self.body), 202)
            case ("PUT", "correlations"):
                self.json(fake_reports.start(world, "correlations", query), 202)
            case (_, vhost, "undefined", "undefined", "undefined"):
                self.trace(vhost)
            case _:
                raise not_found()

    def trace(self, vhost: str) -> None:
        world = self.world
        if vhost not in world.vhosts:
            raise not_found()
        if self.command == "PUT":
            known = vhost in world.traces and world.traces[vhost].state == "running"
            trace = world.start_trace(vhost)
            if self.body:
                trace.policy = json.loads(self.body).get("participant", "channel")
            return self.send(204 if known else 201, b"")
        if vhost not in world.traces:
            raise not_found()
        if self.command == "DELETE":
            world.traces[vhost].state = "stopped"
            return self.send(204, b"")
        return self.json(world.trace_json(vhost))

    def relatives(self, event: Event, side: str, query: dict[str, str]) -> None:
        limit = int(query.get("limit", 100))
        ids = self.world.relatives(event, side, query.get("via", "any"))
        towards = 1 if side == "causes" else len(self.world.events)
        items = [self.world.row(self.world.events[i - 1], query) for i in ids[:limit]]
        certainty = self.world.certainty_json(event.vhost, event.id, towards)
        answer = {"event": event.id, "items": items, "truncated": len(ids) > limit, "next": None}
        self.json(answer | certainty)

    def job(self, number: int, rest: list[str]) -> None:
        job = self.world.jobs.get(number)
        if job is None:
            raise not_found()
        if self.command == "DELETE":
            if job["state"] not in {"queued", "running"}:
                raise Problem(409, "conflict", "the job has ended already")
            self.world.update(job, state="cancelled", finished_at=now())
            return self.send(204, b"")
        if rest == ["progress"]:
            return self.stream(self.progress(job))
        return self.json(job)

    def progress(self, job: dict[str, Any]) -> Iterable[tuple[str | None, Any]]:
        while True:
            with self.world.changed:
                shown = dict(job)
            yield None, shown
            if shown["state"] in {"succeeded", "failed", "cancelled"}:
                return
            with self.world.changed:
                self.world.changed.wait(0.5)

    def chain(self, first: str, last: str, file: str, via: str) -> None:
        world = self.world
        if self.command == "PUT":
            job = world.start_chain(first, last, file, via)
            return self.json(job, 202, {"location": f"/itc_db/jobs/{job['id']}"})
        key = (int(first), int(last), file)
        if key not in world.exports:
            raise not_found()
        if self.command == "DELETE":
            del world.exports[key]
            return self.send(204, b"")
        kind = next(f["media_type"] for f in FORMATS if file.endswith(f["extension"]))
        disposition = {"content-disposition": f'attachment; filename="{file}"'}
        return self.send(200, world.exports[key][0], kind, disposition)

    def live(self, query: dict[str, str]) -> None:
        newest = self.headers.get("last-event-id") or str(len(self.world.events))
        self.stream(self.live_events(query | {"after": newest}))

    def live_events(self, query: dict[str, str]) -> Iterable[tuple[str | None, Any]]:
        while not self.world.closing.is_set():
            found = self.world.wait_for(query, 1.0, LIVE_AT_ONCE)
            for event in found:
                query["after"] = str(event.id)
                yield str(event.id), self.world.row(event, query)
            if not found:
                yield None, None

    def stream(self, items: Iterable[tuple[str | None, Any]]) -> None:
        self.send_response(200)
        for name, value in SECURITY_HEADERS.items():
            self.send_header(name, value)
        self.send_header("content-type", "text/event-stream")
        self.send_header("cache-control", "no-store")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for number, value in items:
            if value is None:
                text = ": still here\n\n"
            else:
                head = f"id: {number}\n" if number else ""
                text = f"{head}data: {json.dumps(value)}\n\n"
            self.wfile.write(text.encode())
            self.wfile.flush()

    def static(self, parts: list[str]) -> None:
        path = WEB.joinpath(*parts) if parts != [""] else WEB / "index.html"
        if parts[0] == "bench":
            path = Path(__file__).parent / Path(*parts)
        if ".." in parts or not path.is_file():
            raise not_found()
        kind = {".js": "text/javascript", ".woff2": "font/woff2"}.get(path.suffix)
        kind = kind or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        if path.suffix != ".woff2" and "gzip" in self.headers.get("accept-encoding", ""):
            packed = _packed(path, path.stat().st_mtime_ns)
            return self.send(200, packed, kind, {"content-encoding": "gzip"})
        return self.send(200, path.read_bytes(), kind)


@lru_cache(_KEPT)
def _packed(path: Path, modified: int) -> bytes:
    """A file compressed; when it was changed is only there for the cache."""
    return gzip.compress(path.read_bytes(), 9)


class Server(ThreadingHTTPServer):
    """The fake on a port of its own."""

    daemon_threads = True

    def __init__(self, world: World, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.world = world

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that disconnects in the middle of an answer is not an error."""


@contextlib.contextmanager
def running(world: World, port: int = 0) -> Iterator[Server]:
    """The fake served from a thread until the block ends."""
    server = Server(world, port)
    thread = threading.Thread(target=server.serve_forever, args=(LOOK_SECONDS,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        world.closing.set()
        with world.changed:
            world.changed.notify_all()
        server.shutdown()
        server.server_close()
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8099)
    parser.add_argument("--events", type=int, default=3000)
    parser.add_argument("--participants", type=int, default=12)
    parser.add_argument("--rate", type=float, default=0.0, help="new events a second")
    parser.add_argument("--no-auth", action="store_true")
    options = parser.parse_args()
    world = demo_world(options.events, options.participants, not options.no_auth)
    with running(world, options.port) as server:
        print(server.url, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                world.closing.wait(1.0)
                world.traces["/"].rate = options.rate
                if world.traces["/"].state == "running":
                    world.traces["/"].simulation.now = time.time_ns() // 1000
                    world.grow("/", int(options.rate))


if __name__ == "__main__":
    main()
