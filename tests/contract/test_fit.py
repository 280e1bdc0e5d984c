"""Whether a policy fits what messages name, and which causes came by hidden ways."""

from __future__ import annotations

import msgspec
import pytest
from sqlalchemy import text

from app.restamp.replay import Replay
from app.store import Store
from app.store.causality import hidden
from app.store.database.migrate import locked_connection
from app.stored.capture import ParticipantSettings
from app.traces.pipeline import PipelineSettings
from app.tracker import Policy
from model.sound import Evidence, MissedLinks, Soundness, doubts_of
from model.words import Awareness
from spark_jobs.events.history import History as Jobs
from spark_jobs.spark.database import DatabaseAddress
from tests.contract.outbox import (
    NUDGE,
    PUBLISHER,
    RULE,
    START,
    order,
    tell,
    tracker_by,
)

REMEDY = "To see it, run rabbitmq-itc restamp / --participant client"


async def told(
    store: Store, policy: Policy, orders: int, *, nudged: bool = False
) -> tuple[int, list[int]]:
    """A trace's number and its events' ids."""
    trace = await store.traces.create("/", policy)
    tracker = tracker_by(policy)
    ids = await tell(store, trace.id, tracker, NUDGE if nudged else [])
    for number in range(orders):
        ids += await tell(store, trace.id, tracker, order(number))
    return trace.id, ids


async def restamp(store: Store, trace_id: int, policy: Policy) -> None:
    rules = ParticipantSettings(policy, ())
    work = Replay(store.restamps, trace_id, rules, lambda progress: None, PipelineSettings())
    await work.catch_up()
    await work.finish()
    await work.tidy()


@pytest.mark.parametrize("policy", [Policy.channel, Policy.connection])
async def test_a_policy_that_misses_what_messages_name_is_not_sound_and_the_better_one_is_named(
    store: Store, policy: Policy
) -> None:
    trace_id, ids = await told(store, policy, orders=3, nudged=True)
    [doubt] = (await store.doubts.between(trace_id, ids[0], ids[-1])).doubts
    assert doubt.statement == (
        f"participants are {policy}s: of 3 causes that shop@10.0.0.7 #2 name by causation_id, 3 had"
        " reached another participant of the same program"
    )
    assert doubt.remedy == REMEDY
    assert await store.doubts.of_trace(trace_id) == (doubt,)
    evidence = await store.doubts.evidence(trace_id)
    assert evidence == Evidence(reactions=6, explained=6, missed=3, hidden=3)
    assert (evidence.coverage, evidence.fit) == (1.0, 0.0)


@pytest.mark.parametrize("policy", [Policy.client, Policy.host])
async def test_one_that_has_them_fits_whatever_came_by_an_outbox(
    store: Store, policy: Policy
) -> None:
    trace_id, ids = await told(store, policy, orders=3)
    assert await store.doubts.between(trace_id, ids[0], ids[-1]) == Soundness()
    evidence = await store.doubts.evidence(trace_id)
    assert evidence == Evidence(reactions=6, explained=6, known=3, hidden=3)
    assert evidence.fit == 1.0
    assert (await store.hidden.ways(trace_id, "shop")).links == 3


async def test_only_answers_about_whoever_misses_something_are_in_doubt(store: Store) -> None:
    trace = await store.traces.create("/", "channel")
    tracker = tracker_by(Policy.channel)
    before = await tell(store, trace.id, tracker, NUDGE[:1] * 2)
    ids = await tell(store, trace.id, tracker, [*NUDGE[1:], *order(1)])
    after = await tell(store, trace.id, tracker, NUDGE[:1])
    assert (await store.doubts.between(trace.id, *before)).doubts == ()
    assert (await store.doubts.between(trace.id, ids[-1], after[0])).doubts == ()
    # That what names its cause is put right tells that what names none is not.
    assert (await store.doubts.between(trace.id, ids[0], ids[0])).doubts
    assert (await store.doubts.between(trace.id, after[0], before[0])).doubts


@pytest.mark.parametrize(("known", "in_doubt"), [(9, True), (10, False)])
async def test_an_odd_message_among_many_is_no_sign(
    store: Store, known: int, in_doubt: bool
) -> None:
    trace = await store.traces.create("/", "channel")
    tracker = tracker_by(Policy.channel)
    ids = await tell(store, trace.id, tracker, [*NUDGE, *order(0)])
    for number in range(1, 1 + known):
        sent, handed, answered, _ = order(number)
        own = msgspec.structs.replace(handed, channel=PUBLISHER)
        ids += await tell(store, trace.id, tracker, [sent, own, answered])
    doubts = (await store.doubts.between(trace.id, ids[0], ids[-1])).doubts
    assert bool(doubts) is in_doubt


async def test_counts_go_on_after_a_restart(store: Store) -> None:
    trace = await store.traces.create("/", "channel")
    for number in range(3):
        restored = await store.checkpoints.restore(trace.id, 100)
        tracker = tracker_by(Policy.channel, restored)
        await tell(store, trace.id, tracker, order(number))
    assert await store.doubts.evidence(trace.id) == Evidence(6, 6, missed=3, hidden=3)
    assert tracker.totals().links[RULE].missed == 3
    assert tracker.totals().links[RULE].hidden == 3


async def test_participants_tell_how_their_own_messages_fit(store: Store) -> None:
    trace_id, _ = await told(store, Policy.channel, orders=2)
    its = {who.name: who.evidence for who in await store.participants.list(trace_id)}
    assert its == {
        "customer@10.0.0.5 #1": Evidence(),
        "shop@10.0.0.7 #2": Evidence(),
        "shop@10.0.0.7 #3": Evidence(2, 2, missed=2),
        "relay@10.0.0.9 #4": Evidence(2, 2, hidden=2),
    }


async def test_a_restamp_finds_how_the_other_policy_fits(store: Store, database_url: str) -> None:
    trace_id, ids = await told(store, Policy.channel, orders=5)
    before = await _ways(database_url)
    await restamp(store, trace_id, Policy.client)
    assert await store.doubts.of_trace(trace_id) == ()
    assert await store.doubts.evidence(trace_id) == Evidence(10, 10, known=5, hidden=5)
    restored = await store.checkpoints.restore(trace_id, 100)
    links = tracker_by(Policy.client, restored).totals().links[RULE]
    assert (links.found, links.known, links.missed, links.hidden) == (10, 5, 0, 5)
    assert await _ways(database_url) == sorted([Awareness.known, Awareness.hidden] * 5)
    [way] = (await store.hidden.ways(trace_id, "shop")).ways
    assert (way.links, way.last_effect) == (5, ids[-1])
    await restamp(store, trace_id, Policy.channel)
    assert await _ways(database_url) == before == sorted([Awareness.missed, Awareness.hidden] * 5)
    assert len(await store.doubts.of_trace(trace_id)) == 2
    async with locked_connection(database_url) as connection:
        left = await connection.execute(text("SELECT count(*) FROM restamped_edges"))
        assert left.scalar_one() == 0


async def _ways(database_url: str) -> list[int]:
    async with locked_connection(database_url) as connection:
        return sorted((await connection.execute(text("SELECT way FROM edges"))).scalars())


async def test_who_published_what_nobody_was_handed_passed_it_on(store: Store) -> None:
    trace = await store.traces.create("/", "client")
    sent, _, _, billed = order(1)
    ids = await tell(store, trace.id, tracker_by(Policy.client), [sent, billed])
    [way] = (await store.hidden.ways(trace.id, "shop")).ways
    assert (way.giver.name, way.last_effect) == ("customer@10.0.0.5", ids[1])


async def test_hidden_ways_are_counted_by_rule_and_participants(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace_id, ids = await told(store, Policy.client, orders=3)
    found = await store.hidden.ways(trace_id, "shop")
    [way] = found.ways
    assert (found.links, found.truncated) == (3, False)
    other = await store.traces.create("other", "client")
    assert (await store.hidden.ways(other.id, "other")).ways == []
    assert (way.rule, way.giver.name, way.taker.name) == (
        RULE,
        "shop@10.0.0.7",
        "relay@10.0.0.9",
    )
    assert (way.links, way.last_effect) == (3, ids[-1])
    assert way.first_at < way.last_at == START + (len(ids) - 1) * 1_000_000
    monkeypatch.setattr(hidden, "MOST_EFFECTS", 2)
    found = await store.hidden.ways(trace_id, "shop")
    assert (found.links, found.truncated, found.ways[0].links) == (2, True, 2)


async def test_a_publish_with_several_hidden_causes_counts_with_all_or_none(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = await store.traces.create("/", "client")
    tracker = tracker_by(Policy.client)
    first, second, (_, _, _, billed) = order(1)[:2], order(2)[:2], order(3)
    billed.properties["headers"][RULE] = ["order-1", "order-2"]
    await tell(store, trace.id, tracker, [*first, *second, billed])
    await tell(store, trace.id, tracker, order(4))
    monkeypatch.setattr(hidden, "MOST_EFFECTS", 2)
    assert (await store.hidden.ways(trace.id, "shop")).links == 3
    monkeypatch.setattr(hidden, "MOST_EFFECTS", 1)
    found = await store.hidden.ways(trace.id, "shop")
    assert (found.links, found.truncated) == (1, True)


async def test_what_retention_removes_is_no_hidden_way_any_more(store: Store) -> None:
    trace = await store.traces.create("/", "client")
    tracker = tracker_by(Policy.client)
    ids = await tell(store, trace.id, tracker, [*order(1), *order(2)])
    plan = await store.retention.plan(trace.id, keep_events=5)
    assert plan is not None
    tracker.forget_before(plan.before_id)
    await store.retention.prune(plan, tracker.checkpoint())
    found = await store.hidden.ways(trace.id, "shop")
    assert (found.links, found.ways[0].last_effect) == (1, ids[-1])


@pytest.mark.parametrize("policy", [Policy.channel, Policy.client])
async def test_service_and_jobs_say_the_same(
    store: Store, database_url: str, policy: Policy
) -> None:
    trace_id, ids = await told(store, policy, orders=2)
    with DatabaseAddress.from_url(database_url).connect() as connection:
        jobs = Jobs(connection)
        missing = jobs.split_participants(trace_id, ids[-1], ids[0])
        missed = jobs.missed_links(trace_id, missing)
        said = doubts_of([], jobs.misfit(trace_id), missing, missed)
    assert said == await store.doubts.of_trace(trace_id)
    assert missed == ([MissedLinks(RULE, 2)] if policy is Policy.channel else [])


async def test_links_beside_the_policy_are_found_by_their_own_index(
    store: Store, database_url: str
) -> None:
    async with locked_connection(database_url) as connection:
        if connection.dialect.name != "sqlite":
            return
        asked = {"trace": 1, "most": 5}
        plan = await connection.execute(
            text(f"EXPLAIN QUERY PLAN {hidden._NEWEST.text}"), {**asked, "hidden": 2}
        )
        assert "ix_edges_beside" in str(plan.all())
