"""A small stand-in for the service: docs/api.md over a made-up history, and the static files.

The dashboard's own tests run against it, so that they can show what a real broker seldom does:
a million events, hostile names, a trace that failed, a server that refuses. It has the real
server's security headers, so what the page may do here it may do there.

    python -m tests.web.fake_server --port 8099 --events 3000 --rate 5
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import datetime
import hashlib
import json
import mimetypes
import threading
import time
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from tests.web import history
from tests.web.history import Event, Simulation

WEB = Path(__file__).resolve().parents[2] / "web"

SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; font-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}

FORMATS = [
    {"extension": "jsonl", "media_type": "application/x-ndjson", "title": "JSON lines"},
    {"extension": "json", "media_type": "application/json", "title": "JSON"},
    {"extension": "csv", "media_type": "text/csv", "title": "CSV"},
    {"extension": "txt", "media_type": "text/plain", "title": "Text"},
    {"extension": "parquet", "media_type": "application/vnd.apache.parquet", "title": "Parquet"},
]

USERS = {
    "admin": ("admin", ["administrator"]),
    "watch": ("watch", ["monitoring"]),
    "nobody": ("nobody", ["management"]),
}


def iso(micros: int) -> str:
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)
    return moment.isoformat(timespec="microseconds") + "Z"


def micros(text: str) -> int:
    moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return int(moment.timestamp() * 1_000_000)


class Problem(Exception):
    """An error answer."""

    def __init__(self, status: int, error: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.error, self.reason = status, error, reason


def not_found() -> Problem:
    return Problem(404, "Object Not Found", "Not Found")


class Trace:
    """The state of one vhost's trace."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.state = "running"
        self.policy = "channel"
        self.last_error: str | None = None
        self.gaps: list[dict[str, Any]] = []
        self.rate = 0.0


class World:
    """Every event, trace, job and export there is; guarded by one condition."""

    def __init__(self, auth: bool = True, job_seconds: float = 0.4) -> None:
        self.auth = auth
        self.job_seconds = job_seconds
        self.events: list[Event] = []
        self.traces: dict[str, Trace] = {}
        self.vhosts: list[str] = ["/", "shop", "empty"]
        self.jobs: dict[int, dict[str, Any]] = {}
        self.exports: dict[tuple[int, int, str], tuple[bytes, dict[str, Any]]] = {}
        self.quarantine: list[dict[str, Any]] = []
        self.changed = threading.Condition()
        self.closing = threading.Event()
        self.requests = 0
        self.sent_bytes = 0

    def start_trace(
        self, vhost: str, participants: int = 12, seed: int = 7, hostile: bool = False
    ) -> Trace:
        trace = self.traces.get(vhost)
        if trace is None:
            trace = Trace(Simulation(vhost, participants, seed, hostile))
            self.traces[vhost] = trace
            if vhost not in self.vhosts:
                self.vhosts.append(vhost)
        trace.state = "running"
        return trace

    def grow(self, vhost: str, count: int) -> None:
        """Let `count` more events of a vhost happen."""
        with self.changed:
            source = self.traces[vhost].simulation.run(len(self.events) + 1)
            for _ in range(count):
                self.events.append(next(source))
            self.changed.notify_all()

    # -- what the API shows ------------------------------------------------------------------

    def trace_json(self, vhost: str) -> dict[str, Any]:
        trace = self.traces[vhost]
        mine = [e for e in self.events if e.vhost == vhost]
        matches = [e.match for e in mine]
        return {
            "vhost": vhost,
            "state": trace.state,
            "participant": trace.policy,
            "waiting_for": "the broker" if trace.state == "waiting" else None,
            "last_error": trace.last_error,
            "wanted": trace.state in {"running", "waiting", "starting"},
            "created_at": iso(history.START),
            "restarts": 4 if trace.state == "failed" else 0,
            "counters": {
                "published": sum(not e.received for e in mine),
                "received": sum(e.received for e in mine),
                "unmatched": matches.count("unmatched"),
                "redelivered": matches.count("redelivered"),
                "dead_lettered": matches.count("dead_lettered"),
                "quarantined": len(self.quarantine),
                "copies_dropped": 0,
            },
            "events": len(mine),
            "participants": len({e.participant for e in mine}),
            "pending_copies": len(trace.simulation.pending),
            "last_event_id": mine[-1].id if mine else 0,
            "rate": trace.rate if trace.state == "running" else 0.0,
            "lag": 0 if trace.state == "running" else None,
            "gaps": trace.gaps,
        }

    def participants_json(self, vhost: str | None) -> list[dict[str, Any]]:
        found = []
        for name, trace in self.traces.items():
            if vhost is not None and name != vhost:
                continue
            of: dict[int, list[Event]] = {}
            for event in self.events:
                if event.vhost == name:
                    of.setdefault(event.participant, []).append(event)
            for who in trace.simulation.participants:
                events = of.get(who.number)
                if events:
                    found.append(
                        {
                            "vhost": name,
                            "participant": who.number,
                            "name": who.name,
                            "interval": who.interval,
                            "events": len(events),
                            "lamport": events[-1].lamport,
                            "first_event_id": events[0].id,
                            "last_event_id": events[-1].id,
                            "channels": [
                                {
                                    "node": who.node,
                                    "connection": who.connection,
                                    "channel": who.channel,
                                    "user": who.user,
                                }
                            ],
                        }
                    )
        return found

    def event_json(self, event: Event, payload: bool = True) -> dict[str, Any]:
        who = self.traces[event.vhost].simulation.participants[event.participant - 1]
        body: dict[str, Any] = {"payload": None, "payload_encoding": "string"}
        if payload:
            try:
                body["payload"] = event.payload.decode()
            except UnicodeDecodeError:
                body["payload"] = base64.b64encode(event.payload).decode()
                body["payload_encoding"] = "base64"
        return {
            "id": event.id,
            "vhost": event.vhost,
            "type": "received" if event.received else "published",
            "match": event.match,
            "cause": event.cause or None,
            "participant": event.participant,
            "seq": event.seq,
            "lamport": event.lamport,
            "recorded_at": iso(event.at),
            "exchange": event.exchange,
            "queue": event.queue,
            "routing_keys": [event.key],
            "routed_queues": list(event.routed) if event.routed is not None else None,
            "redelivered": event.redelivered,
            "node": who.node,
            "connection": who.connection,
            "channel": who.channel,
            "user": who.user,
            "properties": {
                "content_type": "application/json",
                "delivery_mode": 2,
                "headers": event.headers,
            },
            **body,
            "payload_bytes": len(event.payload),
            "payload_truncated": False,
            "stamp": "",
        }

    def clocks_json(self, event: Event) -> dict[str, Any]:
        people = self.traces[event.vhost].simulation.participants
        counts = history.vector(self.events, event)
        tree = history.event_tree({p.interval: counts.get(p.number, 0) for p in people})
        owner = history.id_tree(people[event.participant - 1].interval)
        text = f"({history.paper(owner)}, {history.paper(tree)})"
        return {
            "lamport": event.lamport,
            "vector": [
                {"participant": n, "name": people[n - 1].name, "events": count}
                for n, count in sorted(counts.items())
            ],
            "itc": {
                "text": text,
                "id": owner,
                "event": tree,
                "code": hashlib.sha256(text.encode()).hexdigest()[:24],
            },
        }

    def event(self, number: str) -> Event:
        if not number.isdigit() or not 1 <= int(number) <= len(self.events):
            raise not_found()
        return self.events[int(number) - 1]

    def relation(self, a: Event, b: Event) -> str:
        if a.vhost != b.vhost:
            raise Problem(400, "bad_request", "events of two virtual hosts cannot be compared")
        if a.id == b.id:
            return "equal"
        if a.id < b.id and a.id in history.past(self.events, b):
            return "before"
        if b.id < a.id and b.id in history.past(self.events, a):
            return "after"
        return "concurrent"

    def compare_json(self, a: Event, b: Event) -> dict[str, Any]:
        relation = self.relation(a, b)
        words = {
            "before": f"event {a.id} happened before event {b.id}",
            "after": f"event {b.id} happened before event {a.id}",
            "equal": "they are the same event",
            "concurrent": f"neither of events {a.id} and {b.id} could have influenced the other",
        }
        low, high = sorted((a.id, b.id))
        gaps = [g for g in self.traces[a.vhost].gaps if low <= g["after_event_id"] < high]
        return {
            "a": a.id,
            "b": b.id,
            "vhost": a.vhost,
            "relation": relation,
            "sentence": words[relation],
            "complete": not gaps,
            "gaps": gaps,
        }

    def deliveries_json(self, event: Event) -> dict[str, Any]:
        if event.received:
            raise Problem(400, "bad_request", "only a published event has deliveries")
        effects = [e for e in self.events[event.id : event.id + 5000] if e.cause == event.id]
        queues = []
        for queue in event.routed or ():
            mine = [e for e in effects if e.queue == queue and e.match != "dead_lettered"]
            dead = [e for e in effects if e.match == "dead_lettered" and queue == "stock"]
            state = "dead_lettered" if dead else "handed_over" if mine else "waiting"
            queues.append(
                {
                    "queue": queue,
                    "state": state,
                    "deliveries": [self.event_json(e, payload=False) for e in mine],
                    "dead_lettered_to": [e.queue for e in dead],
                }
            )
        done = sum(q["state"] == "handed_over" for q in queues)
        return {
            "event": event.id,
            "routed_queues": len(queues),
            "handed_over": done,
            "sentence": f"handed over for {done} of {len(queues)} queues",
            "queues": queues,
        }

    def select(self, query: dict[str, str]) -> list[Event]:
        """All events that the filters let through, oldest first."""
        tests: list[Callable[[Event], bool]] = []
        who = {v: t.simulation.participants for v, t in self.traces.items()}
        simple: dict[str, Callable[[Event], Any]] = {
            "vhost": lambda e: e.vhost,
            "type": lambda e: "received" if e.received else "published",
            "exchange": lambda e: e.exchange,
            "queue": lambda e: e.queue or "",
            "match": lambda e: e.match,
            "participant": lambda e: str(e.participant),
            "routing_key": lambda e: e.key,
            "redelivered": lambda e: str(e.redelivered).lower(),
            "user": lambda e: who[e.vhost][e.participant - 1].user,
            "connection": lambda e: who[e.vhost][e.participant - 1].connection,
            "channel": lambda e: str(who[e.vhost][e.participant - 1].channel),
        }
        for name, value in query.items():
            if name in simple:
                get = simple[name]
                tests.append(lambda e, get=get, value=value: get(e) == value)
        if "since" in query:
            since = micros(query["since"])
            tests.append(lambda e: e.at >= since)
        if "until" in query:
            until = micros(query["until"])
            tests.append(lambda e: e.at < until)
        if query.get("q"):
            needle = query["q"].lower()
            tests.append(
                lambda e: (
                    needle in f"{e.exchange} {e.queue} {e.key}".lower()
                    or needle.encode() in e.payload.lower()
                )
            )
        low, high = int(query.get("after", 0)), int(query.get("before", len(self.events) + 1))
        span = self.events[low : high - 1]
        if not tests:
            return span
        return [e for e in span if all(test(e) for test in tests)]

    def page(self, query: dict[str, str]) -> Any:
        size = int(query.get("page_size", 100))
        if not 1 <= size <= 500:
            raise Problem(400, "bad_request", "page_size is 1 to 500")
        show = [c for c in query.get("columns", "").split(",") if c]
        payload = query.get("payload") != "none"

        def row(event: Event) -> dict[str, Any]:
            whole = self.event_json(event, payload)
            return {c: whole[c] for c in show if c in whole} if show else whole

        if "after" in query and "page" not in query:
            found = self.wait_for(query, float(query.get("wait", 0)))[:size]
            return [row(e) for e in found]
        found = self.select(query)
        if "page" not in query:
            return [row(e) for e in reversed(found[-size:])]
        if query.get("sort") == "lamport":
            found = sorted(found, key=lambda e: e.lamport)
        if query.get("sort_reverse", "true") == "true":
            found = found[::-1]
        page = int(query["page"])
        items = found[(page - 1) * size : page * size]
        return {
            "total_count": len(self.events),
            "filtered_count": len(found),
            "item_count": len(items),
            "page": page,
            "page_size": size,
            "page_count": -(-len(found) // size),
            "items": [row(e) for e in items],
        }

    def wait_for(self, query: dict[str, str], seconds: float) -> list[Event]:
        until = time.monotonic() + seconds
        with self.changed:
            while True:
                found = self.select(query)
                left = until - time.monotonic()
                if found or left <= 0 or self.closing.is_set():
                    return found
                self.changed.wait(min(left, 1.0))

    # -- chains ------------------------------------------------------------------------------

    def start_chain(self, first: str, last: str, file: str) -> dict[str, Any]:
        a, b = self.event(first), self.event(last)
        if a.id == b.id:
            raise Problem(400, "bad_request", "from and to are the same event")
        if not file or "/" in file or file.startswith("."):
            raise Problem(400, "bad_request", f"{file!r} is not a plain file name")
        extension = file.rpartition(".")[2] if "." in file else "jsonl"
        if extension not in {f["extension"] for f in FORMATS}:
            raise Problem(400, "bad_request", f"no export format is called .{extension}")
        relation = self.relation(a, b)
        with self.changed:
            number = len(self.jobs) + 1
            job = {
                "id": number,
                "kind": "chain",
                "state": "queued",
                "stage": None,
                "percent": 0.0,
                "vhost": a.vhost,
                "rows_read": 0,
                "rows_written": 0,
                "created_at": now(),
                "started_at": None,
                "finished_at": None,
                "request": {"from": a.id, "to": b.id, "file": file},
                "result": None,
                "error": None,
            }
            self.jobs[number] = job
        worker = threading.Thread(
            target=self.run_chain, args=(job, a, b, file, extension, relation), daemon=True
        )
        worker.start()
        return job

    def run_chain(
        self, job: dict[str, Any], a: Event, b: Event, file: str, extension: str, relation: str
    ) -> None:
        self.update(job, state="running", started_at=now())
        for stage, percent in (("planning", 10.0), ("reading", 45.0), ("writing", 85.0)):
            self.update(job, stage=stage, percent=percent)
            if self.closing.wait(self.job_seconds / 3) or job["state"] == "cancelled":
                return
        low, high = (a, b) if relation == "before" else (b, a)
        ids: list[int] = []
        if relation in {"before", "after"}:
            between = history.past(self.events, high)
            ids = sorted(between & history.future(self.events[: high.id], low))
        chain = [self.events[i - 1] for i in ids]
        summary = self.compare_json(a, b) | {
            "job": job["id"],
            "from": a.id,
            "to": b.id,
            "file": file if chain else None,
            "location": f"/itc_db/undefined/{a.id}/{b.id}/{quote(file)}" if chain else None,
            "format": extension,
            "events": len(chain),
            "participants": len({e.participant for e in chain}),
            "plan": {"form": "ranges", "reason": "few participants against the span"},
            "seconds": {"queued": 0.0, "plan": 0.05, "spark": 0.3, "total": self.job_seconds},
        }
        body = self.export_body(chain, extension)
        summary |= {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
        if chain:
            self.exports[(a.id, b.id, file)] = (body, summary | {"created_at": now()})
        self.update(
            job,
            state="succeeded",
            stage=None,
            percent=100.0,
            finished_at=now(),
            rows_read=len(chain),
            rows_written=len(chain),
            result=summary,
        )

    def export_body(self, chain: list[Event], extension: str) -> bytes:
        rows = [self.event_json(e) for e in chain]
        if extension == "json":
            return json.dumps({"events": rows}, indent=1).encode()
        if extension == "csv":
            lines = [f"{r['id']},{r['type']},{r['exchange']}" for r in rows]
            return "\n".join(["id,type,exchange", *lines]).encode()
        return "".join(json.dumps(r) + "\n" for r in rows).encode()

    def update(self, job: dict[str, Any], **changes: Any) -> None:
        with self.changed:
            if job["state"] != "cancelled":
                job.update(changes)
            self.changed.notify_all()


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")[:-6] + "Z"


class Handler(BaseHTTPRequestHandler):
    """Routes by the raw path, because virtual hosts hold percent-encoded slashes."""

    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        """Tests have no use for an access log."""

    @property
    def world(self) -> World:
        return self.server.world

    def do_GET(self) -> None:
        self.answer()

    do_PUT = do_DELETE = do_GET

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
            return self.json({"status": "ok", "checks": {"broker": "ok", "store": "ok"}})
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
            case ("GET", "participants"):
                self.json(world.participants_json(query.get("vhost")))
            case ("GET", "quarantine"):
                self.json(world.quarantine)
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
            case ("GET", "live"):
                self.live(query)
            case ("GET", "events", number):
                event = world.event(number)
                self.json(world.event_json(event) | {"clocks": world.clocks_json(event)})
            case ("GET", "events", number, "causes" | "effects" as side):
                self.relatives(world.event(number), side, int(query.get("limit", 100)))
            case ("GET", "events", number, "deliveries"):
                self.json(world.deliveries_json(world.event(number)))
            case ("GET", "compare", a, b):
                self.json(world.compare_json(world.event(a), world.event(b)))
            case ("GET", "jobs"):
                self.json(list(reversed(world.jobs.values())))
            case (_, "jobs", number, *rest):
                self.job(int(number), rest)
            case (_, "undefined", first, last, file):
                self.chain(first, last, file)
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

    def relatives(self, event: Event, side: str, limit: int) -> None:
        events = self.world.events
        if side == "causes":
            ids = sorted(history.past(events, event) - {event.id}, reverse=True)
        else:
            ids = sorted(history.future(events[: event.id + 20_000], event) - {event.id})
        items = [self.world.event_json(events[i - 1], payload=False) for i in ids[:limit]]
        self.json({"event": event.id, "items": items, "truncated": len(ids) > limit})

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

    def chain(self, first: str, last: str, file: str) -> None:
        world = self.world
        if self.command == "PUT":
            job = world.start_chain(first, last, file)
            return self.json(job, 202, {"location": f"/itc_db/jobs/{job['id']}"})
        key = (int(first), int(last), file)
        if key not in world.exports:
            raise not_found()
        if self.command == "DELETE":
            del world.exports[key]
            return self.send(204, b"")
        extension = file.rpartition(".")[2]
        kind = next((f["media_type"] for f in FORMATS if f["extension"] == extension), "text/plain")
        disposition = {"content-disposition": f'attachment; filename="{file}"'}
        return self.send(200, world.exports[key][0], kind, disposition)

    def live(self, query: dict[str, str]) -> None:
        newest = self.headers.get("last-event-id") or str(len(self.world.events))
        self.stream(self.live_events(query | {"after": newest}))

    def live_events(self, query: dict[str, str]) -> Iterable[tuple[str | None, Any]]:
        while not self.world.closing.is_set():
            found = self.world.wait_for(query, 1.0)
            for event in found:
                query["after"] = str(event.id)
                yield str(event.id), self.world.event_json(event, query.get("payload") != "none")
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
        self.send(200, path.read_bytes(), kind)


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
        """A browser that goes away in mid-answer is no error."""


@contextlib.contextmanager
def running(world: World, port: int = 0) -> Any:
    """The fake served from a thread until the block ends."""
    server = Server(world, port)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
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


def demo_world(events: int = 3000, participants: int = 12, auth: bool = True) -> World:
    """Two traced vhosts with a gap, quarantine and a failed trace to look at."""
    world = World(auth=auth)
    world.start_trace("/", participants)
    world.grow("/", events)
    world.start_trace("shop", 8, seed=3)
    world.grow("shop", max(20, events // 10))
    failed = world.start_trace("legacy", 5, seed=4)
    failed.state = "failed"
    failed.last_error = (
        "restarted 3 times within 10 s; the last error: queue 'itc.trace' was deleted"
    )
    world.traces["/"].gaps.append(
        {
            "id": 1,
            "after_event_id": events // 2,
            "since": iso(world.events[events // 2 - 1].at),
            "until": iso(world.events[events // 2].at),
            "reason": "tracing was off on node rabbit@host",
        }
    )
    world.quarantine.append(
        {
            "id": 1,
            "vhost": "/",
            "recorded_at": iso(history.START),
            "reason": "header exchange_name is missing",
            "routing_key": "publish.orders",
            "headers": "{}",
            "body": "aGVsbG8=",
            "body_bytes": 5,
        }
    )
    return world


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
