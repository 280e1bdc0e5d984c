"""What the API says of an event and what an export says of it, from the same store."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import text

from app.api.views import encode_json, event_view
from app.store import Store
from app.store.engine import dialect_of
from app.stored.filters import EventFilter
from model.event import SHOWN
from model.gaps import spanned_sql
from spark_jobs.columns import restore, select
from spark_jobs.database import Database
from spark_jobs.fields import EVENT_COLUMNS, event_fields, json_texts
from tests.contract.history import History


def exported(database_url: str) -> list[dict[str, Any]]:
    """Every event as an export's line says it."""
    database = Database.from_url(database_url)
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
        rows = await store.events.list(EventFilter(), after=0, limit=1_000)
    finally:
        await store.close()
    shown = [json.loads(encode_json(event_view(row))) for row in rows]
    assert len(shown) == 150
    assert list(shown[0]) == list(SHOWN)
    assert exported(database_url) == shown
    if kept == 3:
        assert any(each["payload"] == "gr" for each in shown)


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
                query = text(f"SELECT id FROM gaps WHERE {spanned_sql(a, b)}")
                found = {row[0] for row in await connection.execute(query)}
                assert found == {gap.id for gap in gaps if gap.spanned_by(a, b)}
    await engine.dispose()
