"""What ties messages together is found without Spark too, and no decoy is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from app.settings import Settings
from app.store import Store
from app.stored.proposals import TraceCoverage, proposals_in
from app.tracker import Deliver, Publish, Record
from app.tracker.links import Rules
from app.tracker.records import Channel
from app.watch.looking import MOST_LAG, Looking
from app.watch.opening import open_watches
from bench.applications import KEYS, NO_KEY, Application, Message
from bench.decoys import decoys_in, looked_at
from bench.stores import VHOST, fill
from model.described import json_of
from spark_jobs.reports import correlations
from spark_jobs.reports.look import look
from spark_jobs.spark.database import DatabaseAddress
from tests.spark.histories import History, Link
from tests.spark.test_correlations import ORDERS, correlated, stored

MOST = 10**9
OUTSIDE = Channel("rabbit@one", "outside:1 -> b", 1, "outside")
DECOYS = range(100, 106)  # others than those of `bench.decoys`


@pytest.mark.parametrize("name", ["causation", "order-id", NO_KEY])
async def test_without_spark_the_same_is_found(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    url = await stored(tmp_path, Application(name, ORDERS, is_split=name == "order-id"), Rules(()))
    by_spark = correlated(spark, url, tmp_path)
    alone = json_of(look(DatabaseAddress.from_url(url), VHOST, 50_000))
    for each in ("proposals", "places", "programs", "reactions", "looked_at"):
        assert alone[each] == by_spark[each], each
    assert len(alone["proposals"]) == (name in KEYS)


async def test_only_the_newest_events_are_looked_at(tmp_path: Path) -> None:
    url = await stored(tmp_path, Application("causation", ORDERS), Rules(()))
    found = look(DatabaseAddress.from_url(url), VHOST, 1_000)
    assert (found.looked_at, found.events) == (1_000, 1_000)
    assert [each.kind for each in found.proposals] == ["parent"]
    assert min(each.publish for each in found.proposals[0].examples) > 10 * ORDERS - 1_000


async def test_whose_messages_carry_a_proposal_is_said(tmp_path: Path) -> None:
    """One user links each of its messages, another one of them, and a third none."""

    def records() -> Iterator[Record]:
        for number in range(120):
            for user in ("flood", "shop", "stock"):
                place = Channel("rabbit@one", f"{user}:1 -> b", 1, user)
                said = {"message_id": f"{user}-{number:06}-id"}
                yield Publish(OUTSIDE, "", (user,), (user,), said, b"")
                yield Deliver(place, "", (user,), user, False, said, b"")
                is_linked = user == "flood" or (user == "shop" and number == 60)
                headers = {"because": said["message_id"]} if is_linked else {}
                yield Publish(place, "", ("out",), ("out",), {"headers": headers}, b"")

    url = f"sqlite+aiosqlite:///{tmp_path}/events.db"
    await fill(url, records())
    report = json_of(look(DatabaseAddress.from_url(url), VHOST, 50_000))
    [found] = report["proposals"]
    by_user = {each["user"]: (each["share"], each["support"]) for each in found["users"]}
    assert by_user == {"flood": (0.992, 1.0), "shop": (0.008, 0.008), "stock": (0.0, 0.0)}
    proposal = proposals_in(report)[0]
    assert proposal.alone == "flood"


@pytest.mark.parametrize("number", DECOYS)
async def test_no_decoy_is_proposed(tmp_path: Path, number: int) -> None:
    application, found = await looked_at(number, tmp_path)
    assert decoys_in(application, found) == []
    assert len(found) == (application.key in KEYS)


class HalfKeyed(Application):
    """An application whose key half of its messages do not have."""

    def _write(self, message: Message) -> None:
        super()._write(message)
        if message.parents and len(self.messages) % 4 < 2:
            body = json.loads(message.body)
            message.body = json.dumps({**body, "order": None}).encode()


@pytest.mark.parametrize(("at_once", "is_likely"), [(0.5, True), (5, False)])
async def test_what_was_in_hand_alone_is_proposed_where_keys_show_that_it_is_right(
    tmp_path: Path, at_once: float, is_likely: bool
) -> None:
    application = HalfKeyed("order-id", 300, at_once=at_once)
    url = await stored(tmp_path, application, Rules(()))
    report = json_of(look(DatabaseAddress.from_url(url), VHOST, 50_000))
    causes = {
        each.event: {parent.event for parent in each.parents} for each in application.messages
    }
    store = await Store.open(url)
    try:
        assert len(report["in_hand"]) == 3
        for each in report["in_hand"]:
            whose = [each["participant"]["number"]]
            found = await store.copies.alone_in_hand(1, whose, 1, MOST)
            right = sum(one.message in causes[one.publish] for one in found) / len(found)
            assert each["linked"] < 0.8 * len(found)
            assert abs(right - each["agreement"]) < 0.1
            assert (right > 0.95) is is_likely
    finally:
        await store.close()
    kinds = [each.kind for each in proposals_in(report)]
    assert kinds == ["conversation", "in_hand"][: 1 + is_likely]


def test_what_is_in_hand_stays_so_from_one_batch_of_rows_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History()
    front, worker, mail = (history.join() for _ in range(3))
    for _ in range(30):
        handed = history.receive(worker, history.publish(front), settlement=None)
        history.receive(mail, history.publish(worker, links=[Link(handed)]))
    database = DatabaseAddress.from_url(history.write(tmp_path / "a.db"))
    found = []
    for rows in (65_536, 2):
        monkeypatch.setattr(correlations, "BATCH_ROWS", rows)
        found.append(json_of(look(database, "/", 50_000))["in_hand"])
    assert found[0] == found[1]
    assert found[0][0]["publishes"] == 30


class Idle:
    """A trace that runs here; its capture lags as ``lags`` says, one for each time it is asked."""

    def __init__(self, *lags: int) -> None:
        self.lags = [*lags]

    def snapshots(self) -> dict[int, Any]:
        lag = self.lags.pop(0) if len(self.lags) > 1 else self.lags[0]
        return {1: SimpleNamespace(lag=lag)}


async def coverage(store: Store) -> TraceCoverage:
    [seen] = await store.proposals.coverage([1])
    return seen


async def test_a_trace_is_looked_at_once_and_again_when_twice_as_much_has_come(
    tmp_path: Path,
) -> None:
    """By the process itself."""
    url = await stored(tmp_path, Application("causation", ORDERS), Rules(()))
    store = await Store.open(url)
    traces: Any = Idle(0)
    looking = Looking(store.proposals, traces, url)
    try:
        assert (await coverage(store)).is_due
        assert await looking.look()
        seen = await coverage(store)
        assert [each.says for each in seen.found] == ["header x-because names message_id"]
        assert seen.found[0].certainty == "unambiguous, no coincidences"
        assert (seen.looked_publishes, seen.is_due) == (seen.publishes, False)
        assert not await looking.look()
        await store.proposals.put(
            TraceCoverage(1, VHOST, seen.publishes // 2, 0, 0, seen.programs), seen.found
        )
        assert (await coverage(store)).is_due
    finally:
        await store.close()


async def test_what_lags_is_left_alone_and_what_fails_keeps_what_was_found(tmp_path: Path) -> None:
    url = await stored(tmp_path, Application("causation", ORDERS), Rules(()))
    # Here, while the store is not open: the driver has an SQLite of its own.
    before = proposals_in(json_of(look(DatabaseAddress.from_url(url), VHOST, 2_000)))
    store = await Store.open(url)
    behind: Any = Idle(MOST_LAG + 1)
    begins_to: Any = Idle(0, MOST_LAG + 1)
    idle: Any = Idle(0)
    never_ends = ("sleep", "1000")
    try:
        assert not await Looking(store.proposals, behind, url, ("false",)).look()
        assert not await Looking(store.proposals, begins_to, url, never_ends).look()
        assert (await coverage(store)).looked_at is None
        await store.proposals.put(TraceCoverage(1, VHOST, 1, 0, 0, 0), before)
        assert await Looking(store.proposals, idle, url, ("false",)).look()
        seen = await coverage(store)
        assert (seen.found, seen.is_due) == (before, False)
    finally:
        await store.close()


async def test_it_is_off_by_a_setting(tmp_path: Path) -> None:
    used = ("assertions", "watching", "conversations", "events", "gaps", "doubts", "copies")
    store: Any = SimpleNamespace(**dict.fromkeys((*used, "proposals", "durations")))
    traces: Any = Idle(MOST_LAG + 1)
    for is_on in (False, True):
        settings = Settings(_env_file=None, data_dir=tmp_path, proposals=is_on)
        async with AsyncExitStack() as stack:
            open_watches(stack, settings, store, traces)
            names = [task.get_name() for task in asyncio.all_tasks()]
            assert names.count(Looking.task_name) == is_on
