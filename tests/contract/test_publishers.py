"""The publishes of those who took part in a conversation, against all events of the trace."""

from __future__ import annotations

import random
from typing import Any

import pytest
import sqlalchemy as sa

from app.store import Store
from app.store.conversations import publishers
from app.store.conversations.roots import Roots
from app.store.database import tables
from model.conversations import PublisherRecord
from model.happened import ConversationEvent
from model.words import IS_CONVERSATION, IS_FOUND_BY, EdgeKind, EventType, Match, Via
from tests.contract.links import LinkedHistory
from tests.contract.test_links import _stored

NEWEST, PUBLISHES = 9, 3  # of each participant: looked through, listed


def _taking_part(event: Any) -> ConversationEvent:
    return ConversationEvent(
        *(event.id, EventType(event.type), Match.none, None, event.participant, "", 0, "", ()),
        *(None, (), False, ""),
    )


def _by_all_events(
    evidence: tuple[int, int, int], its: list[Any], first: int, named: set[int]
) -> PublisherRecord:
    """The record of a participant with these events, newest first, by looking at each."""
    reactions, explained, spanned = evidence
    reactions = max(reactions, explained + spanned)
    record = PublisherRecord(0, reactions, explained, spanned)
    if not reactions:
        return record
    looked_at = [each for each in its if each.id >= first][:NEWEST]
    before = looked_at[-1].id if len(looked_at) == NEWEST else 0
    published = [
        each.id for each in looked_at if each.type == EventType.published and not each.quiet
    ]
    unnamed = 0
    if reactions > explained + spanned:
        unnamed = next((each for each in published if each not in named), before)
    since = published[PUBLISHES] if len(published) > PUBLISHES else before
    return record._replace(unnamed=unnamed, newest=tuple(published[:PUBLISHES]), cutoff=since)


@pytest.mark.parametrize("seed", range(4))
async def test_they_are_those_that_all_events_tell(
    store: Store, seed: int, monkeypatch: pytest.MonkeyPatch
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
            changed = tables.participants.update().values(reactions=chance.randrange(5), **some)
            await connection.execute(changed.where(tables.participants.c.number == number))
        its = tables.events.c
        await connection.execute(tables.events.update().values(quiet=True).where(its.id % 7 == 3))
        links = tables.edges.c
        unsure = tables.edges.update().values(kind=int(EdgeKind.candidate))
        await connection.execute(unsure.where(links.effect_id % 3 == 1))
        alone = sa.text("UPDATE keys SET roles = :found_by WHERE event_id % 5 < 2")
        await connection.execute(alone, {"found_by": IS_FOUND_BY})

    await store._database.write(vary)

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
        roles = (await connection.execute(sa.text("SELECT event_id, roles FROM keys"))).all()
        keyed = {event_id for event_id, role in roles if role & IS_CONVERSATION}
        found = set()
        for _ in range(12):
            some = chance.sample(events, chance.choice((1, 2, 5)))
            for via in (Via.links, Via.conversation):
                named = edges | (keyed if via is Via.conversation else set())
                first = min(each.id for each in some)
                expected = {
                    each.number: _by_all_events(
                        (each.reactions, each.explained, each.spanned),
                        [one for one in events if one.participant == each.number],
                        first,
                        named,
                    )
                    for each in who
                    if each.number in {one.participant for one in some}
                }
                records = await publishers.publishers_of(roots, [*map(_taking_part, some)], via)
                assert records == expected
                found.update(records.values())
        return len(found)

    assert await store._database.read(compare) > 5
