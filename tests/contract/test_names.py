"""What messages say of themselves: stored, found by, restored, removed with their events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import msgspec
import pytest
from sqlalchemy import event, select, text, update

from app.store import Store
from app.store.capture.keys import index_starts as indexed_fields
from app.store.database import tables
from app.store.database.searched import run_of, searched_keys
from app.stored.capture import Batch
from app.stored.reading import EventFilter, Sort
from app.tracker import Policy, RestorePoint
from app.tracker.events import StampedEvent
from app.tracker.links import BUILT_IN, Names, Rules, search_key
from app.tracker.links.names import NO_NAMES
from app.tracker.records import Channel, Deliver, Publish
from app.tracker.tracker import Bounds, Tracker
from model.words import EdgeKind
from tests.contract.history import BEGINNING, RUN, number_from
from tests.contract.links import conversation, link, naming

CHANNELS = [
    Channel("rabbit@one", f"10.0.0.{number}:1 -> 10.0.0.9:5672", 1, "shop") for number in (1, 2)
]


class Messages:
    """Publishes of two participants, with properties, and what the tracker would read in them."""

    def __init__(self, indexed_headers: frozenset[str] = frozenset()) -> None:
        self.tracker = Tracker(Policy.channel, Bounds())
        self.indexed = indexed_headers
        self.events: list[StampedEvent] = []

    def publish(
        self, conversations: tuple[str, ...] = (), knows: bool = True, **properties: object
    ) -> StampedEvent:
        number = len(self.events)
        record = Publish(CHANNELS[number % 2], "e", ("k",), (), {"headers": {}} | properties, b"")
        [stamped] = self.tracker.apply(record, BEGINNING + number)
        found_by = [
            search_key(field, str(properties[field]))
            for field in ("message_id", "correlation_id")
            if field in properties
        ]
        headers = record.properties["headers"]
        found_by += [
            search_key(f"header.{name}", str(headers[name]))
            for name in headers
            if name in self.indexed
        ]
        names = Names(
            conversations=tuple(map(conversation, conversations)), found_by=tuple(found_by)
        )
        self.events.append(naming(stamped, names if knows else NO_NAMES))
        return self.events[-1]

    def batch(self) -> Batch:
        events, self.events = self.events, []
        return Batch(events, self.tracker.checkpoint(), b"")


async def _found(store: Store, **asked: object) -> list[int]:
    wanted = msgspec.structs.replace(EventFilter(), **asked)
    falling = [row.id for row in (await store.events.find(wanted)).items]
    rows = (await store.events.find(wanted, after=0)).items
    rising = [row.id for row in rows]
    assert rising == falling[::-1]
    assert await store.events.count(wanted) == len(rising)
    for sort in Sort:
        ordered = [row.id for row in sorted(rows, key=lambda row: (getattr(row, sort), row.id))]
        for number in (1, 2):
            page = await store.events.page(
                wanted, page=number, page_size=3, sort=sort, descending=False
            )
            assert [row.id for row in page.items] == ordered[3 * number - 3 : 3 * number]
        last = await store.events.page(wanted, page=1, page_size=2, sort=sort)
        assert [row.id for row in last.items] == ordered[::-1][:2]
    return rising


async def test_events_are_found_by_what_their_messages_are_called(
    store: Store, trace_id: int
) -> None:
    messages = Messages()
    other = await store.traces.create("other", "channel")
    messages.publish(message_id="m1", correlation_id="c1")
    messages.publish(message_id="m2", correlation_id="c1")
    messages.publish(message_id="c1")
    messages.publish(conversations=("t1", "t2"))
    messages.publish(conversations=("t2",), correlation_id="c1")
    await store.batches.append(trace_id, messages.batch())
    strangers = Messages()
    strangers.publish(message_id="m1")
    await store.batches.append(other.id, strangers.batch())
    assert await _found(store, message_id="m1") == [1, 6]
    assert await _found(store, message_id="m1", vhost="/") == [1]
    assert await _found(store, message_id="m1", vhosts=frozenset({"other"})) == [6]
    assert await _found(store, correlation_id="c1") == [1, 2, 5]
    assert await _found(store, message_id="c1") == [3]
    assert await _found(store, conversation="t2") == [4, 5]
    assert await _found(store, conversation="t2", correlation_id="c1") == [5]
    assert await _found(store, correlation_id="c1", participant=1, vhost="/") == [1, 5]
    assert await _found(store, correlation_id="c1", since=BEGINNING + 1) == [2, 5]
    assert await _found(store, message_id="") == []
    assert await _found(store, conversation="m1") == []
    wanted = EventFilter(correlation_id="c1")
    assert [row.id for row in (await store.events.find(wanted, after=1, before=5)).items] == [2]


async def test_runs_are_looked_through_in_order_and_go_with_their_events(
    store: Store, trace_id: int
) -> None:
    messages = Messages()
    for begins in (RUN - 3, 3 * RUN - 3):  # none in the run between
        await number_from(store, begins)
        for number in range(6):
            messages.publish(("t",), correlation_id="c" if number % 2 else "d")
        await store.batches.append(trace_id, messages.batch())
    ids = [*range(RUN - 3, RUN + 3), *range(3 * RUN - 3, 3 * RUN + 3)]
    assert await _found(store, conversation="t") == ids
    assert await _found(store, correlation_id="c") == ids[1::2]
    newest = (await store.events.find(EventFilter(conversation="t"), before=ids[-2], limit=5)).items
    assert [row.id for row in newest] == ids[5:-2][::-1]
    runs = [run_of(each) for each in (ids[0], ids[3], ids[6], ids[9])]
    assert await _runs(store) == runs
    for kept in (8, 3):
        plan = await store.retention.plan(trace_id, keep_events=kept)
        assert plan is not None
        messages.tracker.forget_before(plan.before_id)
        await store.retention.prune(plan, messages.tracker.checkpoint())
        assert await _found(store, conversation="t") == ids[-kept:]
        assert await _runs(store) == sorted({run_of(each) for each in ids[-kept:]})[::-1]


async def _runs(store: Store) -> list[int]:
    """The runs of the keys as they are looked up, which are all keys that there are."""
    async with store._database._writer.connect() as connection:
        searched = (await connection.execute(select(searched_keys))).all()
        stored = (await connection.execute(select(tables.keys))).all()
        if store._database.dialect.name == "sqlite":
            kept = (await connection.execute(text("SELECT number FROM runs"))).scalars()
            assert sorted(kept) == sorted({row.run for row in searched})
    assert sorted(row[2:] for row in searched) == sorted(tuple(row) for row in stored)
    assert all(row.run == run_of(row.event_id) for row in searched)
    return sorted({row.run for row in searched})[::-1]


class Sent:
    """Publishes into a queue and what is handed out of it, as the tracker reads them."""

    def __init__(self, rules: Rules | None = None, restored: RestorePoint | None = None) -> None:
        self.tracker = Tracker(Policy.channel, Bounds(), restored, rules=rules or Rules(()))
        self.events: list[StampedEvent] = []
        self.count = 0

    def publish(self, message_id: str, headers: dict[str, object] | None = None) -> None:
        properties = {"message_id": message_id, "headers": headers or {}}
        self._take(Publish(CHANNELS[0], "", ("q",), ("q",), properties, b""))

    def deliver(
        self,
        message_id: str,
        headers: dict[str, object] | None = None,
        redelivered: bool = False,
    ) -> None:
        properties = {"message_id": message_id, "headers": headers or {}}
        self._take(Deliver(CHANNELS[1], "", ("q",), "q", redelivered, properties, b""))

    def batch(self) -> Batch:
        events, self.events = self.events, []
        return Batch(events, self.tracker.checkpoint(), b"")

    def _take(self, record: Publish | Deliver) -> None:
        self.count += 1
        self.events += self.tracker.apply(record, BEGINNING + self.count)


async def test_a_delivery_is_found_through_its_publish(store: Store, trace_id: int) -> None:
    sent = Sent()
    sent.publish("a")
    sent.publish("b")
    sent.deliver("a")
    await store.batches.append(trace_id, sent.batch())
    sent.publish("a")
    sent.deliver("b")
    sent.deliver("a", redelivered=True)
    sent.deliver("a", {"x-delivery-count": 1}, redelivered=True)  # read by itself
    sent.deliver("a")
    sent.deliver("c")  # published before the trace began
    await store.batches.append(trace_id, sent.batch())
    key = search_key("message_id", "a")
    rows = [event_id for event_id, each in await _stored(store, "event_id", "key") if each == key]
    assert rows == [1, 4, 7]
    assert await _found(store, message_id="a") == [1, 3, 4, 6, 7, 8]
    assert await _found(store, message_id="b") == [2, 5]
    assert await _found(store, message_id="c") == [9]
    assert await _found(store, message_id="a", participant=2) == [3, 6, 7, 8]
    assert await _found(store, message_id="a", since=BEGINNING + 4, until=BEGINNING + 8) == [
        4,
        6,
        7,
    ]
    wanted = EventFilter(message_id="a")
    assert [
        row.id for row in (await store.events.find(wanted, after=1, before=8, limit=3)).items
    ] == [
        3,
        4,
        6,
    ]
    assert [row.id for row in (await store.events.find(wanted, before=8, limit=2)).items] == [7, 6]


CAUSE = {"causation_id": "z"}
BY_CAUSE = (("causation_id", "z"),)


async def _indexing(database_url: str, *indexed: Mapping[str, bool]) -> None:
    """Services come and go that index these headers."""
    for headers in indexed:
        await (await Store.open(database_url, indexed_headers=headers)).close()


async def _with_rows(store: Store, header: str, value: str) -> list[object]:
    """The events that have a row of their own for a header's value."""
    key = search_key(f"header.{header}", value)
    return [event_id for event_id, each in await _stored(store, "event_id", "key") if each == key]


async def test_a_delivery_is_found_through_its_publish_by_the_cause_that_it_names(
    database_url: str, store: Store, trace_id: int
) -> None:
    rules = Rules(BUILT_IN, indexed=["tenant"])
    await _indexing(database_url, rules.indexed)
    sent = Sent(rules)
    for number in range(4):
        sent.publish(f"m{number}", CAUSE | {"tenant": "t"})
    sent.deliver("m0", CAUSE | {"tenant": "t"})
    await store.batches.append(trace_id, sent.batch())
    await number_from(store, 2 * RUN - 1)  # in the run of their publishes, and in others
    for number in (1, 2, 3):
        sent.deliver(f"m{number}", CAUSE | {"tenant": "t"})
    sent.deliver("m1", CAUSE | {"tenant": "t"}, redelivered=True)
    sent.deliver("m2", CAUSE | {"tenant": "t", "x-delivery-count": 1}, redelivered=True)
    sent.deliver("other", CAUSE)
    await store.batches.append(trace_id, sent.batch())
    late = [*range(2 * RUN - 1, 2 * RUN + 5)]
    assert await _with_rows(store, "causation_id", "z") == [1, 2, 3, 4, late[4], late[5]]
    assert await _found(store, headers=BY_CAUSE) == [1, 2, 3, 4, 5, *late]
    assert await _found(store, headers=BY_CAUSE, participant=2) == [5, *late]
    assert await _found(store, headers=BY_CAUSE, message_id="m1") == [2, late[0], late[3]]
    assert await _found(store, headers=BY_CAUSE, until=BEGINNING + 7) == [1, 2, 3, 4, 5, late[0]]
    # What only a setting has indexed many messages may have: each event has a row of its own.
    tenants = [1, 2, 3, 4, 5, *late[:5]]
    assert await _with_rows(store, "tenant", "t") == tenants
    assert await _found(store, headers=(("tenant", "t"),)) == tenants
    for kept in (6, 5, 2):  # the oldest publish goes, all of them, and some deliveries
        plan = await store.retention.plan(trace_id, keep_events=kept)
        assert plan is not None
        sent.tracker.forget_before(plan.before_id)
        await store.retention.prune(plan, sent.tracker.checkpoint())
        assert await _found(store, headers=BY_CAUSE) == late[-kept:]
        assert await _with_rows(store, "causation_id", "z") == late[-kept:]


async def test_a_header_is_found_whatever_it_was_indexed_for(
    database_url: str, store: Store, trace_id: int
) -> None:
    """As a value of many messages, as an id of a message, not at all, and each again."""
    expected: list[int] = []
    restored: RestorePoint | None = None
    for number, is_id in enumerate((None, False, True, False, None, True, None, False)):
        indexed = {} if is_id is None else {"causation_id": is_id}
        await _indexing(database_url, indexed)
        sent = Sent(Rules(BUILT_IN, found_by=indexed), restored)
        sent.deliver(f"m{number - 1}", CAUSE)  # published under the rules before
        sent.publish(f"m{number}", CAUSE)
        sent.publish("n", CAUSE)
        sent.deliver("n", CAUSE)
        expected += await store.batches.append(trace_id, sent.batch())
        assert await _found(store, headers=BY_CAUSE) == expected
        restored = await store.checkpoints.restore(trace_id, Bounds().handovers)
        since = (await store._database.read(indexed_fields)).get("header.causation_id")
        assert (since is None) == (is_id is None)
    assert len(expected) == 32


async def test_that_some_have_a_header_by_their_publish_is_never_forgotten(
    database_url: str, store: Store
) -> None:
    async def by_publish() -> bool:
        return (await store._database.read(indexed_fields))["header.causation_id"].by_publish

    for is_id, expected in ((False, False), (True, True), (False, True)):
        await _indexing(database_url, {"causation_id": is_id})
        assert await by_publish() is expected
    await _indexing(database_url, {}, {"causation_id": False})
    assert not await by_publish()


async def test_a_delivery_of_another_trace_is_not_found_through_a_publish(
    store: Store, trace_id: int
) -> None:
    other = await store.traces.create("other", "channel")
    for number in (other.id, trace_id):
        sent = Sent()
        sent.publish("a")
        sent.deliver("a")
        await store.batches.append(number, sent.batch())
    assert await _found(store, message_id="a", vhost="other") == [1, 2]
    assert await _found(store, message_id="a", vhost="/") == [3, 4]
    assert await _found(store, message_id="a") == [1, 2, 3, 4]


async def test_what_is_asked_beside_is_asked_of_the_delivery(store: Store, trace_id: int) -> None:
    sent = Sent()
    sent.publish("a", {"x-shop": "1"})
    sent.deliver("a", {"x-shop": "1"})
    sent.publish("a")
    sent.deliver("a")
    await store.batches.append(trace_id, sent.batch())
    assert await _found(store, message_id="a", headers=(("x-shop", "1"),)) == [1, 2]


async def test_a_delivery_that_outlives_its_publish_is_found_all_the_same(
    store: Store, trace_id: int
) -> None:
    sent = Sent()
    sent.publish("a")
    sent.publish("b")
    sent.deliver("a")
    sent.deliver("b")
    await store.batches.append(trace_id, sent.batch())
    plan = await store.retention.plan(trace_id, keep_events=2)
    assert plan is not None
    sent.tracker.forget_before(plan.before_id)
    await store.retention.prune(plan, sent.tracker.checkpoint())
    assert await _found(store, message_id="a") == [3]
    assert await _found(store, message_id="b") == [4]


async def test_a_delivery_that_was_read_by_newer_rules_inherits_no_conversation(
    store: Store, trace_id: int
) -> None:
    sent = Sent()
    sent.publish("a")
    sent.deliver("a")
    publish, delivery = sent.events
    said = publish.names
    earlier = msgspec.structs.replace(said, conversations=(conversation("t"),))
    sent.events = [naming(publish, earlier), delivery]
    await store.batches.append(trace_id, sent.batch())
    plan = await store.retention.plan(trace_id, keep_events=1)
    assert plan is not None
    sent.tracker.forget_before(plan.before_id)
    await store.retention.prune(plan, sent.tracker.checkpoint())
    assert await _stored(store, "event_id", "key", "roles") == [(2, *said.called, 2)]


async def test_what_a_stream_changed_is_found_by_what_it_says_alone(
    store: Store, trace_id: int
) -> None:
    """A stream writes `urn:uuid:` ids in small letters, and drops arrays in headers."""
    tracker = Tracker(Policy.channel, Bounds(), rules=Rules((), indexed=["seen"]))
    capital, small = "urn:uuid:AB", "urn:uuid:ab"
    published = {"message_id": capital, "headers": {"seen": ["x", "y"]}}
    handed = {"message_id": small, "delivery_mode": 1, "headers": {"x-stream-offset": 0}}
    events = []
    for record in (
        Publish(CHANNELS[0], "", ("q",), ("s", "q"), published, b""),
        Deliver(CHANNELS[1], "", ("q",), "s", False, handed, b""),
        Deliver(CHANNELS[1], "", ("q",), "q", False, published, b""),
    ):
        events += tracker.apply(record, BEGINNING + len(events) + 1)
    assert [event.cause is not None for event in events] == [False, True, True]
    await store.batches.append(trace_id, Batch(events, tracker.checkpoint(), b""))
    seen = search_key("header.seen", "x")

    async def said() -> list[int]:
        return [event for event, key in await _stored(store, "event_id", "key") if key == seen]

    assert await _found(store, message_id=capital) == [1, 3]
    assert await _found(store, message_id=small) == [2]
    assert await _found(store, message_id=capital, correlation_id="none") == []
    assert await said() == [1, 3]
    plan = await store.retention.plan(trace_id, keep_events=2)
    assert plan is not None
    tracker.forget_before(plan.before_id)
    await store.retention.prune(plan, tracker.checkpoint())
    assert await _found(store, message_id=capital) == [3]
    assert await _found(store, message_id=small) == [2]
    assert await said() == [3]


VALUES = [
    ("text", "text"),
    pytest.param(5, "5", marks=pytest.mark.long(2)),
    (True, "true"),
    pytest.param(1.5, "1.5", marks=pytest.mark.long(2)),
    ("é\N{GRINNING FACE}", "é\N{GRINNING FACE}"),
]


@pytest.mark.parametrize(("value", "asked"), VALUES)
async def test_a_header_without_an_index_is_looked_up_in_the_events(
    store: Store, trace_id: int, value: object, asked: str
) -> None:
    messages = Messages()
    name = 'a "quoted".name\'s[0]'
    messages.publish(headers={name: value, "noise": "a\x00b"}, message_id="m")
    messages.publish(headers={"another": value})
    messages.publish(headers={})
    await store.batches.append(trace_id, messages.batch())
    assert await _found(store, headers=((name, asked),)) == [1]
    assert await _found(store, headers=((name, asked), ("another", asked))) == []
    assert await _found(store, headers=((name, asked),), message_id="m") == [1]
    assert await _found(store, headers=((name, "else"),)) == []


async def test_a_header_is_found_whether_or_not_it_was_indexed_then(
    database_url: str, store: Store, trace_id: int
) -> None:
    messages = Messages()
    for number in range(4):  # before there was an index, of anything
        headers = {"tenant": "a" if number % 2 else "b"}
        messages.publish(knows=False, headers=headers, message_id=f"m{number}")
    await store.batches.append(trace_id, messages.batch())
    later = update(tables.indexed_fields).values(from_event_id=5)
    await store._database.write(lambda connection: connection.execute(later))
    now = await Store.open(database_url, indexed_headers={"tenant": False})
    try:
        since = await now._database.read(indexed_fields)
        assert since == {
            "message_id": (5, True),
            "correlation_id": (5, False),
            "header.tenant": (5, False),
        }
        messages.indexed = frozenset({"tenant"})
        for number in range(4):
            headers = {"tenant": "a" if number % 2 else "b"}
            messages.publish(headers=headers, message_id=f"m{number}")
        await now.batches.append(trace_id, messages.batch())
    finally:
        await now.close()
    assert await _found(store, headers=(("tenant", "a"),)) == [2, 4, 6, 8]
    assert await _found(store, message_id="m1") == [2, 6]
    assert await _found(store, message_id="m1", headers=(("tenant", "a"),)) == [2, 6]
    assert await _found(store, message_id="m0", headers=(("tenant", "a"),)) == []


async def test_a_header_that_is_not_indexed_any_more_is_looked_up(
    database_url: str, store: Store, trace_id: int
) -> None:
    first = await Store.open(database_url, indexed_headers={"tenant": False, "order": False})
    messages = Messages(frozenset({"tenant"}))
    messages.publish(headers={"tenant": "a"})
    await first.batches.append(trace_id, messages.batch())
    await first.close()
    second = await Store.open(database_url, indexed_headers={})
    messages.indexed = frozenset()
    messages.publish(headers={"tenant": "a"})
    await second.batches.append(trace_id, messages.batch())
    await second.close()
    assert await _found(store, headers=(("tenant", "a"),)) == [1, 2]
    reader = await Store.open(database_url)  # says nothing, changes nothing
    third = await Store.open(database_url, indexed_headers={"tenant": False})
    assert (await reader._database.read(indexed_fields))["header.tenant"].first == 3
    assert await _found(store, headers=(("tenant", "a"),)) == [1, 2]
    await reader.close()
    await third.close()


@pytest.fixture
async def statements(store: Store) -> AsyncIterator[list[str]]:
    """Every statement that writes."""
    said: list[str] = []

    def note(*values: object) -> None:
        said.append(str(values[2]))

    engine = store._database._writer.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    yield said
    event.remove(engine, "before_cursor_execute", note)


async def test_nothing_to_store_takes_no_statement(
    store: Store, trace_id: int, statements: list[str]
) -> None:
    messages = Messages()
    messages.publish()
    await store.batches.append(trace_id, messages.batch())
    assert not [
        each for each in statements if each.startswith(("INSERT INTO keys", "INSERT INTO edges"))
    ]


async def _stored(store: Store, *columns: str) -> list[tuple[object, ...]]:
    table = tables.keys if "key" in columns else tables.edges
    query = select(*(table.c[name] for name in columns)).order_by(*columns)
    found = await store._database.read(lambda connection: connection.execute(query))
    return [tuple(row) for row in found]


async def test_keys_and_links_are_stored_with_their_events_and_go_with_them(
    store: Store, trace_id: int
) -> None:
    messages = Messages()
    key, shared = b"k" * 16, conversation("t")
    for _ in range(4):
        messages.publish()
    first, second, third, fourth = messages.events
    first = naming(first, Names(ids=(key,), conversations=(shared,), found_by=(key, key)))
    third = naming(third, Names(found_by=(key,)), [link(first), link(first), link(first, "rpc")])
    fourth = naming(fourth, NO_NAMES, [link(third, "rpc", EdgeKind.reply), link(first)])
    messages.events = [first, second, third, fourth]
    await store.batches.append(trace_id, messages.batch())
    assert await _stored(store, "event_id", "key", "roles") == sorted(
        [(1, key, 2), (1, shared, 1), (3, key, 2)]
    )
    assert await _stored(store, "effect_id", "cause_id", "rule", "kind") == [
        (3, 1, "celery", 0),
        (3, 1, "rpc", 0),
        (4, 1, "celery", 0),
        (4, 3, "rpc", 1),
    ]
    plan = await store.retention.plan(trace_id, keep_events=2)
    assert plan is not None
    messages.tracker.forget_before(plan.before_id)
    await store.retention.prune(plan, messages.tracker.checkpoint())
    assert await _stored(store, "event_id", "key") == [(3, key)]
    # What names a pruned event keeps the link, which leads into the archive.
    assert await _stored(store, "effect_id", "cause_id") == [(3, 1), (3, 1), (4, 1), (4, 3)]
    plan = await store.retention.plan(trace_id, keep_events=1)
    assert plan is not None
    messages.tracker.forget_before(plan.before_id)
    await store.retention.prune(plan, messages.tracker.checkpoint())
    assert await _stored(store, "effect_id", "cause_id") == [(4, 1), (4, 3)]


async def test_pruning_a_trace_leaves_the_others_keys_and_links(
    store: Store, trace_id: int
) -> None:
    other = await store.traces.create("other", "channel")
    for each in (other.id, trace_id):
        messages = Messages()
        messages.publish(message_id="m")
        messages.publish(message_id="m")
        first, second = messages.events
        messages.events = [first, naming(second, second.names, [link(first)])]
        await store.batches.append(each, messages.batch())
    plan = await store.retention.plan(trace_id, keep_events=0)
    assert plan is not None
    messages.tracker.forget_before(plan.before_id)
    await store.retention.prune(plan, messages.tracker.checkpoint())
    assert await _stored(store, "trace_id", "event_id", "roles", "key") == [
        (other.id, 1, 2, search_key("message_id", "m")),
        (other.id, 2, 2, search_key("message_id", "m")),
    ]
    assert await _stored(store, "trace_id", "effect_id", "cause_id") == [(other.id, 2, 1)]


async def test_the_last_events_that_may_be_named_are_restored_oldest_first(
    store: Store, trace_id: int
) -> None:
    messages = Messages()
    other = await store.traces.create("other", "channel")
    told = []
    for number in range(20):
        stamped = messages.publish()
        keys = tuple(bytes([number, n]) * 8 for n in range(number % 3))
        shared = (conversation("t"),) if number % 2 else ()
        told.append(naming(stamped, Names(keys, (), shared, (b"x" * 16,))))
    messages.events = told[:]
    await store.batches.append(trace_id, messages.batch())
    strangers = Messages()
    strangers.events.append(naming(strangers.publish(), Names((b"s" * 16,))))
    del strangers.events[0]
    await store.batches.append(other.id, strangers.batch())
    named = [each for each in told if each.names.ids]
    for most in (0, 1, 5, 100):
        restored = (await store.checkpoints.restore(trace_id, 0, named_events=most)).named_events
        assert [
            (each.keys, each.is_delivery, each.participant, each.height, each.message.id)
            for each in restored
        ] == [
            (each.names.ids, False, each.participant, each.height, each.reference.id)
            for each in named[max(0, len(named) - most) :]
        ]
        assert [(each.reference.id, each.reference.packed) for each in restored] == [
            (each.reference.id, each.reference.packed) for each in named[max(0, 13 - most) :]
        ]
    assert len((await store.checkpoints.restore(trace_id, 0)).named_events) == len(named) == 13


async def test_what_is_waiting_and_may_be_named_is_one_reference(
    store: Store, trace_id: int
) -> None:
    tracker = Tracker(Policy.channel, Bounds())
    record = Publish(CHANNELS[0], "", ("q",), ("q",), {"headers": {}}, b"")
    events = [naming(each, Names((b"k" * 16,))) for each in tracker.apply(record, BEGINNING)]
    await store.batches.append(trace_id, Batch(events, tracker.checkpoint(), b""))
    restored = await store.checkpoints.restore(trace_id, 0)
    assert restored.named_events[0].reference is restored.copies[0].cause


def test_a_value_has_another_key_in_another_field() -> None:
    fields = ("message_id", "correlation_id", "conversation", "header.a", "header.ab", "header.a:")
    values = ("", "b", "bc", "1:b", ":b", "é")
    keys = {search_key(field, value) for field in fields for value in values}
    assert len(keys) == len(fields) * len(values)
    assert {len(key) for key in keys} == {16}


@pytest.mark.parametrize("vhost", ["/", None])
@pytest.mark.parametrize(
    "asked",
    [{"message_id": "m"}, {"conversation": "t"}, {"message_id": "m", "correlation_id": "c"}],
)
async def test_a_name_is_looked_up_by_its_index(
    store: Store, trace_id: int, asked: dict[str, str], vhost: str | None
) -> None:
    if store._database.dialect.name != "sqlite":
        pytest.skip("PostgreSQL decides by what is stored")
    await store.traces.create("other", "channel")
    said: list[tuple[str, tuple[object, ...]]] = []

    def note(*values: object) -> None:
        said.append((str(values[2]), values[3]))  # type: ignore[arg-type]

    for readers in store._database._readers.values():
        event.listen(readers.engine.sync_engine, "before_cursor_execute", note)
    wanted = EventFilter(vhost=vhost, **asked)
    await store.events.find(wanted)
    await store.events.find(wanted, after=-1)
    await store.events.count(wanted)
    leading = [each for each in said if "FROM searched_keys JOIN events" in each[0]]
    assert len(leading) >= 3
    for statement, values in leading:
        async with store._database._writer.connect() as connection:
            plan = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
            steps = [str(row[3]) for row in plan]
        by_key = "keys USING PRIMARY KEY (trace_id=? AND run=? AND key=?"
        assert all(by_key in each for each in steps if "SEARCH keys" in each)
        assert any(by_key in each for each in steps)


async def test_events_are_looked_through_while_some_are_older_than_the_index(
    database_url: str, store: Store, trace_id: int
) -> None:
    said: list[str] = []

    def note(*values: object) -> None:
        said.append(str(values[2]))

    for readers in store._database._readers.values():
        event.listen(readers.engine.sync_engine, "before_cursor_execute", note)

    async def looks_into_properties(**asked: object) -> bool:
        said.clear()
        await _found(store, **asked)
        return any("json" in each for each in said)

    sent = Sent()
    sent.publish("a", CAUSE)
    await store.batches.append(trace_id, sent.batch())
    await _indexing(database_url, {"causation_id": True})
    await number_from(store, 5_000)
    sent.publish("b")
    await store.batches.append(trace_id, sent.batch())
    assert await looks_into_properties(headers=BY_CAUSE)
    assert not await looks_into_properties(message_id="a")
    plan = await store.retention.plan(trace_id, keep_events=1)
    assert plan is not None
    sent.tracker.forget_before(plan.before_id)
    await store.retention.prune(plan, sent.tracker.checkpoint())
    assert not await looks_into_properties(headers=BY_CAUSE)


async def test_a_restamp_is_told_what_events_name(store: Store, trace_id: int) -> None:
    messages = Messages()
    for _ in range(3):
        messages.publish()
    first, second, third = messages.events
    messages.events = [
        first,
        naming(second, NO_NAMES, [link(first), link(first, "rpc")]),
        naming(third, NO_NAMES, [link(second), link(first)]),
    ]
    await store.batches.append(trace_id, messages.batch())
    found = await store.restamps.events(trace_id, after_id=0, limit=10)
    assert [[(its.cause, its.rule) for its in each.named] for each in found] == [
        [],
        [(1, "celery"), (1, "rpc")],
        [(1, "celery"), (2, "celery")],
    ]
    keys = {1: first.channel_key, 2: second.channel_key}
    assert all(its.channel_key == keys[its.cause] for each in found for its in each.named)
    (last,) = await store.restamps.events(trace_id, after_id=2, limit=10)
    assert last.joins == (1, 2)
