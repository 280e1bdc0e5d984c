"""What a topology job of the fake service counts, shaped as docs/api.md."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from tests.web.history import Event
from tests.web.world import World, iso


def counted(world: World, vhost: str, first: int, last: int) -> dict[str, Any]:
    """The topology of the events `first` to `last`, by id."""
    events = [e for e in world.events[first - 1 : last] if e.vhost == vhost]
    publishes = Counter((user(world, e), e.exchange) for e in events if not e.received)
    routes = Counter((e.exchange, q) for e in events if not e.received for q in e.routed or ())
    deliveries: defaultdict[tuple[str | None, ...], list[Event]] = defaultdict(list)
    for event in events:
        if event.received:
            cause = user(world, world.events[event.cause - 1]) if event.cause else None
            deliveries[cause, event.exchange, event.queue, user(world, event)].append(event)
    return {
        "vhost": vhost,
        "since": iso(events[0].at),
        "until": iso(events[-1].at + 1),
        "complete": True,
        "gaps": [],
        "publishes": [
            {"publisher": p, "exchange": x, "messages": n, "unroutable": 0}
            for (p, x), n in publishes.most_common()
        ],
        "routes": [
            {"exchange": x, "queue": q, "messages": n, "dead_lettered": 0, "unmatched": 0}
            for (x, q), n in routes.most_common()
        ],
        "deliveries": [
            delivery(world, key, found)
            for key, found in sorted(deliveries.items(), key=lambda item: -len(item[1]))
        ],
    }


def user(world: World, event: Event) -> str:
    return world.who(event).user


def delivery(world: World, key: tuple[str | None, ...], events: list[Event]) -> dict[str, Any]:
    causes = world.events
    waits = sorted((e.at - causes[e.cause - 1].at) / 1e6 for e in events if e.match == "routed")
    matches = Counter(e.match for e in events)
    return {
        "publisher": key[0],
        "exchange": key[1],
        "queue": key[2],
        "receiver": key[3],
        "messages": len(events),
        "seconds": {
            name: waits[min(len(waits) - 1, int(len(waits) * share))]
            for name, share in {"p50": 0.5, "p95": 0.95, "p99": 0.99}.items()
        }
        if waits
        else None,
        **{name: matches[name] for name in ("redelivered", "dead_lettered", "unmatched")},
    }
