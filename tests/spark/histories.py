"""Random histories with churn, stamped by the real clocks and written into a store.

A history is what a broker might have seen: participants come, publish, receive what others
published, and go; several traces share one sequence of ids. It knows the truth by itself: each
event keeps the set of its causal past, which is what plans are checked against. What is evident is
found by looking at all pairs of events.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import md5
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import Connection, create_engine, insert, text
from sqlalchemy.ext.asyncio import create_async_engine

from app.store.database.searched import Writing
from app.store.database.tables import (
    blocks,
    channels,
    edges,
    events,
    metadata,
    participants,
    traces,
)
from itc import IdPool, Stamp, pack
from model.blocks import block_of
from model.words import ACTS, BY_BROKER, IS_CONVERSATION, Disposition, EdgeKind, Via

Steps: TypeAlias = defaultdict[int, set[int]]

NOON = 1_767_268_800_000_000  # 2026-01-01T12:00:00Z


class Link(NamedTuple):
    """What an event names as its cause, or what the broker did that led to it."""

    cause: int
    rule: str = "celery-parent"
    kind: EdgeKind = EdgeKind.parent

    @classmethod
    def act(cls, cause: int, kind: EdgeKind) -> Link:
        """What the broker did, as it is stored."""
        return cls(cause, ACTS[kind], kind)

    @property
    def words(self) -> list[str]:
        """What is said of it: the kind, and the rule if it has one."""
        return [self.kind.name] if self.kind in BY_BROKER else [self.kind.name, self.rule]

    @property
    def shown(self) -> dict[str, Any]:
        """As answers and exports have it."""
        rule = None if self.kind in BY_BROKER else self.rule
        return {"cause": self.cause, "rule": rule, "kind": self.kind.name}


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
        self.links: dict[int, Sequence[Link]] = {}
        self.shared: dict[int, Sequence[str]] = {}
        # From an event to those before it, and after it; once all of the history is there.
        self._evidence: dict[Via, tuple[Steps, Steps]] = {}
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

    def publish(
        self,
        actor: Actor,
        trace: int = 1,
        *,
        links: Sequence[Link] = (),
        shared: Sequence[str] = (),
        **fields: Any,
    ) -> int:
        """A published event of the actor; returns its id."""
        columns = {"type": 0, "match": 0, "queue": None, **fields}
        joins = [link.cause for link in links]
        event_id = self._add(trace, actor, [] if columns.get("quiet") else joins, None, columns)
        self.links[event_id], self.shared[event_id] = links, shared
        return event_id

    def receive(
        self,
        actor: Actor,
        cause: int | None,
        trace: int = 1,
        *,
        shared: Sequence[str] = (),
        links: Sequence[Link] = (),
        **fields: Any,
    ) -> int:
        """A received event: of a publish, or unmatched; ``links`` are what the broker did."""
        match = 4 if cause is None else 1
        columns = {"type": 1, "match": match, "queue": "work", "routed_queues": None, **fields}
        # Of some it is not known what became of them, some are in hand.
        if "settlement" not in columns:
            columns["settlement"] = (None, *Disposition)[len(self.rows) % (len(Disposition) + 1)]
            if columns["settlement"] not in (None, Disposition.in_hand):
                columns["settled_at"] = NOON + 1000 * len(self.rows)
        joins = [each.cause for each in links] + ([] if cause is None else [cause])
        event_id = self._add(trace, actor, [] if columns.get("quiet") else joins, cause, columns)
        self.links[event_id], self.shared[event_id] = links, shared
        return event_id

    def _add(
        self,
        trace: int,
        actor: Actor,
        joins: Sequence[int],
        cause: int | None,
        fields: dict[str, Any],
    ) -> int:
        event_id = len(self.rows) + 1
        for each in joins:
            row = self.rows[each - 1]
            actor.stamp = actor.stamp.join(row["stamp"].peek())
            actor.past |= self.past.get(each, frozenset())
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
                "settlement": None,
                "settled_at": None,
                "doubtful": False,
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

    def evident(self, first: int, second: int, via: Via) -> set[int]:
        """The truth about the chain along messages and links, or conversations too."""
        first, second = sorted((first, second))
        past = self.evident_past(second, via)
        return past & _reached(first, self._evidence[via][1]) if first in past else set()

    def is_behind_doubtful(self, event: int, later: int) -> bool:
        """The truth: whether a doubtful delivery after an event is a later one, or in its past."""
        rows = (self.rows[each - 1] for each in self.past[later] if each > event)
        return any(row["doubtful"] and not row["quiet"] for row in rows)

    def evident_past(self, event: int, via: Via) -> set[int]:
        """Itself, and all that leads there."""
        if via not in self._evidence:
            before, after = self._evidence[via] = (defaultdict(set), defaultdict(set))
            for cause, effect in self._steps(via):
                after[cause].add(effect)
                before[effect].add(cause)
        return _reached(event, self._evidence[via][0])

    def _steps(self, via: Via) -> Iterator[tuple[int, int]]:
        for row in self.rows:
            if row["quiet"]:
                continue
            if row["cause_id"] is not None:
                yield row["cause_id"], row["id"]
            for link in self.links.get(row["id"], ()):
                if link.kind is not EdgeKind.candidate:
                    yield link.cause, row["id"]
        if via is Via.conversation:
            yield from self._conversing()

    def _conversing(self) -> Iterator[tuple[int, int]]:
        for before in self.rows:
            for after in self.rows[before["id"] :]:
                if (
                    (before["type"], after["type"]) == (1, 0)
                    and (before["trace_id"], before["participant"])
                    == (after["trace_id"], after["participant"])
                    and not (before["quiet"] or after["quiet"])
                    and {*self.shared[before["id"]]} & {*self.shared[after["id"]]}
                ):
                    yield before["id"], after["id"]

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
        if named := list(self._edges()):
            connection.execute(insert(edges), named)
        if said := list(self._keys()):
            writing = Writing(with_runs=connection.dialect.name == "sqlite")
            connection.execute(text(writing.insert(":event_id", ":key", ":roles")), said)

    def _edges(self) -> Iterator[dict[str, Any]]:
        for effect, links in self.links.items():
            trace = self.rows[effect - 1]["trace_id"]
            for cause, rule, kind in links:
                ends = {"effect_id": effect, "cause_id": cause}
                yield {"trace_id": trace, **ends, "rule": rule, "kind": int(kind)}

    def _keys(self) -> Iterator[dict[str, Any]]:
        for event, shared in self.shared.items():
            trace = self.rows[event - 1]["trace_id"]
            for name in shared:
                key = md5(name.encode(), usedforsecurity=False).digest()
                roles = IS_CONVERSATION | (2 if name < "b" else 0)  # some are looked for, too
                yield {"trace": trace, "event_id": event, "key": key, "roles": roles}

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


def _reached(start: int, steps: Steps) -> set[int]:
    reached, waiting = {start}, [start]
    while waiting:
        for each in steps[waiting.pop()] - reached:
            reached.add(each)
            waiting.append(each)
    return reached


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


def linked_pairs(rng: random.Random, history: History, count: int) -> list[tuple[int, int]]:
    """Ends of chains of the first trace, most of them evident ones."""
    ids = [row["id"] for row in history.rows if row["trace_id"] == 1]
    found = []
    while len(found) < count:
        last = rng.choice(ids[len(ids) // 3 :])
        via = rng.choice((Via.links, Via.conversation, Via.any))
        past = ids[: ids.index(last)] if via is Via.any else history.evident_past(last, via)
        firsts = sorted({*past} - {last})
        if firsts:
            found.append((rng.choice(firsts[: 1 + len(firsts) // 2]), last))
    return found


DONE = sorted(BY_BROKER)
KINDS = {"celery-parent": EdgeKind.parent, "reply": EdgeKind.reply, "b3": EdgeKind.candidate}


def doubtful_history(rng: random.Random, size: int, present: int) -> History:
    """A linked history in which some deliveries are doubtful, quiet ones among them.

    Others may be of any of several equal messages.
    """
    history = linked_history(rng, size, present)
    for row in history.rows:
        row["doubtful"] = row["type"] == 1 and rng.random() < 0.1
        if row["type"] == 1 and row["id"] % 7 == 0:
            row |= {"cause_id": None, "candidates": 2 + row["id"] % 3}
    return history


def linked_history(rng: random.Random, size: int, present: int, churn: float = 0.0) -> History:
    """A history in which about half of the publishes name causes, and some messages converse.

    Mostly what their participant was handed, sometimes any event before; some of it is quiet.
    """
    history = History(traces=2)
    acting = {t: [history.join(t) for _ in range(present)] for t in history.actors}
    backlog: dict[int, list[int]] = {trace: [] for trace in history.actors}
    before: dict[int, list[int]] = {trace: [] for trace in history.actors}
    for _ in range(size):
        trace = rng.choice((1, 1, 1, 2))
        if rng.random() < churn:
            acting[trace][rng.randrange(present)] = history.join(trace)
        actor = rng.choice(acting[trace])
        shared = rng.sample("abcd", rng.choice((0, 0, 0, 1, 2)))
        quiet = rng.random() < 0.05
        waiting = backlog[trace][-8:]
        if waiting and rng.random() < 0.55:
            causes = rng.sample(before[trace][-30:], rng.choice((0, 0, 0, 1, 1)))
            acts = [Link.act(cause, rng.choice(DONE)) for cause in causes]
            event = history.receive(
                actor, rng.choice(waiting), trace, shared=shared, links=acts, quiet=quiet
            )
        else:
            near = [each for each in actor.events if history.rows[each - 1]["type"]][-4:]
            if rng.random() < 0.2:
                near = before[trace][-30:]
            causes = rng.sample(near, min(len(near), rng.choice((0, 0, 1, 1, 1, 3))))
            rules = [rng.choice([*KINDS]) for _ in causes]
            links = [
                Link(cause, rule, KINDS[rule]) for cause, rule in zip(causes, rules, strict=True)
            ]
            event = history.publish(actor, trace, links=links, shared=shared, quiet=quiet)
            backlog[trace].append(event)
        before[trace].append(event)
    return history
