"""Periods of time over HTTP: events counted, and how far the record is to be relied on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from app.api.certainty import ListCertainty
from app.api.routes.periods import PeriodCertainty
from app.stored.reading import Histogram, TracePeriod
from model.sound import Certainty
from model.times import iso_time
from tests.api.conftest import World
from tests.api.described import described
from tests.api.story import STRAY, UNSOUND

ONE_TRACE = "/itc_db/%2F/undefined/undefined/undefined"
HOUR = {"since": "2026-01-02T03:00:00Z", "until": "2026-01-02T04:00:00Z"}


async def histogram(client: httpx2.AsyncClient, **parameters: Any) -> SimpleNamespace:
    answer = await client.get("/itc_db/histogram", params=parameters)
    assert answer.status_code == 200, answer.text
    return described(answer, (Histogram, ListCertainty))


async def certainty(client: httpx2.AsyncClient, **parameters: Any) -> SimpleNamespace:
    answer = await client.get("/itc_db/certainty", params={"vhost": "/", **parameters})
    assert answer.status_code == 200, answer.text
    return described(answer, (PeriodCertainty, TracePeriod, Certainty))


async def test_events_are_counted_over_time(client: httpx2.AsyncClient) -> None:
    found = await histogram(client, buckets=7)
    assert (found.since, found.seconds) == ("2026-01-02T03:04:05.000000Z", pytest.approx(0.857143))
    assert [(each.published, each.received) for each in found.buckets] == [
        (1, 0), (0, 1), (1, 0), (1, 0), (0, 1), (1, 0), (0, 1),
    ]  # fmt: skip
    assert found.buckets[-1].unmatched == 1
    assert (found.events, found.counted_since) == (7, None)


async def test_filters_and_times_narrow_what_is_counted(client: httpx2.AsyncClient) -> None:
    found = await histogram(client, **HOUR, queue="audit", buckets=60)
    assert (found.seconds, len(found.buckets)) == (60.0, 60)
    assert [(n, each.events) for n, each in enumerate(found.buckets) if each.events] == [(4, 2)]
    assert (await client.get("/itc_db/histogram?vhost=nobody")).status_code == 404


@pytest.mark.parametrize("wrong", [{"buckets": "501"}, {"buckets": "0"}, {"quueue": "audit"}])
async def test_what_cannot_be_counted_is_refused(
    client: httpx2.AsyncClient, wrong: dict[str, str]
) -> None:
    assert (await client.get("/itc_db/histogram", params=wrong)).status_code == 400


async def test_a_period_says_whether_its_record_is_whole(
    world: World, client: httpx2.AsyncClient
) -> None:
    assert (await client.put(ONE_TRACE)).status_code == 201
    # What is in quarantine came before the first event.
    assert (await certainty(client, **HOUR)).gaps[0].quarantined == 1
    later = {**HOUR, "since": "2026-01-02T03:04:05.5Z"}
    found = await certainty(client, **later)
    assert (found.complete, found.sound, found.state) == (True, True, "running")
    assert (found.first_event, found.last_event, found.gap_count) == (2, STRAY, 0)
    trace = await world.store.traces.find("/")
    assert trace is not None
    start = 1_767_323_045_000_000
    gap = await world.store.gaps.open(
        trace.id, after_event_id=3, since=start + 2_500_000, reason="tracing was off"
    )
    await world.store.gaps.close(gap, before_event_id=4, until=start + 2_700_000)
    found = await certainty(client, **later)
    assert (found.complete, found.gap_count) == (False, 1)
    assert found.gaps[0].reason == "tracing was off"
    before = await certainty(client, **{**later, "until": "2026-01-02T03:04:07Z"})
    assert (before.complete, before.last_event) == (True, 2)
    await world.tell(*UNSOUND)
    assert not (await certainty(client)).sound


async def test_a_period_without_events_has_no_ends(client: httpx2.AsyncClient) -> None:
    await client.put(ONE_TRACE)
    found = await certainty(client, until="2020-01-01")
    assert (found.first_event, found.last_event, found.complete) == (None, None, True)
    assert found.known_since is not None


async def test_where_events_were_removed_it_is_known_from_the_oldest_one(
    world: World, client: httpx2.AsyncClient
) -> None:
    await client.put(ONE_TRACE)
    trace = await world.store.traces.find("/")
    assert trace is not None
    assert (await certainty(client)).known_since == iso_time(trace.created_at)
    await world.store.batches.database.write(
        lambda connection: connection.exec_driver_sql(
            "UPDATE traces SET pruned = true, created_at = 7"
        )
    )
    assert (await certainty(client)).known_since == "2026-01-02T03:04:05.000000Z"


async def test_only_of_what_one_may_see(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/itc_db/certainty", params={"vhost": "secret"})).status_code == 404
    assert (await client.get("/itc_db/certainty")).status_code == 400
    wrong = {"vhost": "/", "since": "2026-01-02", "until": "2026-01-01"}
    assert (await client.get("/itc_db/certainty", params=wrong)).status_code == 400
