"""What the API says of an event and what an export says of it, from the same store."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from sqlalchemy import text

from app.api.described import encode_json
from app.api.events import event_view
from app.api.signin.permissions import EVERYTHING_READ
from app.store import Store
from app.store.database.engine import dialect_of
from app.stored.reading import EventFilter
from model.event import EVENT_FIELDS, NOTHING_LARGE
from model.words import Via
from spark_jobs.chains.in_memory import chain_of
from spark_jobs.chains.walk import Ways
from spark_jobs.formats.fields import EVENT_COLUMNS, event_fields, json_texts
from spark_jobs.spark.columns import restore, select
from spark_jobs.spark.database import DatabaseAddress
from statements import Question, gaps_sql
from tests.contract.history import History
from tests.contract.links import LinkedHistory


def exported(database_url: str) -> list[dict[str, Any]]:
    """Every event as an export's line says it."""
    database = DatabaseAddress.from_url(database_url)
    lines: list[dict[str, Any]] = []
    for raw in database.query(f"{select(EVENT_COLUMNS, database.dialect)} ORDER BY e.id"):
        fields = event_fields(restore(raw, EVENT_COLUMNS))
        texts = [json_texts(name, values) for name, values in fields.items()]
        for row in zip(*texts, strict=True):
            pairs = zip(fields, map(json.loads, row), strict=True)
            lines.append(dict(pairs))
    return lines


@pytest.mark.parametrize("kept", [0, 3, 65_536])
async def test_an_export_says_of_every_event_what_the_api_says(
    database_url: str, kept: int
) -> None:
    """With 3 bytes kept, "grüße" is cut in the middle of a character."""
    store = await Store.open(database_url, payload_max_bytes=kept)
    try:
        trace = await store.traces.create("/", "channel")
        await store.batches.append(trace.id, History(seed=8).batch(150))
        rows = (await store.events.find(EventFilter(), after=0, limit=1_000)).items
    finally:
        await store.close()
    shown = [json.loads(encode_json(event_view(row, EVERYTHING_READ))) for row in rows]
    assert len(shown) == 150
    assert list(shown[0]) == list(EVENT_FIELDS)
    lines = exported(database_url)
    assert {link["rule"] for line in lines for link in line.pop("links")} <= {None}
    assert lines == shown
    if kept == 3:
        assert any(each["payload"] == "gr" for each in shown)


@pytest.mark.parametrize(
    "via", [Via.links, pytest.param(Via.conversation, marks=pytest.mark.long(6))]
)
async def test_a_chain_is_what_is_an_effect_of_the_one_event_and_a_cause_of_the_other(
    store: Store, trace_id: int, database_url: str, via: Via
) -> None:
    history = LinkedHistory(seed=5, channels=3)
    for _ in range(4):
        await store.batches.append(trace_id, history.batch(50))
    ids = [row.id for row in (await store.events.find(EventFilter(), after=0, limit=1_000)).items]
    dice, sizes = random.Random(5), []
    with DatabaseAddress.from_url(database_url).connect() as connection:
        for _ in range(25):
            a = dice.choice(ids[:60])
            effects = await store.causality.walk(a, 1, 1_000, NOTHING_LARGE, via)
            near = [row.id for row in effects.items]
            b = dice.choice(near if near and dice.random() < 0.8 else ids[60:])
            causes = await store.causality.walk(b, -1, 1_000, NOTHING_LARGE, via)
            assert not effects.truncated
            between = {row.id for row in effects.items} & {row.id for row in causes.items}
            reached = b in {row.id for row in effects.items}
            span = Ways(connection, trace_id, (a, b), via).span()
            found = set() if span is None else set(span.ids[chain_of(span, via)].tolist())
            assert found == (between | {a, b} if reached else set())
            sizes.append(len(found))
    assert max(sizes) > 4


async def test_an_export_and_the_store_know_the_same_links(
    store: Store, trace_id: int, database_url: str
) -> None:
    history = LinkedHistory(seed=6, channels=3)
    await store.batches.append(trace_id, history.batch(60))
    links = {line["id"]: line["links"] for line in exported(database_url)}
    assert links == {
        event.reference.id: sorted(
            (
                {"cause": edge.cause.id, "rule": edge.rule, "kind": edge.kind.name}
                for edge in set(event.edges)
            ),
            key=lambda each: (each["cause"], each["rule"]),
        )
        for event in history.linked
    }
    assert sum(map(len, links.values())) > 20


async def test_the_rule_of_gaps_is_the_same_in_the_database(
    store: Store, trace_id: int, database_url: str
) -> None:
    for after in range(4):
        for before in (None, *range(after, 5)):
            number = await store.gaps.open(trace_id, after_event_id=after, since=0, reason="lost")
            if before is not None:
                await store.gaps.close(number, before_event_id=before, until=1)
    gaps = await store.gaps.newest(trace_id)
    engine = dialect_of(database_url).reader()
    async with engine.connect() as connection:
        for a in range(6):
            for b in range(6):
                query = text(
                    f"SELECT id FROM gaps WHERE {gaps_sql(Question.between(trace_id, a, b))}"
                )
                found = {row[0] for row in await connection.execute(query)}
                assert found == {gap.id for gap in gaps if gap.is_spanned(a, b)}
    await engine.dispose()
