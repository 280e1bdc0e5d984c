"""What jobs find in a world: its topology, and what some of its events touched."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from tests.web import history
from tests.web.history import Event
from tests.web.past import Past


def counted(world: Past, vhost: str, since: int, until: int) -> dict[str, Any]:
    """The lists of the topology of a period, in µs."""
    events = [e for e in world.events if e.vhost == vhost and since <= e.at < until]
    publishes = Counter((user(world, e), e.exchange) for e in events if not e.received)
    routes = Counter(
        (user(world, e), e.exchange, q) for e in events if not e.received for q in e.routed or ()
    )
    deliveries: defaultdict[tuple[str | None, ...], list[Event]] = defaultdict(list)
    for event in events:
        if event.received:
            cause = user(world, world.events[event.cause - 1]) if event.cause else None
            deliveries[cause, event.exchange, event.queue, user(world, event)].append(event)
    return {
        "publishes": [
            {"publisher": p, "exchange": x, "messages": n, "unroutable": 0}
            for (p, x), n in publishes.most_common()
        ],
        "routes": [
            {
                "publisher": p,
                "exchange": x,
                "queue": q,
                "messages": n,
                "dead_lettered": 0,
                "unmatched": 0,
            }
            for (p, x, q), n in routes.most_common()
        ],
        "deliveries": [
            delivery(world, key, found)
            for key, found in sorted(deliveries.items(), key=lambda item: -len(item[1]))
        ],
        "deaths": deaths(events),
        "programs": programs(world, events),
    }


def deaths(events: list[Event]) -> list[dict[str, Any]]:
    """The dead letters among events, by what they say of their death."""
    dead = Counter(
        (e.headers["x-death"][0]["queue"], e.headers["x-death"][0]["reason"], e.exchange, e.queue)
        for e in events
        if e.match == "dead_lettered"
    )
    return [
        {"queue": died, "reason": why, "exchange": exchange, "to": to, "messages": n}
        for (died, why, exchange, to), n in dead.most_common()
    ]


def programs(world: Past, events: list[Event]) -> list[dict[str, Any]]:
    """The times from deliveries to the publishes that name them."""
    times: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
    for event in events:
        if event.named:
            handed = world.events[event.prompt - 1]
            seconds = (event.at - handed.at) / 1e6
            times[user(world, handed), str(handed.queue), event.exchange].append(seconds)
    return [
        {
            "receiver": receiver,
            "queue": queue,
            "exchange": exchange,
            "messages": len(found),
            "seconds": percentiles(sorted(found)),
        }
        for (receiver, queue, exchange), found in times.items()
    ]


def percentiles(waits: list[float]) -> dict[str, float] | None:
    """Of sorted times."""
    if not waits:
        return None
    return {
        name: waits[min(len(waits) - 1, int(len(waits) * share))]
        for name, share in {"median": 0.5, "p90": 0.9}.items()
    }


def user(world: Past, event: Event) -> str:
    return world.who(event).user


def delivery(world: Past, key: tuple[str | None, ...], events: list[Event]) -> dict[str, Any]:
    causes = world.events
    waits = sorted((e.at - causes[e.cause - 1].at) / 1e6 for e in events if e.match == "routed")
    matches = Counter(e.match for e in events)
    return {
        "publisher": key[0],
        "exchange": key[1],
        "queue": key[2],
        "receiver": key[3],
        "messages": len(events),
        "seconds": percentiles(waits),
        **{name: matches[name] for name in ("redelivered", "dead_lettered", "unmatched")},
    }


def verdicts(world: Past, asked: list[Event]) -> dict[str, list[int]]:
    """The ids of the events since some, by what these had to do with them."""
    first = min(event.id for event in asked)
    events = world.events
    ids = {event.id for event in asked}
    since = [e.id for e in events[first:] if e.vhost == asked[0].vhost and e.id not in ids]
    caused = set().union(*(history.evident_future(events, event) for event in asked))
    after = set().union(*(history.future(events, event) for event in asked))
    return {
        "caused": [number for number in since if number in caused],
        "may_have": [number for number in since if number in after - caused],
        "cannot_have": [number for number in since if number not in after | caused],
    }
