from __future__ import annotations

import re

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, event

from app.errors import NotFoundError
from app.store import Store
from app.store.database.chunks import CHUNK
from app.stored.capture import Batch
from app.tracker import Policy
from app.tracker.events import RestorePoint, StampedEvent
from app.tracker.links.names import Names
from app.tracker.tracker import Bounds, Tracker
from model.words import EdgeKind
from tests.contract.history import History
from tests.contract.links import LinkedHistory
from tests.unit.test_linker import RULES, TABLE, record_of


@pytest.mark.parametrize("seed", range(3))
async def test_a_restored_tracker_goes_on_as_the_first_would_have(
    store: Store, trace_id: int, seed: int
) -> None:
    history = History(seed=seed)
    for _ in range(6):
        await store.batches.append(trace_id, history.batch(25))
    restored = await store.checkpoints.restore(trace_id, Bounds().handovers)
    second = Tracker(Policy.channel, Bounds(), restored)
    for _ in range(200):
        record = history.record()
        history.now += 1
        expected = history.tracker.apply(record, history.now)
        assert _comparable(second.apply(record, history.now)) == _comparable(expected)
    assert second.checkpoint().state == history.tracker.checkpoint().state


async def test_a_new_trace_has_nothing_to_restore(store: Store, trace_id: int) -> None:
    restored = await store.checkpoints.restore(trace_id, 10)
    assert (restored.state, restored.window, restored.last_event_id) == (b"", b"", 0)
    assert [restored.channels, restored.participants, restored.copies] == [[], [], []]


async def test_only_the_last_handovers_are_restored_oldest_first(
    store: Store, trace_id: int
) -> None:
    history = History(seed=5)
    await store.batches.append(trace_id, history.batch(200))
    handovers = (await store.checkpoints.restore(trace_id, 7)).handovers
    matched = [event for event in history.events if event.cause is not None][-7:]
    assert [(h.queue, h.fingerprint, h.cause.id) for h in handovers] == [
        (event.record.queue, event.fingerprint, event.cause.id) for event in matched
    ]


async def test_what_comes_with_the_last_batch_is_restored(store: Store, trace_id: int) -> None:
    history = History(seed=6)
    await store.batches.append(trace_id, history.batch(5, window=b"first"))
    await store.batches.append(trace_id, history.batch(5, window=b"second"))
    restored = await store.checkpoints.restore(trace_id, 10)
    assert restored.window == b"second"
    assert restored.last_event_id == 10
    assert restored.recorded_at == history.events[-1].recorded_at


async def test_traces_are_restored_apart(store: Store) -> None:
    histories = {vhost: History(seed=30 + n) for n, vhost in enumerate(("a", "b"))}
    ids = {vhost: (await store.traces.create(vhost, "channel")).id for vhost in histories}
    for _ in range(3):
        for vhost, history in histories.items():
            await store.batches.append(ids[vhost], history.batch(30))
    for vhost, history in histories.items():
        restored = await store.checkpoints.restore(ids[vhost], 1000)
        assert restored.state == history.tracker.checkpoint().state
        stamps = {event.participant: event.stamp for event in history.events}
        assert {p.number: stamp for p, stamp, _ in restored.participants} == stamps
        assert len(restored.copies) == history.tracker.totals().pending_copies


@pytest.mark.parametrize("policy", [Policy.connection, Policy.channel])
async def test_a_batch_may_change_more_of_each_kind_than_a_statement_takes(
    store: Store, policy: Policy
) -> None:
    trace_id = (await store.traces.create("/", policy)).id
    history = History(seed=40, channels=2 * (CHUNK + 100), policy=policy)
    for _ in range(2):
        batch = history.batch(4_000)
        await store.batches.append(trace_id, batch)
        assert len(batch.checkpoint.participants) > CHUNK
        assert policy is Policy.channel or len(batch.checkpoint.channel_keys_acted) > CHUNK
    assert len(batch.checkpoint.copies_removed) > CHUNK
    restored = await store.checkpoints.restore(trace_id, 0)
    last = {event.participant: event for event in history.events}
    assert {p.number: (p.seq, p.lamport, p.height, at) for p, _, at in restored.participants} == {
        number: (event.seq, event.lamport, event.height, event.reference.id)
        for number, event in last.items()
    }
    if policy is Policy.connection:
        acted = {event.channel_key: event.reference.id for event in history.events}
        assert {each.key: each.last_event_id for each in restored.channels} == acted
    assert len(restored.copies) == history.tracker.totals().pending_copies


@pytest.mark.parametrize("policy", [Policy.client, Policy.channel])
async def test_what_was_named_is_as_well_known_after_a_restart(
    store: Store, policy: Policy
) -> None:
    bounds, edges = Bounds(), list[list[tuple[int | None, str, EdgeKind]]]()
    for restarts in (False, True):
        for case in TABLE.values():
            trace_id = (await store.traces.create(f"{restarts}{len(edges)}", policy)).id
            tracker = Tracker(policy, bounds, rules=RULES)
            edges.append([])
            first: int | None = None
            for now, happening in enumerate(case):
                [event] = tracker.apply(record_of(happening), now)
                await store.batches.append(trace_id, Batch([event], tracker.checkpoint(), b""))
                first = first or event.reference.id or 0
                edges[-1] += [
                    ((edge.cause.id or 0) - first, edge.rule, edge.kind) for edge in event.edges
                ]
                if restarts:
                    restored = await store.checkpoints.restore(trace_id, bounds.handovers)
                    tracker = Tracker(policy, bounds, restored, rules=RULES)
    assert edges[: len(TABLE)] == edges[len(TABLE) :]
    assert any(edges)


async def test_an_unknown_trace_cannot_be_restored(store: Store) -> None:
    with pytest.raises(NotFoundError):
        await store.checkpoints.restore(99, 10)


def _comparable(events: list[StampedEvent]) -> list[object]:
    return [
        (
            event.participant,
            event.channel_key,
            event.seq,
            event.lamport,
            event.height,
            str(event.stamp),
            event.match,
            None if event.cause is None else str(event.cause.clock),
        )
        for event in events
    ]


async def test_postgresql_sorts_no_trace_to_find_its_last_events(
    store: Store, trace_id: int, database_url: str
) -> None:
    """Also before the server has statistics of the tables: meanwhile nothing is captured."""
    if database_url.startswith("sqlite"):
        pytest.skip("SQLite follows indexes")
    await store.batches.append(trace_id, History(seed=7).batch(1_000))
    plans: list[str] = []

    def note(
        connection: Connection, _: object, statement: str, values: object, *__: object
    ) -> None:
        if statement.startswith("SELECT") and "LIMIT" in statement:
            plan = connection.exec_driver_sql(f"EXPLAIN {statement}", values)  # type: ignore[arg-type]
            plans.append("\n".join(plan.scalars()))

    for readers in store._database._readers.values():
        event.listen(readers.engine.sync_engine, "before_cursor_execute", note)
    await store.checkpoints.restore(trace_id, 10, named_events=10)
    assert len(plans) == 4
    # Copies that are lost are few: there is a bound.
    assert [plan for plan in plans if "Sort" in plan and "lost_copies" not in plan] == []


class NamedHistory(LinkedHistory):
    """A history of which each message may be named."""

    def _linked(self, event: StampedEvent) -> StampedEvent:
        return replace(super()._linked(event), names=Names((self.random.randbytes(16),)))


async def test_what_was_read_ahead_of_a_run_is_not_read_again_and_changes_nothing(
    store: Store, trace_id: int
) -> None:
    history = NamedHistory(seed=8)
    bounds = (150, 120)  # of which the second batch fills a part
    await store.batches.append(trace_id, history.batch(200))
    ahead = await store.checkpoints.restore(trace_id, *bounds)
    await store.batches.append(trace_id, history.batch(100))
    assert await store.leases.claim(trace_id, "next")
    await store.leases.take(trace_id, "next")
    whole = await store.checkpoints.restore(trace_id, *bounds)
    restored = await store.checkpoints.restore(trace_id, *bounds, ahead)
    assert _as_read(restored) == _as_read(whole)
    assert any(each is known for each in restored.named_events for known in ahead.named_events)
    assert any(each is known for each in restored.handovers for known in ahead.handovers)
    await store.leases.take(trace_id, "next")  # by a run that came between
    later = await store.checkpoints.restore(trace_id, *bounds, ahead)
    assert _as_read(later) == _as_read(await store.checkpoints.restore(trace_id, *bounds))
    assert not any(each is known for each in later.named_events for known in ahead.named_events)


async def test_nor_is_it_used_once_retention_has_removed_some_of_it(
    store: Store, trace_id: int
) -> None:
    history = NamedHistory(seed=9)
    await store.batches.append(trace_id, history.batch(200))
    ahead = await store.checkpoints.restore(trace_id, 100, 100)
    plan = await store.retention.plan(trace_id, keep_events=50)
    assert plan is not None
    history.tracker.forget_before(plan.before_id)
    await store.retention.prune(plan, history.tracker.checkpoint())
    assert await store.leases.claim(trace_id, "next")
    await store.leases.take(trace_id, "next")
    restored = await store.checkpoints.restore(trace_id, 100, 100, ahead)
    assert len(restored.handovers) < len(ahead.handovers)
    assert _as_read(restored) == _as_read(await store.checkpoints.restore(trace_id, 100, 100))


def _as_read(restored: RestorePoint) -> list[str]:
    """All of it: restored references of one event are separate objects."""
    return [
        re.sub(r" object at 0x\w+", "", repr(getattr(restored, name)))
        for name in restored.__struct_fields__
    ]
