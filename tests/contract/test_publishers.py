"""The publishes of those who took part in a conversation, against all events of the trace."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from app.store import Store
from app.store.conversations import publishers
from app.store.conversations.roots import Roots
from app.store.database import tables
from model.blocks import MAX_ID
from model.conversations.consumers import PublisherRecord
from model.happened import ConversationEvent
from model.sound import Evidence
from model.words import IS_CONVERSATION, IS_FOUND_BY, EdgeKind, EventType, Match, Via
from spark_jobs.reports.conversations import publisher_table
from spark_jobs.spark.database import DatabaseAddress
from tests.contract.links import LinkedHistory
from tests.contract.test_links import _stored

NEWEST, PUBLISHES = 9, 3  # of each participant: looked through, listed


def _taking_part(event: Any) -> ConversationEvent:
    return ConversationEvent(
        *(event.id, EventType(event.type), Match.none, None, event.participant, "", 0, "", ()),
        *(None, (), False, ""),
    )


class Everything:
    """All that is stored of a trace: events, effects that name a cause, keys, and who acts."""

    def __init__(
        self,
        events: list[Any],
        named: set[int],
        keys: dict[int, set[bytes]],
        who: Sequence[Any],
    ) -> None:
        self.events, self.named, self.keys = events, named, keys
        self.who = {each.number: each for each in who}

    def of(self, participant: int) -> list[Any]:
        """A participant's events, newest first."""
        own = [each for each in self.events if each.participant == participant]
        return sorted(own, key=lambda each: -each.height)

    def is_reaction(self, event: Any) -> bool:
        own = self.of(event.participant)[::-1]
        received = (each for each in own if each.type == EventType.received and not each.quiet)
        told = next((each.height for each in received), None)
        if own[0].seq != 1 or event.id in self.named:
            return True
        alike = [
            each
            for each in own
            if each.type == EventType.published and not each.quiet
            if (each.exchange, each.routing_keys) == (event.exchange, event.routing_keys)
        ]
        if not any(told is None or each.height < told for each in alike):
            return True
        if self.keys.get(event.id):
            return self.has_old_key(event)
        newest = {each.id for each in own[-NEWEST:]}
        again = [each for each in alike if each.id in newest and each.id not in self.named]
        return len(again) < publishers.MANY

    def has_old_key(self, event: Any) -> bool:
        keys = self.keys.get(event.id, set())
        return any(each < event.id and keys & self.keys[each] for each in self.keys)

    def may_be_half(self, number: int) -> bool:
        """Tell whether it has only received, and another of its user and place only published."""
        who = self.who[number]
        return not who.published and any(
            other.published == other.seq
            and other.reactions > other.explained + other.spanned
            and (other.user, other.place) == (who.user, who.place)
            and (None in (other.client, who.client) or other.client == who.client)
            for other in self.who.values()
        )

    def record(self, evidence: tuple[int, int, int], number: int, first: int, via: Via) -> Any:
        """The record of a participant, by looking at each of its events."""
        reactions, explained, spanned = evidence
        reactions = max(reactions, explained + spanned)
        its = self.of(number)
        published = [each for each in its if each.type == EventType.published and not each.quiet]
        newest = [each for each in published if each in its[:NEWEST]]
        begins = bool(newest) and not explained + spanned
        begins = begins and not any(map(self.is_reaction, newest))
        record = PublisherRecord(
            evidence=Evidence(reactions, explained, spanned=spanned),
            only_begins=begins,
            may_be_half=self.may_be_half(number),
        )
        if not reactions:
            return record
        looked_at = [each for each in its if each.id >= first][:NEWEST]
        before = looked_at[-1].id if len(looked_at) == NEWEST else 0
        known = self.named | (set(self.keys) if via is Via.conversation else set())
        listed = [each.id for each in published if each in looked_at and self.is_reaction(each)]
        unnamed = 0
        if reactions > explained + spanned:
            unnamed = next((each for each in listed if each not in known), before)
        unexplained = unnamed
        if via is Via.conversation:
            foreign = (each for each in published if not self.has_old_key(each))
            ids = {each.id for each in foreign if each.id not in self.named}
            unexplained = next((each for each in listed if each in ids), before)
        since = listed[PUBLISHES] if len(listed) > PUBLISHES else before
        return record._replace(
            unnamed=unnamed,
            newest=tuple(listed[:PUBLISHES]),
            cutoff=since,
            unexplained=unexplained,
        )


@pytest.mark.parametrize("seed", range(4))
async def test_they_are_those_that_all_events_tell(
    store: Store, database_url: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishers, "MOST_NEWEST", NEWEST)
    monkeypatch.setattr(publishers, "MOST_PUBLISHES", PUBLISHES)
    chance = random.Random(seed)
    trace = await store.traces.create("here", "channel")
    await _stored(store, trace.id, LinkedHistory(seed))

    async def vary(connection: Any) -> None:
        """Evidence of all kinds, quiet traffic, links of which nobody is sure, and keys alone."""
        for number in (await connection.execute(sa.select(tables.participants.c.number))).scalars():
            some = {name: chance.choice((0, 0, 1, 2)) for name in ("explained", "spanned")}
            # Halves; the first two are of one client.
            name = chance.choice((None, "a", "b")) if number > 2 else "a"
            published = 0 if number % 2 else tables.participants.c.seq
            own = {"user": "me", "place": None, "client": name, "published": published}
            values = {"reactions": 5 if number == 2 else chance.randrange(5), **some, **own}
            changed = tables.participants.update().values(values)
            await connection.execute(changed.where(tables.participants.c.number == number))
        its = tables.events.c
        await connection.execute(tables.events.update().values(quiet=True).where(its.id % 7 == 3))
        links = tables.edges.c
        unsure = tables.edges.update().values(kind=int(EdgeKind.candidate))
        await connection.execute(unsure.where(links.effect_id % 3 == 1))
        alone = sa.text("UPDATE keys SET roles = :found_by WHERE event_id % 5 < 2")
        await connection.execute(alone, {"found_by": IS_FOUND_BY})

    await store._database.write(vary)

    halves: set[int] = set()

    async def compare(connection: Any) -> int:
        roots = await Roots.of_trace(connection, store._database.dialect, trace.id)
        stored = tables.events.c
        of_trace = sa.select(tables.events).where(stored.trace_id == trace.id)
        events = (await connection.execute(of_trace.order_by(stored.id.desc()))).all()
        its = tables.participants.c
        of_trace = sa.select(tables.participants).where(its.trace_id == trace.id)
        who = (await connection.execute(of_trace)).all()
        links = tables.edges.c
        certain = sa.select(links.effect_id).where(links.kind != int(EdgeKind.candidate))
        edges = {*(await connection.execute(certain)).scalars()}
        rows = (await connection.execute(sa.text("SELECT event_id, key, roles FROM keys"))).all()
        keys: dict[int, set[bytes]] = {}
        for event_id, key, role in rows:
            if role & IS_CONVERSATION:
                keys.setdefault(event_id, set()).add(bytes(key))
        everything = Everything(events, edges, keys, who)
        found = set()
        for _ in range(12):
            some = chance.sample(events, chance.choice((1, 2, 5)))
            for via in (Via.links, Via.conversation):
                first = min(each.id for each in some)
                expected = {
                    each.number: everything.record(
                        (each.reactions, each.explained, each.spanned), each.number, first, via
                    )
                    for each in who
                    if each.number in {one.participant for one in some}
                }
                records = await publishers.publishers_of(roots, [*map(_taking_part, some)], via)
                assert records == expected
                found.update(records.values())
        assert True in {record.may_be_half for record in found}
        halves.update(filter(everything.may_be_half, everything.who))
        return len(found)

    assert await store._database.read(compare) > 5
    with DatabaseAddress.from_url(database_url).connect() as connection:
        rows = publisher_table(connection, trace.id, (0, MAX_ID), Via.links).to_pylist()
    assert {row["participant"] for row in rows if row["may_be_half"]} == halves
