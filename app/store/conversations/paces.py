"""The paces of participants, from the newest events of each."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import text

from app.store.causality import links
from app.store.conversations.roots import Roots
from model.conversations.consumers import NEW_PATIENCE
from model.conversations.pace import Course, Handling, Pace, Passage, last_shares
from model.words import EventType

# Events of a participant that are read, the newest; and participants, of one answer.
MOST_NEWEST, MOST_PACES = 512, 32

_NEWEST = text(
    "SELECT id, type, cause_id, recorded_at, queue, exchange, routing_keys"
    " FROM (SELECT * FROM events"
    " WHERE trace_id = :trace AND participant = :participant ORDER BY height DESC LIMIT :most"
    ") AS newest WHERE NOT quiet ORDER BY id"
).bindparams(most=MOST_NEWEST)


class Taking(NamedTuple):
    """The time (µs) at which a message was handed over, and the course by which it came."""

    at: int
    course: Course


async def paces_of(trace: Roots, participants: Collection[int], moment: int) -> dict[int, Pace]:
    """The pace of each of these, of the first `MOST_PACES`, as of a moment (µs)."""
    chosen = sorted(participants)[:MOST_PACES]
    return {number: await _pace_of(trace, number, moment) for number in chosen}


async def _pace_of(trace: Roots, participant: int, moment: int) -> Pace:
    binds = {"trace": trace.trace_id, "participant": participant}
    events = (await trace.connection.execute(_NEWEST, binds)).all()
    publishes = [event for event in events if event.type == EventType.published]
    causes = await links.edge_causes(trace.connection, [publish.id for publish in publishes])
    keys = await trace.keys_of({event.id for event in events} | {e.cause_id or 0 for e in events})
    received: dict[int, Taking] = {}
    last_with_key: dict[bytes, Taking] = {}
    steps: list[Handling] = []
    by_course: defaultdict[Course, list[Handling]] = defaultdict(list)
    by_key: defaultdict[bytes, list[Passage]] = defaultdict(list)
    ways: set[Course] = set()
    for event in events:
        course = Course(event.queue, event.exchange, tuple(json.loads(event.routing_keys)))
        for key in keys.get(event.cause_id or event.id, ()):
            by_key[key].append(Passage(course, event.recorded_at))
        if event.type == EventType.received:
            # A cause is the delivery, or its publish where that is not known.
            taking = Taking(event.recorded_at, course)
            received |= {event.id: taking, event.cause_id or 0: taking}
            last_with_key |= dict.fromkeys(keys.get(event.cause_id or 0, ()), taking)
            continue
        ways.add(course)
        takings = [
            received[cause.cause] for cause in causes.get(event.id, ()) if cause.cause in received
        ]
        if not takings and event.id not in causes:
            takings = [last_with_key[key] for key in keys.get(event.id, ()) if key in last_with_key]
        if takings:
            last = max(takings, key=lambda taking: taking.at)
            steps.append(Handling(last.at, event.recorded_at))
            by_course[last.course].append(steps[-1])
    ends = last_shares(by_key.values(), moment - NEW_PATIENCE)
    return Pace(steps, [publish.recorded_at for publish in publishes], by_course, ends, ways)
