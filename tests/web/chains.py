"""The chain between two events at once, as the fake service answers it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.web import history
from tests.web.history import Event
from tests.web.world import World


def between(world: World, a: Event, b: Event, query: Mapping[str, str]) -> dict[str, Any]:
    """All that is at or after the one and at or before the other, a page of it."""
    low, high = sorted((a, b), key=lambda event: event.id)
    via = query.get("via", "any")
    limit, after = int(query.get("limit", 200)), int(query.get("after", 0))
    ids = members(world, low, high, via)
    page = [number for number in ids if number > after][:limit]
    left = bool(page) and page[-1] < ids[-1]
    events = [world.events[number - 1] for number in page]
    compared = world.compare_json(a, b) | world.answer_json(a, b)
    del compared["a"], compared["b"]
    return {
        "from": a.id,
        "to": b.id,
        "via": via,
        "start": low.id,
        "end": high.id,
        "events": [world.row(event, query) for event in events],
        "count": len(ids),
        "participants": len({world.events[number - 1].participant for number in ids}),
        "steps": [step for event in events for step in steps(world, event, set(page))],
        "truncated": left,
        "next": page[-1] if left else None,
        **compared,
    }


def members(world: World, low: Event, high: Event, via: str) -> list[int]:
    """The ids of a chain, its ends included; none where they are concurrent."""
    if via == "any":
        past = history.past(world.events, high)
        future = history.future(world.events[: high.id], low)
    else:
        shares = via == "conversation"
        past = history.evident_past(world.events, high, shares) | {high.id}
        future = history.evident_future(world.events[: high.id], low, shares) | {low.id}
    return sorted(past & future) if low.id in past else []


def steps(world: World, event: Event, shown: set[int]) -> list[dict[str, Any]]:
    """What led straight to an event, of the events shown."""
    return [world.step_json(cause, event.id) for cause in history.evident(event) if cause in shown]
