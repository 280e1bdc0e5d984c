"""How long messages wait and are handled, over HTTP: over time, and what became slow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from app.stored.durations import DurationMap, SlowOwners
from app.tracker import Deliver, Policy, Publish, Record
from app.tracker.records import Channel
from app.watch.looking import MOST_LAG, DurationWatch
from bench.stores import record_all
from model.times import HOUR, MINUTE, iso_time, now
from tests.api.conftest import World
from tests.api.described import described

VHOST = "late"
SHOP = Channel("rabbit@one", "10.0.0.1:1 -> 10.0.0.9:5672", 1, "shop")
STOCK = Channel("rabbit@one", "10.0.0.2:1 -> 10.0.0.9:5672", 1, "stock")
MINUTES, SLOW, EACH = 90, 15, 3  # minutes in all, slow ones, messages a minute
QUICKLY, SLOWLY = 200_000, 2_000_000  # µs


def begin_of(at: int) -> int:
    return at // MINUTE * MINUTE - MINUTES * MINUTE


def messages(at: int) -> list[tuple[int, Record]]:
    """What happened until now: lately what is sent is handed over late."""
    records: list[tuple[int, Record]] = []
    for number in range(MINUTES * EACH):
        sent = begin_of(at) + number * MINUTE // EACH
        took = SLOWLY if number >= (MINUTES - SLOW) * EACH else QUICKLY
        body = b"%d" % number
        records.append((sent, Publish(SHOP, "", ("stock",), ("stock",), {}, body)))
        records.append((sent + took, Deliver(STOCK, "", ("stock",), "stock", False, {}, body)))
    return records


async def counted(world: World, lag: int = 0) -> bool:
    here = SimpleNamespace(snapshots=lambda: {1: SimpleNamespace(lag=lag)})
    watch = DurationWatch(world.store.durations, here)  # type: ignore[arg-type]
    return await watch.look()


async def answer(client: httpx2.AsyncClient, path: str, kind: Any, **asked: Any) -> SimpleNamespace:
    given = await client.get(path, params=asked)
    assert given.status_code == 200, given.text
    return described(given, kind)


@pytest.fixture
def world(world: World) -> World:
    world.broker.add("admin", "secret", "administrator", "/", VHOST)
    return world


async def test_what_became_slow_is_told_and_drawn(world: World, client: httpx2.AsyncClient) -> None:
    at = now()
    begin = begin_of(at)
    await record_all(world.store, VHOST, messages(at), Policy.channel, None)
    asked = {"vhost": VHOST, "queue": "stock"}
    assert (await answer(client, "/itc_db/slow", SlowOwners)).items == []
    assert not await counted(world, MOST_LAG + 1)  # capture comes first
    assert (await answer(client, "/itc_db/durations", DurationMap, **asked)).handed_over == 0
    await counted(world)
    slow = await answer(client, "/itc_db/slow", SlowOwners)
    since = iso_time(begin + (MINUTES - SLOW) * MINUTE)
    told = {(e.queue, e.service, e.measured, e.change.since): e.change for e in slow.items}
    assert told.keys() == {
        ("stock", None, "waiting", since),
        (None, "stock", "waiting", since),
    }
    for change in told.values():
        assert change.before == pytest.approx(0.2, rel=0.06)
        assert change.after == pytest.approx(2, rel=0.06)
        assert change.chance <= slow.level == 0.001
    found = await answer(client, "/itc_db/durations", DurationMap, **asked, since=iso_time(begin))
    assert (found.handed_over, found.as_of) == (MINUTES * EACH, None)
    assert (found.queues, found.services) == (["stock"], ["stock"])
    waiting = found.waiting
    assert sum(each.count for each in waiting.spans) == MINUTES * EACH
    assert waiting.change.since == since
    assert [each.count for each in waiting.spans[:3]] == [EACH, EACH, EACH]
    for each in waiting.spans:
        [row] = [place for place, count in enumerate(each.counts) if count]
        assert waiting.limits[row] * 0.7 <= each.median <= waiting.limits[row]
    assert found.handling.spans == []
    assert found.handling.usual.median is None


async def test_longer_periods_come_by_the_hour_and_are_compared_with_earlier_ones(
    world: World, client: httpx2.AsyncClient
) -> None:
    at = now()
    await record_all(world.store, VHOST, messages(at), Policy.channel, None)
    await counted(world)
    asked = {"vhost": VHOST, "service": "stock", "until": iso_time(at)}
    week = iso_time(at - 7 * 24 * 60 * MINUTE)
    found = await answer(client, "/itc_db/durations", DurationMap, **asked, since=week)
    assert found.seconds >= 3_600
    assert sum(each.count for each in found.waiting.spans) == MINUTES * EACH
    hour = iso_time(at - 60 * MINUTE)
    for baseline, count in (("hour", 30 * EACH), ("day", 0), ("week", 0)):
        found = await answer(
            client, "/itc_db/durations", DurationMap, **asked, since=hour, baseline=baseline
        )
        assert found.waiting.baseline.count == pytest.approx(count, abs=2 * EACH)
        assert found.waiting.comparable == (baseline == "hour")
        assert (found.seconds, found.handling.comparable) == (60, False)
    empty = await answer(client, "/itc_db/durations", DurationMap, vhost=VHOST)
    assert (empty.queue, empty.service, empty.handed_over) == (None, None, 0)
    assert empty.queues == ["stock"]


async def test_nothing_is_looked_up_beyond_what_is_kept(
    world: World, client: httpx2.AsyncClient
) -> None:
    at = now()
    await record_all(world.store, VHOST, messages(at), Policy.channel, None)
    await counted(world)
    of = {"vhost": VHOST, "queue": "stock", "baseline": "week"}
    first, last = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"
    found = await answer(client, "/itc_db/durations", DurationMap, **of, since=first, until=last)
    assert found.handed_over == MINUTES * EACH
    assert iso_time(at - 36 * 24 * HOUR) < found.since < iso_time(at - 34 * 24 * HOUR)
    assert iso_time(at) < found.until < iso_time(at + 12 * HOUR)
    for asked in ({"until": first}, {"since": last}, {"since": last, "until": first}):
        empty = await answer(client, "/itc_db/durations", DurationMap, **of, **asked)
        assert empty.handed_over == 0


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"vhost": "/", "baseline": "year"}, 400),
        ({"queue": "a"}, 400),
        ({"vhost": "nobody", "queue": "a"}, 404),
    ],
)
async def test_what_cannot_be_told_is_refused(
    client: httpx2.AsyncClient, asked: dict[str, str], status: int
) -> None:
    assert (await client.get("/itc_db/durations", params=asked)).status_code == status


async def test_what_is_usual_is_what_was_before_it_became_slow(
    world: World, client: httpx2.AsyncClient
) -> None:
    at = now()
    await record_all(world.store, VHOST, messages(at), Policy.channel, None)
    await counted(world)
    asked = {"vhost": VHOST, "at": iso_time(at), "queues": ["stock", "none"], "services": "stock"}
    given = await client.get("/itc_db/usual", params=asked)
    assert given.status_code == 200, given.text
    stock, none, service = given.json()
    for each in (stock, service):
        waiting = each["waiting"]
        assert waiting["slower"]["since"] == iso_time(begin_of(at) + (MINUTES - SLOW) * MINUTE)
        assert waiting["usual"]["median"] == waiting["slower"]["before"]
        assert waiting["usual"]["p90"] < waiting["slower"]["after"]
        assert waiting["usual"]["count"] == pytest.approx((MINUTES - SLOW) * EACH, abs=EACH)
    assert (stock["queue"], none["queue"], service["service"]) == ("stock", "none", "stock")
    assert none["waiting"] == {
        "usual": {"count": 0, "median": None, "p90": None, "spans": 0},
        "slower": None,
    }
    many = await client.get("/itc_db/usual", params=asked | {"queues": ["q"] * 31})
    assert many.status_code == 400
