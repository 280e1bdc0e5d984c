"""Assertions that are held while events come, and violations, as the fake service answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.assertion_files import parse
from app.watch.subjects import Subject, unwatched
from model.assertions import InvalidAssertionError, from_json, to_json
from tests.web.world import World, bad_request, iso, not_found, now


def listed(world: World, query: Mapping[str, str]) -> list[dict[str, Any]]:
    """What `GET /itc_db/assertions` answers."""
    return [
        one
        for vhost in world.vhosts
        if query.get("vhost") in (None, vhost)
        for one in world.assertions.get(vhost, {}).values()
    ]


def set_all(world: World, vhost: str, body: bytes) -> None:
    """Have these assertions and no others; one whose text stays the same keeps what came of it."""
    if vhost not in world.traces:
        raise not_found()
    try:
        said = [to_json(each) for each in parse(body)]
    except InvalidAssertionError as error:
        raise bad_request(str(error)) from None
    before = world.assertions.get(vhost, {})
    world.assertions[vhost] = {
        each["name"]: known
        if (known := before.get(each["name"])) and known["assertion"] == each
        else _new(world, vhost, each)
        for each in said
    }


def remove(world: World, vhost: str, name: str) -> None:
    if name not in world.assertions.get(vhost, {}):
        raise not_found()
    del world.assertions[vhost][name]


def _new(world: World, vhost: str, said: dict[str, Any]) -> dict[str, Any]:
    newest = len(world.events)
    return {
        "vhost": vhost,
        "name": said["name"],
        "assertion": said,
        "unwatched": unwatched(from_json(said)),
        "set_by": "admin",
        "set_at": now(),
        "from_event_id": newest + 1,
        "judged_id": newest,
        **dict.fromkeys(("waiting", "held", "violated", "unknown"), 0),
    }


def violate(world: World, vhost: str, name: str, event: int, **more: Any) -> dict[str, Any]:
    """As if one of the assertions had been found not to hold for an event."""
    held = world.assertions[vhost][name]
    kind = Subject(from_json(held["assertion"]).what).kind
    publish = world.events[event - 1]
    held["violated"] += 1
    held["judged_id"] = max(held["judged_id"], event)
    violation = {
        "id": len(world.violations) + 1,
        "vhost": vhost,
        "assertion": name,
        "kind": kind.value,
        "event": event,
        "root": None,
        "type": publish.kind or publish.key,
        "at": iso(publish.at),
        "found_at": now(),
        "sentence": f"event {event}, {publish.kind or publish.key}, is {kind.value}",
        "complete": True,
        "delivery": "none",
        "attempts": 0,
        "delivered_at": None,
        "error": None,
        **more,
    }
    world.violations.append(violation)
    return violation


def violations_json(world: World, query: Mapping[str, str]) -> dict[str, Any]:
    """What `GET /itc_db/violations` answers."""
    limit, before = int(query.get("limit", 100)), int(query.get("before", 2**62))
    found = [
        each
        for each in reversed(world.violations)
        if each["id"] < before
        and all(query.get(name) in (None, each[name]) for name in ("vhost", "assertion", "kind"))
    ]
    page, cut = found[:limit], len(found) > limit
    return {"items": page, "truncated": cut, "next": page[-1]["id"] if cut else None}
