"""Lists of events against the same filter applied in Python, one event at a time."""

from __future__ import annotations

import codecs
import gzip
import itertools
import json
import random
import re
import zlib

import msgspec
import pytest

from app.errors import BadRequestError
from app.store import Store
from app.store.database import sqlite
from app.store.reading import queries
from app.store.reading.events import by_ids
from app.stored.conversations import ConversationFilter
from app.stored.reading import EventFilter, Sort
from app.tracker.events import StampedEvent
from app.tracker.records import Deliver, Publish
from model import bodies
from model.event import ALL_LARGE as ALL_LARGE
from model.event import NOTHING_LARGE
from model.words import EventType, Match, Via
from tests.contract.history import BEGINNING, EXCHANGES, KEYS, QUEUES, USERS, History

VHOSTS = ("/", "other", "empty", "third")
EVERYTHING = EventFilter()
MIDDLE = BEGINNING + 600_000_000


class Told(msgspec.Struct):
    """An event of the history, and the virtual host it was in."""

    vhost: str
    event: StampedEvent

    @property
    def id(self) -> int:
        assert self.event.reference.id is not None
        return self.event.reference.id


@pytest.fixture
async def told(store: Store) -> list[Told]:
    """What is stored: a few hundred events in three virtual hosts, their batches interleaved."""
    histories = {vhost: History(seed=40 + n) for n, vhost in enumerate(VHOSTS)}
    traces = {vhost: await store.traces.create(vhost, "channel") for vhost in VHOSTS}
    told = []
    turns = random.Random(4)
    for _ in range(24):
        vhost = turns.choice([vhost for vhost in VHOSTS if vhost != "empty"])
        batch = histories[vhost].batch(turns.randrange(1, 30))
        await store.batches.append(traces[vhost].id, batch)
        told += [Told(vhost, event) for event in batch.events]
    return told


def _is(name: str | None, asked: str, use_regex: bool) -> bool:
    if name is None:
        return False
    return re.search(asked, name) is not None if use_regex else name == asked


def matches(filter: EventFilter, told: Told) -> bool:
    event, record = told.event, told.event.record
    queue = record.queue if isinstance(record, Deliver) else None
    named = {
        "exchange": [record.exchange],
        "queue": [queue],
        "connection": [record.channel.connection],
        "user": [record.channel.user],
        "participant_name": [f"{record.channel.user}@127.0.0.1 #{event.participant}"],
        "routing_key": record.routing_keys,
    }
    plain = {
        "vhost": told.vhost,
        "type": EventType.published if isinstance(record, Publish) else EventType.received,
        "match": event.match,
        "channel": record.channel.number,
        "participant": event.participant,
        "redelivered": isinstance(record, Deliver) and record.redelivered,
    }
    return (
        (filter.vhosts is None or told.vhost in filter.vhosts)
        and all(getattr(filter, name) in (None, value) for name, value in plain.items())
        and all(
            any(_is(value, asked, filter.use_regex) for value in values)
            for name, values in named.items()
            if (asked := getattr(filter, name)) is not None
        )
        and (filter.since is None or event.recorded_at >= filter.since)
        and (filter.until is None or event.recorded_at < filter.until)
        and (not filter.q or _contains(filter.q, told))
    )


def _contains(part: str, told: Told) -> bool:
    record = told.event.record
    queue = record.queue if isinstance(record, Deliver) else ""
    names = (record.exchange, queue, *record.routing_keys)
    return any(part in name for name in names) or part in _text(record.body)


def _text(body: bytes) -> str:
    """A body as text, in the charset that it is in."""
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return body.decode("utf-16")
    if body[1:2] == b"\0" or body[:1] == b"\0":
        return body.decode("utf-16-le" if body[1:2] == b"\0" else "utf-16-be", "replace")
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body.decode("latin-1")


def expected(filter: EventFilter, told: list[Told]) -> list[int]:
    return [each.id for each in told if matches(filter, each)]


async def _ids(store: Store, wanted: EventFilter, after: int | None = None) -> list[int]:
    rows = (await store.events.find(wanted, after=after, limit=1000, large=NOTHING_LARGE)).items
    return [row.id for row in rows]


FILTERS = [
    EVERYTHING,
    EventFilter(vhost="/"),
    EventFilter(vhost="empty"),
    EventFilter(vhost="never traced"),
    EventFilter(vhosts=frozenset({"/", "third"})),
    EventFilter(vhosts=frozenset({"/"}), vhost="other"),
    EventFilter(vhosts=frozenset()),
    EventFilter(type=EventType.published),
    EventFilter(type=EventType.received, vhost="/"),
    *(EventFilter(match=match) for match in Match),
    *(EventFilter(exchange=exchange) for exchange in (*EXCHANGES, "ORDERS", "order_")),
    *(EventFilter(queue=queue) for queue in (*QUEUES, "billin%")),
    *(EventFilter(routing_key=key) for key in (*KEYS, '","', "order", "[")),
    *(EventFilter(user=user) for user in (*USERS, "sho")),
    EventFilter(connection="127.0.0.1:9000 -> 127.0.0.1:5672"),
    EventFilter(connection="9000"),
    EventFilter(channel=2),
    EventFilter(channel=2**40),
    EventFilter(participant=3),
    EventFilter(participant=3, vhost="/"),
    EventFilter(participant=2**70),
    EventFilter(participant=-1),
    EventFilter(participant_name="shop@127.0.0.1 #1"),
    EventFilter(participant_name="robot@127.0.0.1 #2", vhost="other"),
    EventFilter(participant_name="shop@127.0.0.1"),
    EventFilter(redelivered=True),
    EventFilter(redelivered=False),
    EventFilter(since=MIDDLE),
    EventFilter(until=MIDDLE),
    EventFilter(since=MIDDLE, until=MIDDLE + 100_000_000, vhost="/"),
    EventFilter(since=MIDDLE, until=MIDDLE),
    EventFilter(since=-(2**80), until=2**80),
    EventFilter(until=0),
    EventFilter(since=2**62),
    *(
        EventFilter(q=part)
        for part in ("", "order", "Order", "%", "_", '"', ",", "üße", "ö", "xxx")
    ),
    EventFilter(q="grüße", type=EventType.received),
    EventFilter(exchange="^ord", use_regex=True),
    EventFilter(exchange="(?i)^ORD", use_regex=True),
    EventFilter(exchange="^$", use_regex=True),
    EventFilter(queue=r"\.dead$|^audit$", use_regex=True),
    EventFilter(routing_key=r"^order\.(new|x)$", use_regex=True),
    EventFilter(routing_key="^[^a-z]$", use_regex=True),
    EventFilter(connection=":90.0 ->", user="^s", use_regex=True),
    EventFilter(exchange="a{1,3}%b.c", use_regex=True),
    EventFilter(type=EventType.received, queue="billing", user="shop", redelivered=True),
]


def _named(filter: EventFilter) -> str:
    return ",".join(
        f"{name}={value}"
        for name, value in msgspec.structs.asdict(filter).items()
        if value is not None and value is not False
    )


@pytest.mark.parametrize("part", ["grüße", "ß", "{", "NaN", "zł", "never there"])
async def test_text_is_found_in_every_charset(
    store: Store, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '{"wish": "grüße", "n": NaN}'
    charsets = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1")
    marked = codecs.BOM_UTF16_BE + "10 zł".encode("utf-16-be")
    bodies = (*map(text.encode, charsets), marked, b"\0\xff")
    monkeypatch.setattr("tests.contract.history.BODIES", bodies)
    trace = await store.traces.create("/", "channel")
    batch = History(seed=3).batch(60)
    await store.batches.append(trace.id, batch)
    told = [Told("/", event) for event in batch.events]
    assert {each.event.record.body for each in told} == {*bodies}
    assert sorted(await _ids(store, EventFilter(q=part))) == expected(EventFilter(q=part), told)


async def test_text_is_found_in_what_is_compressed_within_bounds(
    store: Store, trace_id: int
) -> None:
    text = '{"wish": "grüße"}'
    bomb = gzip.compress(bytes(8 * bodies.MOST_BYTES) + text.encode(), mtime=0)
    told = {
        "gzip": ("gzip", gzip.compress(text.encode(), mtime=0)),
        "gzip by its first bytes": (None, gzip.compress(text.encode("latin-1"), mtime=0)),
        "gzip of UTF-16": ("gzip", gzip.compress(text.encode("utf-16"), mtime=0)),
        "deflate": ("deflate", zlib.compress(text.encode())),
        "plain": (None, text.encode()),
        "a bomb": ("gzip", bomb),
        "cut short": ("gzip", gzip.compress(text.encode(), mtime=0)[:-9]),
        "no deflate": ("deflate", b"x" + text[1:4].encode()),
    }
    history = History(seed=3)
    events: list[StampedEvent] = []
    for encoding, body in told.values():
        properties = {"content_encoding": encoding} if encoding else {}
        publish = Publish(history.channels[0], "", ("q",), ("q",), properties, body)
        events += history.tracker.apply(publish, BEGINNING)
    batch = history.batch(0)
    batch.events.extend(events)
    await store.batches.append(trace_id, batch)
    asked = EventFilter(q="grüße")
    ids = await _ids(store, asked, after=0)
    found = [[*told][each - 1] for each in ids]
    assert found == ["gzip", "gzip by its first bytes", "gzip of UTF-16", "deflate", "plain"]
    assert await _ids(store, asked) == ids[::-1]
    assert await store.events.count(asked) == len(ids)
    page = await store.events.page(asked, page=2, page_size=2, sort=Sort.lamport)
    assert ([each.id for each in page.items], page.filtered_count) == ([ids[2], ids[1]], len(ids))
    assert (await store.events.over_time(asked, 10)).events == len(ids)
    conversations = await store.conversations.list(asked, ConversationFilter(), Via.links)
    assert [each.root for each in conversations.items] == ids[::-1]


@pytest.mark.parametrize(
    ("part", "body"),
    [
        ("Müller 😀", json.dumps({"name": "Müller 😀"}).encode()),
        ("2026/77", b'{"order":"2026\\/77"}'),
        ("O'Neil", b'{"name":"O\\u0027Neil","phone":"\\u002B49"}'),
        ("+49", b'{"name":"O\\u0027Neil","phone":"\\u002B49"}'),
        ("a<b&c=d", b'{"text":"a\\u003cb\\u0026c\\u003dd"}'),
        ('"say": "he said \\"no\\\\"', b'{"say": "he said \\"no\\\\", "u": "\\u00fc"}'),
        ('he said "no\\', b'{"say": "he said \\"no\\\\"}'),
        ("müller", gzip.compress(b'{"name": "m\\u00FCller"}', mtime=0)),
        ("müller", '{"name": "m\\u00FCller"}'.encode("utf-16")),
        ("müller", b'{"name": "m\\u00fcller", "cut": "\\u00'),
        ("m\\u00fcller", b'{"name": "m\\u00fcller"}'),
        ("Zoë", json.dumps({"Message": json.dumps({"name": "Zoë"})}).encode()),
        ("Zoë", json.dumps({"a": json.dumps({"b": json.dumps({"name": "Zoë"})})}).encode()),
    ],
)
async def test_text_is_found_that_json_escapes(
    store: Store, trace_id: int, part: str, body: bytes
) -> None:
    history = History(seed=3)
    events: list[StampedEvent] = []
    for each in (b"\\ elsewhere", body):
        publish = Publish(history.channels[0], "", ("q",), ("q",), {}, each)
        events += history.tracker.apply(publish, BEGINNING)
    batch = history.batch(0)
    batch.events.extend(events)
    await store.batches.append(trace_id, batch)
    asked = EventFilter(q=part)
    assert await _ids(store, asked) == [2]
    assert await store.events.count(asked) == 1


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("Münster", "M\\u00fcnster"),
        ("café / bar", '{"place": "caf\\u00E9 \\/ bar"}'),
        ("O'Neil", json.dumps({"inner": '{"name": "O\\u0027Neil"}'})),
        ("C:\\new", "C:\\new"),
        ("Lübeck", "Lübeck"),
    ],
)
async def test_text_is_found_that_json_in_headers_escapes(
    store: Store, trace_id: int, part: str, value: str
) -> None:
    history = History(seed=3)
    events: list[StampedEvent] = []
    for each in ("\\ elsewhere", value):
        properties = {"headers": {"note": each}}
        publish = Publish(history.channels[0], "", ("q",), ("q",), properties, b"")
        events += history.tracker.apply(publish, BEGINNING)
    batch = history.batch(0)
    batch.events.extend(events)
    await store.batches.append(trace_id, batch)
    asked = EventFilter(q=part, in_properties=True)
    assert await _ids(store, asked) == [2]
    assert await store.events.count(asked) == 1
    assert await _ids(store, EventFilter(q=part)) == []


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_no_question_has_more_of_what_is_compressed_read_than_it_may(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "MOST_READ", 20)
    history = History(seed=3)
    events: list[StampedEvent] = []
    for number in range(60):
        body = gzip.compress(b"new" if number > 40 else b"old", mtime=0)
        publish = Publish(history.channels[0], "", ("q",), ("q",), {}, body)
        events += history.tracker.apply(publish, BEGINNING)
    batch = history.batch(0)
    batch.events.extend(events)
    await store.batches.append(trace_id, batch)
    new = EventFilter(q="new")
    assert len((await store.events.find(new, limit=19)).items) == 19
    for question in (
        store.events.find(EventFilter(q="none"), limit=19),
        store.events.count(new),
    ):
        with pytest.raises(BadRequestError, match="more than 20 compressed or escaped messages"):
            await question


async def test_every_filter_gives_what_it_says(store: Store, told: list[Told]) -> None:
    wrong = {}
    for filter in FILTERS:
        ids = expected(filter, told)
        rising = await _ids(store, filter, after=0)
        falling = await _ids(store, filter)
        if not (rising == falling[::-1] == ids and await store.events.count(filter) == len(ids)):
            wrong[_named(filter)] = (ids, rising, falling)
    assert wrong == {}
    assert sum(bool(expected(filter, told)) for filter in FILTERS) > 40


def _random_filter(dice: random.Random) -> EventFilter:
    choices = {
        "vhost": VHOSTS,
        "vhosts": [frozenset(dice.sample(VHOSTS, 2))],
        "type": list(EventType),
        "match": list(Match),
        "exchange": EXCHANGES,
        "queue": QUEUES,
        "routing_key": KEYS,
        "user": USERS,
        "channel": [1, 2],
        "participant": [1, 2, 3],
        "redelivered": [True, False],
        "since": [MIDDLE - dice.randrange(10**9)],
        "until": [MIDDLE + dice.randrange(10**9)],
        "q": ["order", "e", "x", '"'],
    }
    asked = dice.sample(sorted(choices), dice.randrange(1, 4))
    return EventFilter(**{name: dice.choice(choices[name]) for name in asked})  # type: ignore[arg-type]


async def test_filters_combine(store: Store, told: list[Told]) -> None:
    dice = random.Random(5)
    found = 0
    for _ in range(120):
        filter = _random_filter(dice)
        ids = expected(filter, told)
        found += bool(ids)
        assert await _ids(store, filter, after=0) == ids, filter
    assert found > 30


@pytest.mark.parametrize("vhosts", [None, frozenset({"/", "third"}), frozenset({"other"})])
async def test_a_cursor_walks_through_everything_both_ways(
    store: Store, told: list[Told], vhosts: frozenset[str] | None
) -> None:
    filter = EventFilter(vhosts=vhosts)
    ids = expected(filter, told)
    rising: list[int] = []
    while rows := (
        await store.events.find(filter, after=rising[-1] if rising else 0, limit=17)
    ).items:
        rising += [row.id for row in rows]
    falling: list[int] = []
    while rows := (
        await store.events.find(filter, before=falling[-1] if falling else None, limit=17)
    ).items:
        falling += [row.id for row in rows]
    assert rising == falling[::-1] == ids
    between = (await store.events.find(filter, after=ids[3], before=ids[9], limit=100)).items
    assert [row.id for row in between] == ids[4:9]


async def test_a_cursor_may_be_any_number(store: Store, told: list[Told]) -> None:
    assert (await store.events.find(EVERYTHING, after=2**80)).items == []
    assert (await store.events.find(EVERYTHING, before=-5)).items == []
    newest = (await store.events.find(EVERYTHING, before=2**80, limit=1)).items
    assert [row.id for row in newest] == [told[-1].id]


SORT_KEYS = {
    Sort.id: lambda told: told.id,
    Sort.recorded_at: lambda told: told.event.recorded_at,
    Sort.lamport: lambda told: told.event.lamport,
}


@pytest.mark.parametrize("deep", [0, 10**6], ids=["by arithmetic", "counted off"])
async def test_pages_follow_their_order_and_count(
    store: Store, told: list[Told], deep: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "DEEP", deep)
    asked = [EVERYTHING, EventFilter(vhost="/"), EventFilter(type=EventType.received)]
    for sort, descending, filter in itertools.product(Sort, (False, True), asked):
        chosen = [each for each in told if matches(filter, each)]
        chosen.sort(key=lambda t: (SORT_KEYS[sort](t), t.id), reverse=descending)
        seen = []
        for number in itertools.count(1):
            page = await store.events.page(
                filter, page=number, page_size=90, sort=sort, descending=descending
            )
            assert page.filtered_count == len(chosen)
            assert page.total_count == sum(filter.vhost in (None, each.vhost) for each in told)
            assert page.page_count == -(-len(chosen) // 90)
            assert page.item_count == len(page.items)
            seen += [row.id for row in page.items]
            if number > page.page_count:
                assert page.items == []
                break
        assert seen == [each.id for each in chosen]


async def test_an_empty_page_is_one_page(store: Store, told: list[Told]) -> None:
    page = await store.events.page(EventFilter(vhost="empty"), page=1, page_size=10)
    assert (page.items, page.page_count, page.filtered_count, page.total_count) == ([], 1, 0, 0)


async def test_large_fields_are_read_only_where_they_are_asked_for(
    store: Store, told: list[Told]
) -> None:
    for left_out in ALL_LARGE:
        large = ALL_LARGE - {left_out}
        [row] = (await store.events.find(EVERYTHING, after=0, limit=1, large=large)).items
        assert {name for name in ALL_LARGE if getattr(row, name) is not None} == large
    with pytest.raises(ValueError, match="without its clock"):
        _ = (await store.events.get(1, ALL_LARGE - {"clock"})).stamp


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", r"(a)\1", "(?=a)", "x" * 501])
async def test_an_invalid_regular_expression_is_refused(store: Store, pattern: str) -> None:
    with pytest.raises(BadRequestError, match="regular expression"):
        await store.events.find(EventFilter(exchange=pattern, use_regex=True))


@pytest.mark.parametrize("pattern", [r"\pL", r"end\z", "(?i:a)", "(?P<name>a)", "a{900}"])
async def test_what_re2_alone_can_read_is_refused_where_another_has_to(
    database_url: str, store: Store, told: list[Told], pattern: str
) -> None:
    asked = store.events.find(EventFilter(exchange=pattern, use_regex=True))
    if database_url.startswith("sqlite"):
        await asked
        return
    with pytest.raises(BadRequestError, match="PostgreSQL's regular expressions: invalid"):
        await asked


async def test_a_regular_expression_made_to_take_for_ever_does_not(
    store: Store, told: list[Told]
) -> None:
    rows = (
        await store.events.find(EventFilter(connection="(.*.*)*(.|.)*!$", use_regex=True))
    ).items
    assert rows == []


async def test_what_takes_too_long_is_stopped_and_the_store_goes_on(
    database_url: str, store: Store, trace_id: int
) -> None:
    history = History(seed=50)
    for _ in range(8):
        await store.batches.append(trace_id, history.batch(1000))
    hasty = await Store.open(database_url, query_seconds=0.001)
    slow = EventFilter(
        routing_key="(a|b|c)+(d|e|f)*$", q="never there", use_regex=True, since=1, until=2**60
    )
    with pytest.raises(BadRequestError, match="takes too long"):
        await hasty.events.count(slow)
    assert (await hasty.events.get(1)).id == 1
    await hasty.close()
    assert await store.events.count(slow) == 0


async def test_more_virtual_hosts_than_a_query_can_join(store: Store) -> None:
    ids = []
    for number in range(450):
        trace = await store.traces.create(f"vhost {number}", "channel")
        if number % 50 == 0:
            ids += await store.batches.append(trace.id, History(seed=number).batch(3))
    assert [row.id for row in (await store.events.find(EVERYTHING, after=0)).items] == ids
    assert [row.id for row in (await store.events.find(EVERYTHING, limit=5)).items] == ids[:-6:-1]
    assert await store.events.count(EventFilter(type=EventType.published)) > 0


async def test_events_by_id_come_in_the_order_asked_for(store: Store, told: list[Told]) -> None:
    rows = await store._database.read(lambda connection: by_ids(connection, [5, 1, 10**15, 3]))
    assert [row.id for row in rows] == [5, 1, 3]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_page_from_the_middle_costs_what_the_first_one_does(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0

    def counted(deadline: object) -> bool:
        nonlocal steps
        steps += 1
        return False

    # SQLite's own instructions, by tens: what it does, whatever else the machine does meanwhile.
    monkeypatch.setattr(sqlite, "INSTRUCTIONS_BETWEEN_LOOKS", 10)
    monkeypatch.setattr(sqlite._Deadline, "is_over", counted)
    store = await Store.open(database_url)
    traces = [await store.traces.create(vhost, "channel") for vhost in ("busy", "quiet")]
    busy, quiet = History(seed=60), History(seed=61)
    for number in range(12):
        await store.batches.append(traces[0].id, busy.batch(500))
        if number % 4 == 0:
            await store.batches.append(traces[1].id, quiet.batch(10))

    async def cost(filter: EventFilter, before: int | None) -> int:
        nonlocal steps
        steps = 0
        assert len((await store.events.find(filter, before=before, limit=10)).items) == 10
        return steps

    newest_first = [
        EVERYTHING,
        EventFilter(vhost="busy"),
        EventFilter(vhosts=frozenset({"quiet"})),
        EventFilter(type=EventType.published),
    ]
    for filter in newest_first:
        first, middle = await cost(filter, None), await cost(filter, 3000)
        assert middle <= 2 * first, filter
        assert first < 300, filter  # that is half an instruction for each stored event

    async def cost_of_page(number: int) -> int:
        nonlocal steps
        steps = 0
        assert (await store.events.page(EVERYTHING, page=number, page_size=10)).item_count == 10
        return steps

    assert await cost_of_page(300) <= 2 * await cost_of_page(1)

    async def cost_of_vector(event_id: int) -> int:
        nonlocal steps
        event = await store.events.get(event_id)
        steps = 0
        known = await store.participants.vector(event)
        assert known
        return steps // len(known)

    assert await cost_of_vector(6000) < 40  # of each participant; reading all its events is 1,000
    await store.close()
