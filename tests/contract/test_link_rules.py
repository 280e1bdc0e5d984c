"""Rules of links: those that are set for a trace, and those that its events are read by."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from sqlalchemy import Row, Select, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import ConflictError, NotFoundError
from app.restamp import replay
from app.restamp.replay import Replay
from app.store import Store
from app.store.database import tables
from app.stored.capture import ParticipantSettings as RestampRules
from app.stored.capture import RestampOutcome
from app.traces.pipeline import PipelineSettings
from app.tracker import Bounds, Policy, Tracker
from app.tracker.events import StampedEvent
from app.tracker.links import BUILT_IN, Origin, Rule, TraceRule, of_all
from app.tracker.links.names import KEY_BYTES
from app.tracker.links.rules import MOST_RULES
from model.words import IS_FOUND_BY, WITHOUT_RULE
from tests.contract.killing import kill_restamp
from tests.contract.naming import BOTH, BY_BODY, BY_HEADER, NamingHistory, rules_of


def rule(name: str, header: str = "a") -> Rule:
    return Rule.from_json(
        {"name": name, "kind": "conversation", "child": f"$message.header#/{header}"}
    )


async def own(store: Store, trace_id: int) -> list[str]:
    return [each.name for each in await store.link_rules.list_own(trace_id)]


async def set_all(
    store: Store, trace_id: int, rules: Iterable[Rule], of_all: Sequence[TraceRule] = ()
) -> None:
    for each in rules:
        await store.link_rules.put(trace_id, each, of_all)


async def held(store: Store, trace_id: int) -> list[tuple[TraceRule, int]]:
    found = await store.link_rules.list_effective(trace_id)
    return [(each.rule, each.from_event_id) for each in found]


async def test_own_rules_stand_in_the_order_in_which_they_were_set(
    store: Store, trace_id: int
) -> None:
    other = (await store.traces.create("other", "channel")).id
    assert [await store.link_rules.put(trace_id, rule(name), ()) for name in "cab"] == [True] * 3
    assert await store.link_rules.put(trace_id, rule("a", "changed"), ()) is False
    assert await store.link_rules.list_own(trace_id) == [rule("c"), rule("a", "changed"), rule("b")]
    await store.link_rules.remove(trace_id, "c")
    await store.link_rules.put(trace_id, rule("c"), ())
    assert await own(store, trace_id) == ["a", "b", "c"]
    assert await own(store, other) == []
    with pytest.raises(NotFoundError):
        await store.link_rules.remove(trace_id, "z")
    with pytest.raises(NotFoundError):
        await store.link_rules.put(99, rule("a"), ())


async def test_rules_that_cannot_be_leave_what_was_set(store: Store, trace_id: int) -> None:
    base = of_all(BUILT_IN)
    room = MOST_RULES - len(base)
    await set_all(store, trace_id, (rule(f"r{n}") for n in range(room)), base)
    with pytest.raises(ConflictError, match=f"at most {room} of its own"):
        await store.link_rules.put(trace_id, rule("one-more"), base)
    await store.link_rules.put(trace_id, rule(BUILT_IN[0].name), base)  # which takes no room
    assert len(await own(store, trace_id)) == room + 1


async def test_who_sets_rules_at_the_same_time_stays_within_the_bound(
    store: Store, trace_id: int
) -> None:
    base = of_all(rule(f"base{number}") for number in range(MOST_RULES - 3))
    puts = [store.link_rules.put(trace_id, rule(f"r{number}"), base) for number in range(8)]
    ended = await asyncio.gather(*puts, return_exceptions=True)
    assert sum(each is True for each in ended) == len(await own(store, trace_id)) == 3


async def test_rules_hold_from_the_first_event_that_was_read_by_them(
    store: Store, trace_id: int
) -> None:
    history = NamingHistory(seed=1)
    first = await store.batches.append(trace_id, history.batch(10, rules=[BY_HEADER]))
    assert await held(store, trace_id) == [(BY_HEADER, first[0])]
    await store.batches.append(trace_id, history.batch(10))
    both = await store.batches.append(trace_id, history.batch(10, rules=BOTH))
    assert await held(store, trace_id) == [(BY_HEADER, first[0]), (BY_BODY, both[0])]
    as_own = TraceRule(BY_HEADER.rule, Origin.own)
    await store.batches.append(trace_id, history.batch(0, rules=[BY_BODY, as_own]))
    assert await held(store, trace_id) == [(BY_BODY, both[0]), (as_own, first[0])]
    await store.batches.append(trace_id, history.batch(0, rules=[BY_BODY]))
    await store.batches.append(trace_id, history.batch(0, rules=BOTH))
    assert await held(store, trace_id) == [(BY_HEADER, both[-1] + 1), (BY_BODY, both[0])]


async def test_a_batch_that_is_appended_again_holds_its_rules_once(
    store: Store, trace_id: int
) -> None:
    batch = NamingHistory(seed=1).batch(10, rules=BOTH)
    first = await store.batches.append(trace_id, batch)
    assert await store.batches.append(trace_id, batch) == first
    assert await held(store, trace_id) == [(BY_HEADER, first[0]), (BY_BODY, first[0])]


async def test_a_stored_rule_of_another_version_does_not_hold(store: Store, trace_id: int) -> None:
    await set_all(store, trace_id, [rule("a"), rule("b")])
    await store.link_rules.database.write(
        lambda connection: connection.execute(
            text("UPDATE own_link_rules SET rule = '{\"kind\": \"cousin\"}' WHERE name = 'a'")
        )
    )
    assert await own(store, trace_id) == ["b"]


@pytest.mark.parametrize("is_stored", [True, False])
async def test_what_is_restored_around_a_change_stamps_as_the_first_would_have(
    store: Store, trace_id: int, is_stored: bool
) -> None:
    history = NamingHistory(seed=3)
    for _ in range(3):
        await store.batches.append(trace_id, history.batch(30))
    await store.batches.append(trace_id, history.batch(30, rules=[BY_HEADER]))
    await store.link_rules.put(trace_id, BY_BODY.rule, ())
    lost: list[StampedEvent] = []
    if is_stored:
        await store.batches.append(trace_id, history.batch(30, rules=BOTH))
    restored = await store.checkpoints.restore(trace_id, Bounds().handovers)
    assert restored.link_rules == (BOTH if is_stored else (BY_HEADER,))
    assert restored.own_rules == (BY_BODY.rule,)
    second = Tracker(Policy.channel, Bounds(), restored, rules=rules_of(restored.link_rules))
    if not is_stored:  # the batch that was under way when it was killed comes again
        lost = history.batch(30, rules=BOTH).events
        second.take_up(rules_of(BOTH))
    again = [event for each in lost for event in second.apply(each.record, each.recorded_at)]
    assert _said(again) == _said(lost)
    for _ in range(200):
        record = history.record()
        history.now += 1
        expected = history.tracker.apply(record, history.now)
        assert [(e.stamp, e.names) for e in second.apply(record, history.now)] == [
            (e.stamp, e.names) for e in expected
        ]
    assert second.totals().links == history.tracker.totals().links
    assert second.checkpoint().state == history.tracker.checkpoint().state


def _said(events: list[StampedEvent]) -> list[object]:
    return [(e.stamp, e.names, [(edge.rule, edge.way) for edge in e.edges]) for e in events]


async def asked(store: Store, query: Select[Any]) -> list[Row[Any]]:
    async def read(connection: AsyncConnection) -> list[Row[Any]]:
        return list(await connection.execute(query))

    return await store.link_rules.database.read(read)


async def links(store: Store, trace_id: int) -> dict[str, list[tuple[Any, ...]]]:
    """All that is stored of what a trace's messages say, beside their ids.

    Deliveries with what they are found by through their publishes.
    """
    its, keys, edges = tables.events.c, tables.keys.c, tables.edges.c
    own = select(keys.event_id, keys.key, keys.roles).where(keys.trace_id == trace_id)
    of_publishes = (
        select(its.id, keys.key, keys.roles)
        .join_from(tables.events, tables.keys, keys.event_id == its.cause_id)
        .where(its.trace_id == trace_id, keys.trace_id == trace_id, keys.roles == IS_FOUND_BY)
    )
    queries = {
        "ids": select(its.id, its.ids).where(its.trace_id == trace_id).order_by(its.id),
        "keys": own.union(of_publishes).order_by("event_id", "key"),
        "edges": select(edges.effect_id, edges.cause_id, edges.rule, edges.kind)
        .where(edges.trace_id == trace_id, edges.rule.not_in(WITHOUT_RULE))
        .order_by(edges.effect_id, edges.cause_id, edges.rule),
        "stamps": select(its.id, its.lamport, its.clock)
        .where(its.trace_id == trace_id)
        .order_by(its.id),
    }
    found = {}
    for name, query in queries.items():
        found[name] = [tuple(row) for row in await asked(store, query)]
    return found


async def restamp(
    store: Store, trace_id: int, rules: tuple[TraceRule, ...] | None, policy: Policy
) -> RestampOutcome:
    work = Replay(
        store.restamps,
        trace_id,
        RestampRules(policy, (), rules),
        lambda _: None,
        PipelineSettings(link_rules=()),
    )
    await work.catch_up()
    outcome = await work.finish()
    await work.tidy()
    return outcome


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "CHUNK_WITH_MESSAGES", 7)
    monkeypatch.setattr(replay, "SMALL_LAP", 20)
    monkeypatch.setattr("app.store.restamps.SPAN", 40)


async def test_messages_read_again_say_what_they_would_have_said_in_the_first_place(
    store: Store, trace_id: int
) -> None:
    history, like = NamingHistory(seed=5), NamingHistory(seed=5, rules=BOTH)
    stored = [await store.batches.append(trace_id, history.batch(40)) for _ in range(4)]
    first = await links(store, trace_id)
    assert first["edges"] == []
    outcome = await restamp(store, trace_id, BOTH, Policy.channel)
    again = await links(store, trace_id)

    other = (await store.traces.create("other", "channel")).id
    beside = [await store.batches.append(other, like.batch(40)) for _ in range(4)]
    wanted = await links(store, other)
    shift = beside[0][0] - stored[0][0]
    for name, columns in {"ids": 1, "keys": 1, "edges": 2, "stamps": 1}.items():
        assert again[name] == [
            (*(number - shift for number in row[:columns]), *row[columns:]) for row in wanted[name]
        ], name
    assert (outcome.events, outcome.edges, outcome.cut) == (160, len(wanted["edges"]), 0)
    assert len(wanted["edges"]) > 40
    assert await held(store, trace_id) == [(each, stored[0][0]) for each in BOTH]
    for table in (tables.restamped, tables.restamped_keys, tables.restamped_edges):
        assert await asked(store, select(table)) == []
    restored = await store.checkpoints.restore(trace_id, Bounds().handovers)
    second = Tracker(Policy.channel, Bounds(), restored, rules=rules_of(restored.link_rules))
    assert second.totals().links == like.tracker.totals().links
    for _ in range(100):
        record = like.record()
        like.now += 1
        assert [(e.lamport, e.names, len(e.edges)) for e in second.apply(record, like.now)] == [
            (e.lamport, e.names, len(e.edges)) for e in like.tracker.apply(record, like.now)
        ]


async def test_without_reading_messages_again_links_and_rules_stay(
    store: Store, trace_id: int
) -> None:
    history = NamingHistory(seed=6)
    await store.batches.append(trace_id, history.batch(60))
    await store.batches.append(trace_id, history.batch(60, rules=[BY_HEADER]))
    before, rules = await links(store, trace_id), await held(store, trace_id)
    outcome = await restamp(store, trace_id, None, Policy.user)
    after = await links(store, trace_id)
    assert (outcome.edges, outcome.cut) == (None, None)
    assert {**after, "stamps": None} == {**before, "stamps": None}
    assert await held(store, trace_id) == rules
    assert before["edges"]


async def test_rules_that_are_gone_leave_no_links_when_messages_are_read_again(
    store: Store, trace_id: int
) -> None:
    history = NamingHistory(seed=7, rules=BOTH)
    await store.batches.append(trace_id, history.batch(80))
    await restamp(store, trace_id, (BY_BODY,), Policy.user)
    after = await links(store, trace_id)
    assert {row[2] for row in after["edges"]} == {"shipped-for"}
    await restamp(store, trace_id, (), Policy.user)
    after = await links(store, trace_id)
    # What makes two messages one is no rule alone, and stays.
    assert after["edges"] == []
    assert all(ids is None or len(ids) == KEY_BYTES for _, ids in after["ids"])


async def test_what_retention_removes_meanwhile_is_no_cause(store: Store, trace_id: int) -> None:
    history = NamingHistory(seed=8)
    for _ in range(5):
        await store.batches.append(trace_id, history.batch(20))
    work = Replay(
        store.restamps,
        trace_id,
        RestampRules(Policy.channel, (), BOTH),
        lambda _: None,
        PipelineSettings(link_rules=()),
    )
    await work.catch_up()
    plan = await store.retention.plan(trace_id, keep_events=50)
    assert plan is not None
    history.tracker.forget_before(plan.before_id)
    await store.retention.prune(plan, history.tracker.checkpoint())
    outcome = await work.finish()
    after = await links(store, trace_id)
    assert outcome.edges == len(after["edges"]) > 0
    assert min(row[1] for row in after["edges"]) >= plan.before_id
    assert min(row[0] for row in after["keys"]) >= plan.before_id
    assert (await held(store, trace_id))[0][1] == plan.before_id


async def test_a_trace_without_events_gets_the_rules_from_the_next_one(
    store: Store, trace_id: int
) -> None:
    await restamp(store, trace_id, BOTH, Policy.channel)
    stored = await store.batches.append(trace_id, NamingHistory(seed=1, rules=BOTH).batch(5))
    assert await held(store, trace_id) == [(each, stored[0]) for each in BOTH]


async def test_bodies_that_are_not_whole_are_counted(database_url: str) -> None:
    store = await Store.open(database_url, payload_max_bytes=60)
    try:
        trace_id = (await store.traces.create("/", "channel")).id
        history = NamingHistory(seed=9)
        await store.batches.append(trace_id, history.batch(100))
        outcome = await restamp(store, trace_id, BOTH, Policy.channel)
    finally:
        await store.close()
    assert outcome.cut == sum(len(event.record.body) > 60 for event in history.events) > 0


# Of the moments the other two are tried wherever `test_restamp.py` is.
@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("stamping", marks=pytest.mark.long(4)),
        "swapping",
        pytest.param("before the commit", marks=pytest.mark.long(4)),
        "swapped",
    ],
)
async def test_a_kill_while_messages_are_read_again_leaves_the_old_or_the_new(
    store: Store, trace_id: int, database_url: str, moment: str
) -> None:
    history = NamingHistory(seed=10, rules=[BY_HEADER])
    for _ in range(4):
        await store.batches.append(trace_id, history.batch(25))
    before = await links(store, trace_id)
    await kill_restamp(database_url, trace_id, moment, "links")

    after = await links(store, trace_id)
    if moment == "swapped":
        assert {row[2] for row in after["edges"]} == {"shipped-for", "causation_id"}
    else:
        assert after == before
    await restamp(store, trace_id, BOTH, Policy.user)
    done = await links(store, trace_id)
    assert {row[2] for row in done["edges"]} == {"shipped-for", "causation_id"}
