"""Random histories with churn, stamped by the real clocks and written into a store.

A history is what a broker might have seen: participants come, publish, receive what others
published, and go; several traces share one sequence of ids. It knows the truth by itself: each
event keeps the set of its causal past, which is what plans are checked against.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine, insert
from sqlalchemy.ext.asyncio import create_async_engine

from app.store.tables import blocks, channels, events, metadata, participants, traces
from itc import IdPool, Stamp, pack
from model.blocks import block_of

NOON = 1_767_268_800_000_000  # 2026-01-01T12:00:00Z


@dataclass
class Actor:
    number: int
    interval: str
    base: int
    stamp: Stamp
    events: list[int] = field(default_factory=list)
    lamport: int = 0
    past: frozenset[int] = frozenset()


class History:
    """Events of several traces, ids from 1; ``past[e]`` holds every event at or before e."""

    def __init__(self, traces: int = 1, pasts: bool = True) -> None:
        self._pasts = pasts  # their size is quadratic in the history's
        self.rows: list[dict[str, Any]] = []
        self.past: dict[int, frozenset[int]] = {}
        self.actors: dict[int, list[Actor]] = {trace: [] for trace in range(1, traces + 1)}
        self._pools = {trace: IdPool() for trace in self.actors}

    def join(self, trace: int = 1) -> Actor:
        """A new participant."""
        interval, base = self._pools[trace].take()
        number = len(self.actors[trace]) + 1
        actor = Actor(number, interval, base, Stamp.of_interval(interval, base))
        self.actors[trace].append(actor)
        return actor

    def leave(self, actor: Actor, trace: int = 1) -> None:
        """All of a participant's events were pruned: its interval may go to another."""
        height = self.rows[actor.events[-1] - 1]["height"]
        self._pools[trace].give_back(actor.interval, height)

    def publish(self, actor: Actor, trace: int = 1, **fields: Any) -> int:
        """A published event of the actor; returns its id."""
        return self._add(trace, actor, None, {"type": 0, "match": 0, "queue": None, **fields})

    def receive(self, actor: Actor, cause: int | None, trace: int = 1, **fields: Any) -> int:
        """A received event: of a publish, or unmatched."""
        match = 4 if cause is None else 1
        columns = {"type": 1, "match": match, "queue": "work", "routed_queues": None, **fields}
        return self._add(trace, actor, cause, columns)

    def _add(self, trace: int, actor: Actor, cause: int | None, fields: dict[str, Any]) -> int:
        event_id = len(self.rows) + 1
        if cause is not None:
            row = self.rows[cause - 1]
            actor.stamp = actor.stamp.join(row["stamp"].peek())
            actor.past |= self.past.get(cause, frozenset())
            actor.lamport = max(actor.lamport, row["lamport"])
        actor.stamp = actor.stamp.event()
        actor.lamport += 1
        actor.events.append(event_id)
        if self._pasts:
            actor.past |= {event_id}
            self.past[event_id] = actor.past
        self.rows.append(
            {
                "id": event_id,
                "trace_id": trace,
                "participant": actor.number,
                "channel": actor.number,
                "seq": len(actor.events),
                "lamport": actor.lamport,
                "height": actor.stamp.height_at(actor.interval),
                "clock": pack(actor.stamp),
                "cause_id": cause,
                "recorded_at": NOON + 1000 * event_id,
                "exchange": "orders",
                "routing_keys": '["order.new"]',
                "routed_queues": '["work"]',
                "redelivered": False,
                "quiet": False,
                "fingerprint": b"",
                "properties": '{"headers":{}}',
                "payload": f"payload of {event_id}".encode(),
                "payload_bytes": len(f"payload of {event_id}"),
                "payload_sha256": None,
                "stamp": actor.stamp,
                **fields,
            }
        )
        return event_id

    def chain(self, first: int, second: int) -> set[int]:
        """The truth: every event e of both ends' trace with from → e → to, and the ends."""
        if first not in self.past[second]:
            first, second = second, first
        if first not in self.past[second]:
            return set()
        return {event for event in self.past[second] if first in self.past[event]}

    def write(self, path: Path) -> str:
        """Store everything in an SQLite file; returns its URL."""
        engine = create_engine(f"sqlite:///{path}")
        with engine.begin() as connection:
            self.write_to(connection)
        engine.dispose()
        return f"sqlite+aiosqlite:///{path}"

    async def write_postgres(self, url: str) -> None:
        """Store everything in an empty PostgreSQL database."""
        engine = create_async_engine(url)
        async with engine.begin() as connection:
            await connection.run_sync(self.write_to)
        await engine.dispose()

    def write_to(self, connection: Connection) -> None:
        """Store everything in an empty database."""
        metadata.create_all(connection)
        connection.execute(insert(traces), [self._trace(trace) for trace in self.actors])
        for trace, actors in self.actors.items():
            active = [self._participant(trace, actor) for actor in actors if actor.events]
            if active:
                connection.execute(insert(participants), active)
                connection.execute(insert(channels), [_channel(row) for row in active])
        rows = [{c.name: row.get(c.name) for c in events.columns} for row in self.rows]
        connection.execute(insert(events), rows)
        connection.execute(insert(blocks), list(self._blocks()))

    def _blocks(self) -> Iterator[dict[str, int]]:
        for number, rows in groupby(self.rows, key=lambda row: block_of(row["id"])):
            times = [row["recorded_at"] for row in rows]
            yield {"number": number, "earliest": min(times), "latest": max(times)}

    def _trace(self, trace: int) -> dict[str, Any]:
        ids = [row["id"] for row in self.rows if row["trace_id"] == trace]
        return {
            "id": trace,
            "vhost": vhost(trace),
            "policy": "channel",
            "quiet": "[]",
            "wanted": True,
            "created_at": NOON,
            "events": len(ids),
            "last_event_id": max(ids, default=0),
        }

    def _participant(self, trace: int, actor: Actor) -> dict[str, Any]:
        last = self.rows[actor.events[-1] - 1]
        name = f"user{actor.number} 127.0.0.1:{actor.number} -> 127.0.0.1:5672 (1)"
        return {
            "trace_id": trace,
            "number": actor.number,
            "key": name,
            "name": name,
            "user": f"user{actor.number}",
            "place": "127.0.0.1",
            "client": None,
            "assumed": False,
            "published": sum(self.rows[event - 1]["type"] == 0 for event in actor.events),
            "interval": actor.interval,
            "seq": last["seq"],
            "lamport": last["lamport"],
            "height": last["height"],
            "base": actor.base,
            "first_event_id": actor.events[0],
            "last_event_id": actor.events[-1],
        }


def vhost(trace: int) -> str:
    return "/" if trace == 1 else f"vhost{trace}"


def _channel(participant: dict[str, Any]) -> dict[str, Any]:
    return {
        "trace_id": participant["trace_id"],
        "number": participant["number"],
        "participant": participant["number"],
        "node": "rabbit@localhost",
        "connection": f"127.0.0.1:{participant['number']} -> 127.0.0.1:5672",
        "channel": 1,
        "user": f"user{participant['number']}",
    }


def random_history(
    rng: random.Random, size: int, present: int, churn: float, traces: int = 1
) -> History:
    """A history of ``size`` events.

    ``present`` participants a trace act at a time; with probability ``churn`` an event is
    preceded by one's going and another's coming. Deliveries reach back over a bounded backlog,
    redeliveries and unmatched ones included.
    """
    history = History(traces)
    acting = {t: [history.join(t) for _ in range(present)] for t in history.actors}
    backlog: dict[int, list[int]] = {trace: [] for trace in history.actors}
    for _ in range(size):
        trace = rng.choice(list(history.actors))
        if rng.random() < churn:
            acting[trace][rng.randrange(present)] = history.join(trace)
        actor = rng.choice(acting[trace])
        waiting = backlog[trace][-20:]
        if waiting and rng.random() < 0.6:
            history.receive(actor, rng.choice(waiting), trace)
        elif rng.random() < 0.1:
            history.receive(actor, None, trace)
        else:
            backlog[trace].append(history.publish(actor, trace))
    return history
