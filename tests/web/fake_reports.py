"""Reports, as the fake service answers: their job, and what it found."""

from __future__ import annotations

import hashlib
import itertools
import json
import threading
from collections.abc import Mapping
from typing import Any

from app.assertion_files import parse
from model.assertions import InvalidAssertionError, to_json
from tests.api.fake_reports import made
from tests.web import history
from tests.web.history import Event
from tests.web.world import World, bad_request, iso, micros, not_found, now

LISTS = {
    "races": ("items", "groups", "truncated"),
    "inversions": ("items", "groups", "truncated"),
    "expectations": ("types", "variants", "outliers", "groups", "proposals"),
    "comparison": ("types", "effects", "variants"),
    "correlations": ("proposals", "refused", "places", "programs", "in_turn"),
    "assertions": ("results",),
}
"""The kinds of reports, and what only a report itself has."""
_LEARNT: dict[str, dict[str, Any]] = {
    "expectations": {"via": "links", "wait": 3600.0, "share": 0.95, "cases": 100, "rare": 0.01},
    "comparison": {"via": "links", "wait": 3600.0, "cases": 100},
    "correlations": {},
    "assertions": {"via": "links"},
}
LOOKED_AT = 60  # publishes; each pair of them is compared


def start(world: World, kind: str, query: Mapping[str, str], body: bytes = b"") -> dict[str, Any]:
    """The job of `PUT /itc_db/reports/{report}`, and of correlations."""
    if kind not in LISTS:
        raise bad_request("there are no such reports")
    if query.get("vhost") not in world.traces:
        raise not_found()
    number = hashlib.sha256(json.dumps([kind, query]).encode()).hexdigest()[:16]
    asked = _LEARNT.get(kind, {"key": None})
    if kind == "assertions":
        asked = {**asked, "assertions": _assertions_in(body)}
    request = {"report": kind, "id": number, **asked, **query}
    job = world.new_job("report", query["vhost"], request)
    threading.Thread(target=_run, args=(world, job), daemon=True).start()
    return job


def listed(world: World) -> list[dict[str, Any]]:
    """What `GET /itc_db/reports` answers: without what they hold, newest first."""
    return [
        {name: value for name, value in each.items() if name not in LISTS[each["report"]]}
        for each in reversed(world.reports.values())
    ]


def report(world: World, number: str) -> dict[str, Any]:
    if number not in world.reports:
        raise not_found()
    return world.reports[number]


def _run(world: World, job: dict[str, Any]) -> None:
    world.update(job, state="running", started_at=now(), stage="counting", percent=40.0)
    if world.closing.wait(world.job_seconds) or job["state"] == "cancelled":
        return
    made = made_of(world, job["request"])
    world.reports[made["id"]] = made
    facts = listed(world)[0]
    world.update(job, state="succeeded", percent=100.0, finished_at=now(), result=facts)


def made_of(world: World, request: Mapping[str, Any]) -> dict[str, Any]:
    """A report on a period, shaped as the service's."""
    if request["report"] in _LEARNT:
        return _learnt(world, request)
    events = [e for e in world.events if e.vhost == request["vhost"]]
    since, until = (micros(request.get(name, iso(end))) for name, end in _ends(events))
    publishes = [e for e in events if not e.received and since <= e.at < until][:LOOKED_AT]
    find = _race if request["report"] == "races" else _inversion
    found = (find(world, *pair) for pair in itertools.combinations(publishes, 2))
    items = [item for items in found for item in items][::-1]
    queues = {item["queue"]: sum(i["queue"] == item["queue"] for i in items) for item in items}
    return {
        "id": request["id"],
        "report": request["report"],
        "vhost": request["vhost"],
        "since": iso(since),
        "until": iso(until),
        "key": request["key"],
        "made_at": now(),
        "count": len(items),
        "counted_all": True,
        "items": items[:1000],
        "groups": [{"queue": q, "count": n, "counted_all": True} for q, n in queues.items()],
        "truncated": len(items) > 1000,
        **world.certainty_json(request["vhost"], 1, len(world.events)),
    }


def _learnt(world: World, request: Mapping[str, Any]) -> dict[str, Any]:
    """What is learnt, the same of each period."""
    events = [e for e in world.events if e.vhost == request["vhost"]]
    since, until = (micros(request.get(name, iso(end))) for name, end in _ends(events))
    before = {"before_since": max(0, 2 * since - until), "before_until": since}
    asked = _LEARNT[request["report"]]
    asserted = {name: request[name] for name in ("assertions",) if name in request}
    facts, lists = made({"report": request["report"], "asked": {**before, **asserted}})
    return {
        "id": request["id"],
        "report": request["report"],
        "vhost": request["vhost"],
        "since": iso(since),
        "until": iso(until),
        **{name: type(value)(request.get(name, value)) for name, value in asked.items()},
        **asserted,
        "made_at": now(),
        **facts,
        **world.certainty_json(request["vhost"], 1, len(world.events)),
        **lists,
    }


def _assertions_in(body: bytes) -> list[dict[str, Any]]:
    try:
        return [to_json(each) for each in parse(body)]
    except InvalidAssertionError as error:
        raise bad_request(str(error)) from None


def _ends(events: list[Event]) -> tuple[tuple[str, int], tuple[str, int]]:
    return ("since", events[0].at), ("until", events[-1].at + 1)


def _race(world: World, a: Event, b: Event) -> list[dict[str, Any]]:
    shared = set(a.routed or ()) & set(b.routed or ())
    if not shared or a.id in history.past(world.events, b):
        return []
    return [_item(world, queue, a, b) for queue in sorted(shared)]


def _inversion(world: World, a: Event, b: Event) -> list[dict[str, Any]]:
    shared = set(a.routed or ()) & set(b.routed or ())
    if not shared or a.id not in history.past(world.events, b):
        return []
    items = [_item(world, queue, a, b) for queue in sorted(shared)]
    return [i for i in items if i["handed_a"] and i["handed_b"] and i["handed_b"] < i["handed_a"]]


def _item(world: World, queue: str, a: Event, b: Event) -> dict[str, Any]:
    handed = [_handed(world, queue, each) for each in (a, b)]
    who = [_who(world, each) for each in (a, b, *handed)]
    return {
        "queue": queue,
        "key": None,
        "a": a.id,
        "b": b.id,
        "a_by": who[0],
        "b_by": who[1],
        "handed_a": handed[0].id if handed[0] else None,
        "handed_b": handed[1].id if handed[1] else None,
        "handed_a_by": who[2],
        "handed_b_by": who[3],
        "participants": list(dict.fromkeys(each["name"] for each in who[2:] if each)),
        "at": iso(b.at),
    }


def _handed(world: World, queue: str, publish: Event) -> Event | None:
    after = world.events[publish.id : publish.id + 500]
    return next((e for e in after if e.cause == publish.id and e.queue == queue), None)


def _who(world: World, event: Event | None) -> dict[str, Any] | None:
    who = world.who(event) if event else None
    return {"number": who.number, "name": who.name} if who else None
