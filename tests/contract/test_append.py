from __future__ import annotations

import asyncio
import os
import sys
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from app.errors import NotFoundError, UnfitError
from app.store import Store
from app.stored.reading import EventFilter
from app.tracker.events import StampedEvent
from app.tracker.records import Publish, Unreadable
from itc import Stamp, pack
from model.words import EventType
from tests.contract.history import History, omission

EVERYTHING = EventFilter()


def _as_stored(event: StampedEvent, trace_id: int) -> dict[str, object]:
    """What a row has to say of an event of the virtual host /, from the event alone."""
    record = event.record
    published = isinstance(record, Publish)
    return {
        "id": event.reference.id,
        "type": EventType.published if published else EventType.received,
        "match": event.match,
        "cause": None if event.cause is None else event.cause.id,
        "participant": event.participant,
        "participant_name": f"{record.channel.user}@127.0.0.1 #{event.participant}",
        "quiet": False,
        "settlement": None,
        "settled_at": None,
        "candidates": event.candidates,
        "doubtful": event.is_doubtful,
        "seq": event.seq,
        "lamport": event.lamport,
        "height": event.height,
        "recorded_at": event.recorded_at,
        "exchange": record.exchange,
        "queue": None if published else record.queue,
        "routing_keys": record.routing_keys,
        "routed_queues": record.routed_queues if published else None,
        "redelivered": False if published else record.redelivered,
        "node": record.channel.node,
        "connection": record.channel.connection,
        "channel": record.channel.number,
        "user": record.channel.user,
        "properties": record.properties,
        "payload": record.body,
        "payload_bytes": len(record.body),
        "payload_sha256": None,
        "redactions": None,
        "trace_id": trace_id,
        "vhost": "/",
        "interval": event.stamp.interval,
        "clock": pack(event.stamp),
    }


async def test_events_come_back_as_they_were_stamped(store: Store, trace_id: int) -> None:
    history = History(seed=1)
    for _ in range(4):
        await store.batches.append(trace_id, history.batch(50))
    rows = (await store.events.find(EVERYTHING, after=0, limit=1000)).items
    assert len(rows) == len(history.events) == 200
    for event, row in zip(history.events, rows, strict=True):
        assert row._asdict() == _as_stored(event, trace_id)
        assert row.stamp == event.stamp


async def test_ids_are_assigned_in_order_and_without_holes(store: Store, trace_id: int) -> None:
    history = History(seed=2)
    assert await store.batches.append(trace_id, history.batch(3)) == range(1, 4)
    assert await store.batches.append(trace_id, history.batch(2)) == range(4, 6)
    assert [event.reference.id for event in history.events] == [1, 2, 3, 4, 5]


async def test_a_batch_without_events_stores_its_checkpoint(store: Store, trace_id: int) -> None:
    history = History(seed=3)
    assert len(await store.batches.append(trace_id, history.batch(0, window=b"w"))) == 0
    restored = await store.checkpoints.restore(trace_id, 10)
    assert restored.window == b"w"
    assert restored.state


async def test_appending_the_same_batch_again_changes_nothing(store: Store, trace_id: int) -> None:
    history = History(seed=4)
    await store.batches.append(trace_id, history.batch(10))
    batch = history.batch(20)
    batch.checkpoint.omissions.append(omission(_rubbish(1)))
    ids = await store.batches.append(trace_id, batch)
    assert await store.batches.append(trace_id, batch) == ids
    assert [event.reference.id for event in batch.events] == list(ids)
    assert await store.events.count(EVERYTHING) == 30
    assert len(await store.quarantine.newest()) == 1


async def test_two_equal_batches_are_two(store: Store, trace_id: int) -> None:
    history = History(seed=5)
    await store.batches.append(trace_id, history.batch(0))
    batch = history.batch(0)
    batch.checkpoint.omissions.append(omission(_rubbish(1)))
    again = msgspec.structs.replace(batch, token=b"another")
    await store.batches.append(trace_id, batch)
    await store.batches.append(trace_id, again)
    assert len(await store.quarantine.newest()) == 2


async def test_a_failure_on_the_way_leaves_nothing(store: Store, trace_id: int) -> None:
    history = History(seed=6)
    await store.batches.append(trace_id, history.batch(10))
    before = await store.checkpoints.restore(trace_id, 100)
    batch = history.batch(20)
    batch.checkpoint.omissions.append(omission(msgspec.structs.replace(_rubbish(1), reason=None)))  # type: ignore[arg-type]
    with pytest.raises(UnfitError):
        await store.batches.append(trace_id, batch)
    after = await store.checkpoints.restore(trace_id, 100)
    assert _summary(after) == _summary(before)
    assert await store.events.count(EVERYTHING) == 10
    batch.checkpoint.omissions.clear()
    assert await store.batches.append(trace_id, batch) == range(11, 31)
    assert [row.id for row in (await store.events.find(EVERYTHING, after=0)).items] == list(
        range(1, 31)
    )


async def test_a_killed_process_leaves_nothing_of_its_batch(
    store: Store, trace_id: int, database_url: str
) -> None:
    await store.batches.append(trace_id, History(seed=7).batch(10))
    other = await store.traces.create("other", "channel")
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        Path(__file__).with_name("killed_append.py"),
        str(other.id),
        env={**os.environ, "ITC_DATABASE_URL": database_url, "PYTHONPATH": str(Path.cwd())},
        stdout=asyncio.subprocess.PIPE,
    )
    assert child.stdout is not None
    said = await child.stdout.readline()
    child.kill()
    await child.wait()
    assert said == b"before the commit\n"
    assert await store.events.count(EVERYTHING) == 10
    assert len((await store.events.find(EVERYTHING, limit=1000)).items) == 10
    assert (await store.checkpoints.restore(other.id, 10)).state == b""
    assert await store.batches.append(other.id, History(seed=8).batch(5)) == range(11, 16)


async def test_ids_are_in_commit_order_over_concurrent_appenders(database_url: str) -> None:
    stores = [await Store.open(database_url) for _ in range(3)]
    reader = stores[2]
    traces = [await reader.traces.create(vhost, "channel") for vhost in ("a", "b")]
    seen: list[int] = []

    async def read_until(total: int) -> None:
        while len(seen) < total:
            seen.extend(
                row.id
                for row in (
                    await reader.events.find(EVERYTHING, after=seen[-1] if seen else 0)
                ).items
            )

    async def write(number: int) -> list[range]:
        history = History(seed=20 + number)
        return [
            await stores[number].batches.append(traces[number].id, history.batch(1 + turn % 7))
            for turn in range(30)
        ]

    total = 2 * sum(1 + turn % 7 for turn in range(30))
    first, second, _ = await asyncio.gather(write(0), write(1), read_until(total))
    # A reader that has seen an id never finds a smaller one later: so it has seen all.
    assert seen == list(range(1, total + 1))
    assert sorted(id for ids in first + second for id in ids) == seen
    for each in stores:
        await each.close()


async def test_only_what_waits_after_the_batch_is_kept_of_its_copies(
    store: Store, trace_id: int
) -> None:
    history = History(seed=9)
    for _ in range(5):
        await store.batches.append(trace_id, history.batch(40))
    restored = await store.checkpoints.restore(trace_id, 0)
    assert len(restored.copies) == history.tracker.totals().pending_copies > 0


@pytest.mark.parametrize(
    ("limit", "body", "kept"),
    [(5, b"12345", b"12345"), (5, b"123456", b"12345"), (0, b"1", None), (0, b"", None)],
)
async def test_payloads_are_kept_up_to_the_limit_and_digested_beyond(
    database_url: str, limit: int, body: bytes, kept: bytes | None
) -> None:
    store = await Store.open(database_url, payload_max_bytes=limit)
    trace = await store.traces.create("/", "channel")
    history = History(seed=10)
    batch = history.batch(1)
    record = msgspec.structs.replace(batch.events[0].record, body=body)
    batch.events[0] = msgspec.structs.replace(batch.events[0], record=record)
    await store.batches.append(trace.id, batch)
    row = await store.events.get(1)
    cut = len(body) > limit
    assert row.payload == kept
    assert row.payload_bytes == len(body)
    assert row.payload_truncated is cut
    assert row.payload_sha256 == (sha256(body).digest() if cut else None)
    await store.close()


async def test_odd_characters_survive(store: Store, trace_id: int) -> None:
    history = History(seed=11)
    batch = history.batch(1)
    properties = {"headers": {"nul": "a\0b", "emoji": "🐇", "rtl": "\u202eabc"}, "n": [None, 1.5]}
    record = msgspec.structs.replace(
        batch.events[0].record, properties=properties, exchange='🐇 <b>"\\', body=b"\0\xff"
    )
    batch.events[0] = msgspec.structs.replace(batch.events[0], record=record)
    await store.batches.append(trace_id, batch)
    row = await store.events.get(1)
    assert (row.properties, row.exchange, row.payload) == (properties, '🐇 <b>"\\', b"\0\xff")


async def test_an_unknown_trace_is_refused(store: Store) -> None:
    with pytest.raises(NotFoundError, match="no trace has the number 99"):
        await store.batches.append(99, History(seed=12).batch(1))


async def test_the_oldest_unreadable_messages_make_room(database_url: str) -> None:
    store = await Store.open(database_url, quarantine_max=5)
    traces = [await store.traces.create(vhost, "channel") for vhost in ("a", "b")]
    for number in range(4):
        for trace in traces:
            batch = History(seed=13).batch(0)
            batch.checkpoint.omissions.extend(
                omission(_rubbish(number * 2 + each)) for each in range(2)
            )
            await store.batches.append(trace.id, batch)
    kept = await store.quarantine.newest(["a"])
    assert [message.recorded_at for message in kept] == [7, 6, 5, 4, 3]
    assert len(await store.quarantine.newest()) == 10
    older = await store.quarantine.newest(["a"], before_id=kept[1].id, limit=2)
    assert [message.recorded_at for message in older] == [5, 4]
    await store.close()


def _rubbish(number: int) -> Unreadable:
    return Unreadable(
        reason="no header",
        routing_key="hello",
        headers="{}",
        body=b"\0rubbish",
        body_bytes=8,
        recorded_at=number,
    )


def _summary(restored: object) -> object:
    """A restored checkpoint, comparable: references compare by what they refer to."""

    def plain(value: object) -> object:
        if isinstance(value, Stamp):
            return str(value)
        if isinstance(value, list | tuple):
            return [plain(each) for each in value]
        if isinstance(value, msgspec.Struct):
            return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
        if hasattr(value, "clock"):
            return [value.id, str(value.clock), value.lamport]
        return value

    return plain(restored)


class OddHistory(History):
    """Somebody who says of himself what no column of text can hold."""

    def record(self) -> Publish:
        properties = {
            "reply_to": "amq.rabbitmq.reply-to.a\0b",
            "type": "order\0",
            "headers": {"name\0": "half\0"},
        }
        return Publish(self._channel(), "", ("rpc",), (), properties, b'{"n": "\\ud800\\u0000"}')


async def test_a_message_with_text_that_nothing_can_store_is_stored(
    store: Store, trace_id: int
) -> None:
    history = OddHistory(seed=4)
    await store.batches.append(trace_id, history.batch(3))
    rows = (await store.events.find(EVERYTHING, after=0, limit=10)).items
    assert [row.properties for row in rows] == [each.record.properties for each in history.events]
