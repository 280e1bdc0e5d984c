"""What the fake server serves: made-up events, traces, jobs and exports, shaped as docs/api.md."""

from __future__ import annotations

import base64
import datetime
import hashlib
import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import quote

from app.api.routes.queries import ListQuery
from app.api.views import field_views
from app.stored.filters import HEADER
from model.described import shown
from model.exports import FORMATS as FORMATS_BY_NAME
from tests.web import history
from tests.web.history import Event, Participant, Simulation

# Unknown parameters are refused, as by the service.
PARAMETERS = frozenset(ListQuery.model_fields)

FORMATS = shown([*FORMATS_BY_NAME.values()])
FIELDS = field_views()


def iso(micros: int) -> str:
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)
    return moment.isoformat(timespec="microseconds") + "Z"


def micros(text: str) -> int:
    moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return int(moment.timestamp() * 1_000_000)


LINK_COUNTS = ("found", "known", "missed", "hidden", "unseen", "forgotten", "ambiguous", "early")
NO_EVIDENCE: dict[str, Any] = {
    **dict.fromkeys(("reactions", "explained", "known", "missed", "hidden"), 0),
    "coverage": None,
    "fit": None,
}


def shares(counts: dict[str, int]) -> dict[str, Any]:
    """Counts of a rule's causes, with what the service makes of them."""
    named = counts["found"] + sum(counts[why] for why in LINK_COUNTS[4:])
    by_broker = counts["known"] + counts["missed"]
    coverage = counts["found"] / named if named else None
    return {
        **counts,
        "coverage": coverage,
        "fit": counts["known"] / by_broker if by_broker else None,
    }


BY_NAME = {"rule": "causation_id", "kind": "parent"}  # how messages name their cause here


class Problem(Exception):
    """An error answer."""

    def __init__(self, status: int, error: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.error, self.reason = status, error, reason


def bad_request(reason: str) -> Problem:
    return Problem(400, "bad_request", reason)


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
        self.doubts: list[str] = []
        self.links: dict[str, dict[str, int]] = {}
        self.hidden: list[dict[str, Any]] = []  # ways, as in the API
        self.rate = 0.0
        self.counters: Counter[str] = Counter()
        self.published: Counter[int] = Counter()  # by participant
        self.first: dict[int, Event] = {}  # by participant, as `last`
        self.last: dict[int, Event] = {}

    def note(self, event: Event) -> None:
        """Count an event, so that no answer has to go through a million of them."""
        self.counters["received" if event.received else "published"] += 1
        self.counters[event.match] += 1
        self.published[event.participant] += not event.received
        if event.named:
            self.name_cause("causation_id", "found", "known")
        self.first.setdefault(event.participant, event)
        self.last[event.participant] = event

    def name_cause(self, rule: str, *counters: str) -> None:
        """Count a cause that a message names by a rule."""
        counts = self.links.setdefault(rule, dict.fromkeys(LINK_COUNTS, 0))
        for name in counters:
            counts[name] += 1


class World:
    """All events, traces, jobs and exports; guarded by one condition."""

    def __init__(self, auth: bool = True, job_seconds: float = 0.4) -> None:
        self.auth = auth
        self.job_seconds = job_seconds
        self.events: list[Event] = []
        self.traces: dict[str, Trace] = {}
        self.vhosts: list[str] = ["/", "shop", "empty"]
        self.jobs: dict[int, dict[str, Any]] = {}
        self.exports: dict[tuple[int, int, str], tuple[bytes, dict[str, Any]]] = {}
        self.quarantine: list[dict[str, Any]] = []
        self.topologies: dict[str, dict[str, Any]] = {}
        self.reports: dict[str, dict[str, Any]] = {}  # by id
        self.assertions: dict[str, dict[str, dict[str, Any]]] = {}  # by virtual host and name
        self.violations: list[dict[str, Any]] = []  # oldest first
        self.touched_files: dict[str, bytes] = {}  # by location
        self.most_failures = 1000  # are counted
        self.next_topology: dict[str, Any] = {}  # what the next counting job will find
        self.checks = {"broker": "ok", "database": "ok"}  # of health
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
        """Add `count` more events to a vhost."""
        with self.changed:
            trace = self.traces[vhost]
            source = trace.simulation.run(len(self.events) + 1)
            for _ in range(count):
                event = next(source)
                self.events.append(event)
                trace.note(event)
            self.changed.notify_all()

    # -- what the API shows ------------------------------------------------------------------

    def trace_json(self, vhost: str) -> dict[str, Any]:
        trace = self.traces[vhost]
        counts = trace.counters
        names = ("published", "received", "unmatched", "redelivered", "dead_lettered")
        return {
            "vhost": vhost,
            "state": trace.state,
            "participant": trace.policy,
            "quiet": ["exchange:celeryev"],
            "bodies": True,
            "exchanges": None,
            "queues": None,
            "waiting_for": "the broker" if trace.state == "waiting" else None,
            "last_error": trace.last_error,
            "wanted": trace.state in {"running", "waiting", "starting"},
            "created_at": iso(history.START),
            "restarts": 4 if trace.state == "failed" else 0,
            "counters": {name: counts[name] for name in names}
            | {"quarantined": len(self.quarantine), "copies_dropped": 0}
            | {"untraced": 0, "quiet": 0},
            "links": {rule: shares(counts) for rule, counts in trace.links.items()},
            "evidence": NO_EVIDENCE | {"hidden": sum(way["links"] for way in trace.hidden)},
            "events": counts["published"] + counts["received"],
            "participants": len(trace.last),
            "pending_copies": len(trace.simulation.pending),
            "last_event_id": max((e.id for e in trace.last.values()), default=0),
            "rate": trace.rate if trace.state == "running" else 0.0,
            "lag": 0 if trace.state == "running" else None,
            "gaps": trace.gaps,
            "holder": None,
            "sound": not trace.doubts,
            "doubts": trace.doubts,
            "audit": self.audit_json(counts),
            "remarks": [],
        }

    def audit_json(self, counts: Mapping[str, int]) -> dict[str, Any]:
        publishes, deliveries = counts["published"], counts["received"]
        return {
            "publishes": {"traced": publishes, "counted": publishes},
            "deliveries": {"traced": deliveries, "counted": deliveries},
            "as_of": iso(history.START),
            "read_at": iso(history.START),
            "missing": 0,
            "suspected": 0,
            "excess": 0,
            "sentence": f"{publishes:,} of {publishes:,} publishes, {deliveries:,} of "
            f"{deliveries:,} deliveries traced, as of 12:03:11",
        }

    def hidden_json(self, vhost: str) -> dict[str, Any]:
        ways = self.traces[vhost].hidden
        links = sum(way["links"] for way in ways)
        return {"vhost": vhost, "links": links, "truncated": False, "ways": ways}

    def hide(self, effect: Event, giver: int, rule: str, links: int) -> None:
        """As if so many causes had come to a publish's participant from another by no message."""
        trace = self.traces[effect.vhost]
        people = trace.simulation.participants
        from_, to = (
            {"number": number, "name": people[number - 1].name}
            for number in (giver, effect.participant)
        )
        way = {"rule": rule, "from": from_, "to": to, "links": links, "last_effect": effect.id}
        trace.hidden.append(way | {"first_at": iso(history.START), "last_at": iso(effect.at)})

    def participants_json(self, vhost: str) -> list[dict[str, Any]]:
        trace = self.traces[vhost]
        newest_first = sorted(trace.last.values(), key=lambda event: -event.id)
        return [self.participant_json(trace, last) for last in newest_first]

    def participant_json(self, trace: Trace, last: Event) -> dict[str, Any]:
        who = trace.simulation.participants[last.participant - 1]
        return {
            "vhost": last.vhost,
            "participant": who.number,
            "name": who.name,
            "user": who.user,
            "place": who.place,
            "client": None,
            "assumed": False,
            "key": f"{who.user} {who.connection} ({who.channel}) {who.node}",
            "published": trace.published[who.number],
            "received": last.seq - trace.published[who.number],
            "interval": who.interval,
            "events": last.seq,
            "lamport": last.lamport,
            "first_event_id": trace.first[who.number].id,
            "last_event_id": last.id,
            "evidence": NO_EVIDENCE,
            "connections": 1,
            "programs": 0,
            "note": None,
            "channels": [
                {
                    "node": who.node,
                    "connection": who.connection,
                    "channel": who.channel,
                    "user": who.user,
                }
            ],
        }

    def event_json(self, event: Event, payload: bool = True) -> dict[str, Any]:
        who = self.who(event)
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
            "participant_name": who.name,
            "seq": event.seq,
            "lamport": event.lamport,
            "recorded_at": iso(event.at),
            "exchange": event.exchange,
            "queue": event.queue,
            "routing_keys": [event.key],
            "routed_queues": list(event.routed) if event.routed is not None else None,
            "redelivered": event.redelivered,
            "quiet": False,
            "node": who.node,
            "connection": who.connection,
            "channel": who.channel,
            "user": who.user,
            "properties": {
                "content_type": "application/json",
                "delivery_mode": 2,
                "headers": event.headers,
                **({"message_id": event.message_id} if event.message_id else {}),
                **({"correlation_id": event.correlation_id} if event.correlation_id else {}),
                **({"type": event.kind} if event.kind else {}),
            },
            **body,
            "payload_bytes": len(event.payload),
            "payload_truncated": False,
            "stamp": "",
        }

    def named_json(self, event: Event) -> list[dict[str, Any]]:
        """What a publish names as its cause."""
        causes = [event.prompt, *event.also] if event.named else []
        return [{"cause": cause, **BY_NAME} for cause in causes]

    def links_json(self, event: Event) -> dict[str, Any]:
        """What an event names, and what names it."""
        naming = [
            {"effect": other.id, **BY_NAME}
            for other in self.events[event.id : event.id + 20_000]
            if other.named and event.id in (other.prompt, *other.also)
        ]
        named_by = {"links": naming[:100], "truncated": len(naming) > 100}
        return {"links": self.named_json(event), "named_by": named_by}

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
            raise bad_request("events of two virtual hosts cannot be compared")
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
        return {
            "a": a.id,
            "b": b.id,
            "vhost": a.vhost,
            "relation": relation,
            "sentence": words[relation],
            **self.certainty_json(a.vhost, a.id, b.id),
        }

    def answer_json(self, a: Event, b: Event) -> dict[str, Any]:
        """Whether the one caused the other, and by which way."""
        relation = self.relation(a, b)
        if relation not in {"before", "after"}:
            known = relation == "equal" or not self.traces[a.vhost].doubts
            return {"answer": "cannot have" if known else "unknown", "path": None}
        first, last = sorted((a, b), key=lambda event: event.id)
        way = history.way(self.events, first, last)
        if way is None:
            return {"answer": "may have", "path": None}
        through = f"through {len(way) - 1} event{'s' * (len(way) > 2)}"
        verb = "caused" if a is first else "was caused by"
        return {
            "sentence": f"event {a.id} {verb} event {b.id}, {through}",
            "answer": "caused",
            "path": [self.step_json(*step) for step in way],
        }

    def step_json(self, cause: int, effect: int) -> dict[str, Any]:
        if self.events[effect - 1].received:
            return {"cause": cause, "effect": effect, "how": "message", "rule": None, "kind": None}
        return {"cause": cause, "effect": effect, "how": "link", **BY_NAME}

    def relatives(self, event: Event, side: str, via: str) -> list[int]:
        """The ids of causes or effects of an event, nearest first."""
        events = self.events[: event.id + (20_000 if side == "effects" else 0)]
        if via == "any":
            walk = history.past if side == "causes" else history.future
            ids = walk(events, event) - {event.id}
        else:
            evident = history.evident_past if side == "causes" else history.evident_future
            ids = evident(events, event, via == "conversation")
        return sorted(ids, reverse=side == "causes")

    def certainty_json(self, vhost: str, a: int, b: int) -> dict[str, Any]:
        trace = self.traces[vhost]
        low, high = sorted((a, b))
        gaps = [g for g in trace.gaps if low <= g["after_event_id"] < high]
        return {
            "complete": not gaps,
            "gaps": gaps,
            "sound": not trace.doubts,
            "doubts": trace.doubts,
            "quiet": 0,
        }

    def deliveries_json(self, event: Event) -> dict[str, Any]:
        if event.received:
            raise bad_request("only a published event has deliveries")
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
                    "dead_letters": [self.event_json(e, payload=False) for e in dead],
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

    def tests(self, query: dict[str, str]) -> list[Callable[[Event], bool]]:
        """The filters of a query."""
        headers = {name for name in query if name.startswith(HEADER)}
        if unknown := set(query) - PARAMETERS - headers:
            raise bad_request(f"{', '.join(sorted(unknown))}: no such parameter")
        tests: list[Callable[[Event], bool]] = []
        for name in headers:
            header, value = name.removeprefix(HEADER), query[name]
            tests.append(lambda e, header=header, value=value: e.headers.get(header) == value)
        for name, value in query.items():
            if get := self.filterable.get(name):
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
        return tests

    @cached_property
    def filterable(self) -> dict[str, Callable[[Event], Any]]:
        """What each filter compares, by its name."""
        return {
            "vhost": lambda e: e.vhost,
            "type": lambda e: "received" if e.received else "published",
            "exchange": lambda e: e.exchange,
            "queue": lambda e: e.queue,
            "match": lambda e: e.match,
            "participant": lambda e: str(e.participant),
            "participant_name": lambda e: self.who(e).name,
            "routing_key": lambda e: e.key,
            "redelivered": lambda e: str(e.redelivered).lower(),
            "user": lambda e: self.who(e).user,
            "connection": lambda e: self.who(e).connection,
            "channel": lambda e: str(self.who(e).channel),
            "message_id": lambda e: e.message_id,
            "correlation_id": lambda e: e.correlation_id,
            "conversation": lambda e: e.correlation_id,
        }

    def who(self, event: Event) -> Participant:
        return self.traces[event.vhost].simulation.participants[event.participant - 1]

    def select(self, query: dict[str, str], most: int | None) -> list[Event]:
        """At most `most` events that pass the filters: ascending with `after`, else descending."""
        tests = self.tests(query)
        if "after" in query:
            places = range(int(query["after"]), len(self.events))
        else:
            places = range(min(int(query.get("before", 2**62)) - 1, len(self.events)) - 1, -1, -1)
        passing = (e for e in map(self.events.__getitem__, places) if all(t(e) for t in tests))
        return list(itertools.islice(passing, most))

    def page(self, query: dict[str, str]) -> Any:
        size = int(query.get("page_size", 100))
        if not 1 <= size <= 500:
            raise bad_request("page_size is 1 to 500")
        if "page" not in query:
            found = self.wait_for(query, float(query.get("wait", 0)), size)
            return [self.row(e, query) for e in found]
        found = self.select(query, None)
        page = int(query["page"])
        items = found[(page - 1) * size : page * size]
        return {
            "total_count": len(self.events),
            "filtered_count": len(found),
            "item_count": len(items),
            "page": page,
            "page_size": size,
            "page_count": -(-len(found) // size),
            "items": [self.row(e, query) for e in items],
        }

    def row(self, event: Event, query: Mapping[str, str]) -> dict[str, Any]:
        """An event with the columns that a query asks for."""
        show = [c for c in query.get("columns", "").split(",") if c]
        whole = self.event_json(event, query.get("payload") != "none")
        shown = {c: whole[c] for c in show if c in whole} if show else whole
        return shown | {"links": self.named_json(event)} if query.get("links") == "true" else shown

    def histogram(self, query: dict[str, str]) -> dict[str, Any]:
        """Events over time, by the filters of a query."""
        query = dict(query)
        most = int(query.pop("buckets", 60))
        if not 1 <= most <= 500:
            raise bad_request("buckets is 1 to 500")
        of_vhost = [e for e in self.events if query.get("vhost") in (None, e.vhost)]
        if not of_vhost:
            nothing = {"since": None, "until": None, "seconds": 0.0, "events": 0}
            return nothing | {"counted_since": None, "buckets": []}
        since = micros(query["since"]) if "since" in query else min(e.at for e in of_vhost)
        until = micros(query["until"]) if "until" in query else max(e.at for e in of_vhost) + 1
        width = max(1000, -(-max(1, until - since) // most))
        number = -(-max(1, until - since) // width)
        buckets = [{"published": 0, "received": 0, "unmatched": 0} for _ in range(number)]
        for event in self.select(query, None):
            bucket = buckets[min(number - 1, max(0, (event.at - since) // width))]
            bucket["received" if event.received else "published"] += 1
            bucket["unmatched"] += event.match == "unmatched"
        shown = [
            {"at": iso(since + n * width), "events": one["published"] + one["received"], **one}
            for n, one in enumerate(buckets)
        ]
        return {
            "since": iso(since),
            "until": iso(since + number * width),
            "seconds": width / 1_000_000,
            "events": sum(one["events"] for one in shown),
            "counted_since": None,
            "buckets": shown,
        }

    def period_json(self, vhost: str, since: str | None, until: str | None) -> dict[str, Any]:
        """What is known of a period."""
        trace = self.traces[vhost]
        begin, end = micros(since) if since else 0, micros(until) if until else 2**62
        ids = [e.id for e in self.events if e.vhost == vhost and begin <= e.at < end]
        gaps = [
            gap
            for gap in trace.gaps
            if micros(gap["since"]) < end and (gap["until"] is None or micros(gap["until"]) > begin)
        ]
        return {
            "vhost": vhost,
            "since": since and iso(begin),
            "until": until and iso(end),
            "first_event": ids[0] if ids else None,
            "last_event": ids[-1] if ids else None,
            "complete": not gaps,
            "gaps": gaps,
            "sound": not trace.doubts,
            "doubts": trace.doubts,
            "quiet": 0,
            "gap_count": len(gaps),
            "known_since": iso(history.START),
            "state": trace.state,
            "as_of": now(),
        }

    def wait_for(self, query: dict[str, str], seconds: float, most: int) -> list[Event]:
        until = time.monotonic() + seconds
        with self.changed:
            while True:
                found = self.select(query, most)
                left = until - time.monotonic()
                if found or left <= 0 or self.closing.is_set():
                    return found
                self.changed.wait(min(left, 1.0))

    # -- chains ------------------------------------------------------------------------------

    def start_chain(self, first: str, last: str, file: str, via: str = "any") -> dict[str, Any]:
        a, b = self.event(first), self.event(last)
        if a.id == b.id:
            raise bad_request("from and to are the same event")
        if not file or "/" in file or file.startswith("."):
            raise bad_request(f"{file!r} is not a plain file name")
        extension = next((f["extension"] for f in FORMATS if file.endswith(f["extension"])), None)
        if extension is None:
            raise bad_request(f"no format has the extension of {file}")
        relation = self.relation(a, b)
        job = self.new_job("chain", a.vhost, {"from": a.id, "to": b.id, "file": file, "via": via})
        worker = threading.Thread(
            target=self.run_chain, args=(job, a, b, file, extension, relation), daemon=True
        )
        worker.start()
        return job

    def start_count(self, vhost: str) -> dict[str, Any]:
        job = self.new_job("topology", vhost, {"vhost": vhost, "since": 0, "until": 1})
        threading.Thread(target=self.run_count, args=(job,), daemon=True).start()
        return job

    def run_count(self, job: dict[str, Any]) -> None:
        self.update(job, state="running", started_at=now(), stage="counting", percent=40.0)
        if self.closing.wait(self.job_seconds) or job["state"] == "cancelled":
            return
        self.topologies[job["vhost"]] = self.next_topology
        self.update(job, state="succeeded", percent=100.0, finished_at=now(), result={})

    def new_job(self, kind: str, vhost: str, request: dict[str, Any]) -> dict[str, Any]:
        with self.changed:
            number = len(self.jobs) + 1
            self.jobs[number] = {
                "id": number,
                "kind": kind,
                "state": "queued",
                "stage": None,
                "percent": 0.0,
                "vhost": vhost,
                "rows_read": 0,
                "rows_written": 0,
                "created_at": now(),
                "started_at": None,
                "finished_at": None,
                "request": request,
                "result": None,
                "error": None,
            }
            return self.jobs[number]

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
            ids = history.chain(self.events, low, high, job["request"]["via"])
        chain = [self.events[i - 1] for i in ids]
        compared = self.compare_json(a, b)
        summary = {name: compared[name] for name in compared.keys() - {"a", "b"}} | {
            "job": job["id"],
            "from": a.id,
            "to": b.id,
            "via": job["request"]["via"],
            "answer": self.answer_json(a, b)["answer"],
            "file": file if chain else None,
            "location": f"/itc_db/undefined/{a.id}/{b.id}/{quote(file)}" if chain else None,
            "format": extension.removeprefix("."),
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
        if extension == ".json":
            return json.dumps({"events": rows}, indent=1).encode()
        if extension == ".csv":
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
    for outcome in [("found", "known")] * 17 + [("found", "missed")] * 3 + [("unseen",)] * 2:
        world.traces["/"].name_cause("reply", *outcome)
    published = [event for event in world.events[:events] if not event.received]
    world.hide(published[-1], 3, "causation_id", 12)
    world.hide(published[-2], 1, "x-outbox", 1)
    world.traces["/"].gaps.append(
        {
            "id": 1,
            "after_event_id": events // 2,
            "before_event_id": events // 2 + 1,
            "since": iso(world.events[events // 2 - 1].at),
            "until": iso(world.events[events // 2].at),
            "reason": "tracing was off on node rabbit@host",
            "suspected": False,
            "declared": False,
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
            "body": "hello",
            "body_encoding": "string",
            "body_bytes": 5,
        }
    )
    return world
