"""Failures and reports, as the fake service answers.

Dead letters are those of the history. Of the other kinds, which it has not, some events are taken
to tell.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.web.history import Event
from tests.web.world import World, iso, micros, not_found

KINDS = ("died", "error_queue", "unroutable", "came_back", "overdue")
SPANS = (1, 5, 15, 60, 300, 900, 3_600)
MOST_SPANS = 120
TIMED_OUT = "System.TimeoutException: the mail server did not answer"
REFUSED = "billing.CardRefused: 402"


def failures(world: World) -> list[dict[str, Any]]:
    """All of them, newest first."""
    return [each for event in reversed(world.events) for each in _told_by(world, event)]


def _told_by(world: World, event: Event) -> Iterator[dict[str, Any]]:
    if event.match == "dead_lettered":
        last = _handed_over(world, event, "stock")
        yield _failure(world, event, "died", "stock", reason="rejected", last=last, to=event.queue)
    elif event.match == "redelivered":
        last = _handed_over(world, event, event.queue)
        yield _failure(world, event, "came_back", event.queue, last=last, times=3)
    elif event.queue == "audit" and event.cause and event.id % 59 == 0:
        yield _failure(world, event, "died", "audit", reason="expired", to="dead.audit")
    elif event.queue in {"mail.out", "billing"} and event.cause and event.id % 31 == 0:
        said = TIMED_OUT if event.queue == "mail.out" else REFUSED
        yield _failure(
            world,
            event,
            "error_queue",
            event.queue,
            exception=said,
            last=event,
            to=f"{event.queue}_error",
        )
    elif not event.received and event.id % 67 == 0:
        yield _failure(world, event, "unroutable", None)
    for each in world.violations:
        if each["kind"] == "overdue" and each["event"] == event.id:
            yield _failure(world, event, "overdue", None, reason=each["assertion"])


def _handed_over(world: World, event: Event, queue: str | None) -> Event | None:
    """The last delivery of the same message from a queue before an event."""
    before = world.events[event.cause : event.id - 1]
    return next((e for e in reversed(before) if e.cause == event.cause and e.queue == queue), None)


def _failure(
    world: World,
    event: Event,
    kind: str,
    queue: str | None,
    *,
    reason: str | None = None,
    exception: str | None = None,
    last: Event | None = None,
    times: int = 1,
    to: str | None = None,
) -> dict[str, Any]:
    publish = world.events[event.cause - 1] if event.cause else event
    who, publisher = world.who(last) if last else None, world.who(publish)
    key = publish.key
    return {
        "event": event.id,
        "message": publish.id,
        "vhost": event.vhost,
        "kind": kind,
        "queue": queue,
        "reason": reason,
        "type": f"{publish.exchange}/{key}" if publish.exchange else key,
        "exception": exception,
        "at": iso(event.at),
        "by": {"number": who.number, "name": who.name} if who else None,
        "handed_over": last.id if last else None,
        "times": times,
        "to": to,
        "publisher": {"number": publisher.number, "name": publisher.name},
        "exchange": publish.exchange,
        "routing_key": key,
    }


def _tests(query: Mapping[str, str]) -> Iterator[Callable[[dict[str, Any]], bool]]:
    for name in ("vhost", "kind", "queue", "reason", "type"):
        if name in query:
            yield functools.partial(_has, name, query[name])
    if "exception" in query:
        yield lambda each: query["exception"] in {each["exception"], _type(each["exception"])}
    if "participant" in query:
        yield lambda each: str((each["by"] or {}).get("number")) == query["participant"]
    if "since" in query:
        yield lambda each: micros(each["at"]) >= micros(query["since"])
    if "until" in query:
        yield lambda each: micros(each["at"]) < micros(query["until"])


def _has(name: str, value: str, failure: Mapping[str, Any]) -> bool:
    return bool(failure[name] == value)


def _type(exception: str | None) -> str | None:
    return exception and exception.partition(":")[0]


def failures_json(world: World, query: Mapping[str, str]) -> dict[str, Any]:
    """What `GET /itc_db/failures` answers."""
    if "vhost" in query and query["vhost"] not in world.traces:
        raise not_found()
    tests = [*_tests(query)]
    found = [each for each in failures(world) if all(test(each) for test in tests)]
    counted = found[: world.most_failures]
    limit, before = int(query.get("limit", 100)), int(query.get("before", 2**62))
    page = [each for each in found if each["event"] < before]
    answer = {
        "items": page[:limit],
        "groups": _groups(counted),
        "groups_truncated": False,
        "over_time": _over_time(counted),
        "counted": len(counted),
        "counted_all": len(counted) == len(found),
        "truncated": len(page) > limit,
        "next": page[limit - 1]["event"] if len(page) > limit else None,
    }
    if "vhost" not in query:
        return answer
    return answer | world.certainty_json(query["vhost"], 1, len(world.events))


def _groups(newest_first: list[dict[str, Any]]) -> list[dict[str, Any]]:
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for each in newest_first:
        key = tuple(each[name] for name in ("vhost", "kind", "queue", "reason", "type"))
        groups.setdefault((*key, _type(each["exception"])), []).append(each)
    return [
        {
            **dict(
                zip(("vhost", "kind", "queue", "reason", "type", "exception"), key, strict=True)
            ),
            "count": len(of_one),
            "first_at": of_one[-1]["at"],
            "last_at": of_one[0]["at"],
            "newest": of_one[0]["event"],
            "by": [*dict.fromkeys(each["by"]["name"] for each in of_one if each["by"])][:5],
        }
        for key, of_one in groups.items()
    ]


def _over_time(newest_first: list[dict[str, Any]]) -> dict[str, Any]:
    if not newest_first:
        return {"seconds": 60, "counts": []}
    times = [micros(each["at"]) // 1_000_000 for each in newest_first]
    first, last = min(times), max(times)
    seconds = next(s for s in SPANS if last // s - first // s < MOST_SPANS)
    counts = dict.fromkeys(range(first // seconds, last // seconds + 1), 0)
    for at in times:
        counts[at // seconds] += 1
    spans = [{"at": iso(n * seconds * 1_000_000), "count": count} for n, count in counts.items()]
    return {"seconds": seconds, "counts": spans}
