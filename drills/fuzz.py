"""Whatever bytes a trace message consists of, the service keeps running.

    python -m drills.fuzz [INPUTS]                   200,000 by default
    python -m drills.fuzz_traces sqlite [INPUTS]     through traces into a store, or postgresql
    python -m drills.sanitize [INPUTS]               with what is compiled built with sanitizers

An input is a content header as it comes off the wire, with a routing key and a body. hypothesis
makes trace messages, valid ones and odd ones, and each is damaged in many ways: bytes changed,
inserted, left out, repeated, cut off. Each takes the path that garbage on ``amq.rabbitmq.trace``
would take: the parser, the digest by which a message is recognised when it comes again, the
tracker, and what the store keeps of it as JSON. The broker's frames that carry it are damaged in
the same ways, cut anywhere, and given to the frame reader. Stored clocks are damaged too, before
they are read, joined, compared, raised and written as text.
"""

from __future__ import annotations

import os
import random
import string
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pamqp.commands import Basic
from pamqp.encode import field_table
from pamqp.header import ContentHeader

from app.broker._wire import DeliverySplitter
from app.broker.deliveries import Arrival
from app.broker.firehose import BROKER_USER, SETTLEMENTS, parse
from app.tracker import Bounds, Policy, Settlement, Tracker, Unreadable
from app.tracker.digest import digest
from app.tracker.links import BUILT_IN, Rules
from itc import (
    MalformedError,
    Stamp,
    decode,
    encode,
    pack,
    packed_height_at,
    packed_text,
    receive,
    unpack,
)
from model.texts import DIRECT_REPLIES
from tools.frames import BODY, DELIVER, HEADER, METHOD, frame

INPUTS = 200_000
DAMAGED = 20  # variants of each message
CHANNEL = 1

Message: TypeAlias = tuple[str, bytes, bytes]  # routing key, content header, body

_plain: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(width=32),
    st.text(max_size=12),
    st.binary(max_size=8).map(bytearray),
)
_anything = st.recursive(
    _plain,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=10,
)
# Some are stored as one text: NUL as four characters, and so is DEL, which `messages` makes a byte
# that is no UTF-8.
_name = st.sampled_from(
    ("q", "a", "a\0", "a\\x00", "a\x7f", "a\\xff", f"{DIRECT_REPLIES}a", "é" * 120)
) | st.text(max_size=12)
# Which no index takes.
_long = st.just("".join(random.Random(0).choices(string.ascii_letters, k=5_000)))
_deaths = st.lists(
    st.fixed_dictionaries(
        {
            "queue": _name | _anything,
            "exchange": _anything,
            "routing-keys": st.lists(_anything, max_size=2),
            "reason": st.sampled_from(("rejected", "expired", "maxlen")) | _anything,
            "count": st.integers(1, 3) | _anything,
        }
    ),
    max_size=2,
)
_names = st.lists(_name, max_size=3)
# Of all kinds that rules of links look at: alone, under conditions, in lists, taken out of a text.
_looked_at = ("causation_id", "task", "id", "traceparent", "nameko.call_id_stack", "MT-Reason")
_headers = st.dictionaries(
    st.sampled_from((*_looked_at, "k\0", "k\\x00", "k\x7f", "k\\xff")) | st.text(max_size=8),
    _anything,
    max_size=3,
)
_user = st.sampled_from(("ann", "a\0", "a\\x00")) | st.text(max_size=4)
_right = st.fixed_dictionaries(
    {
        "exchange_name": st.text(max_size=12),
        "node": st.just("rabbit@fuzz"),
        "vhost": st.just("/"),
        "connection": st.sampled_from(("127.0.0.1:1 -> 127.0.0.1:2", "")),
        "user": _user,
        "channel": st.integers(0, 2) | st.integers(0, 65_535),
        "routing_keys": _names,
        "routed_queues": _names,
        "redelivered": st.integers(0, 1),
        "properties": st.fixed_dictionaries(
            {"headers": _headers},
            optional={
                "message_id": st.text(max_size=6),
                "reply_to": st.just(DIRECT_REPLIES + "a") | _anything,
                "correlation_id": _anything,
                "content_type": st.just("application/vnd.masstransit+json") | _anything,
                "type": st.just("amqp-1.0") | _anything,
                "expiration": _anything,
            },
        )
        | _deaths.map(lambda deaths: {"headers": {"x-death": deaths}}),
    }
)
_fields = ("exchange_name", "user", "channel", "routing_keys", "routed_queues", "properties", "o")
_odd: st.SearchStrategy[dict[str, Any]] = st.just({}) | st.dictionaries(
    st.sampled_from(_fields), _anything | _long | st.lists(_long), max_size=2
)
_keys = st.one_of(
    st.sampled_from(("publish.x", "publish.x", "publish.", "publish.a")),
    st.sampled_from(("publish.x", "publish.", "rubbish")),
    _name.map(lambda name: f"deliver.{name[:100]}"),
    st.sampled_from(("deliver.q", "deliver.a", "deliver.a\0")),
    st.text(max_size=12),
)
_settled: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "itc": st.just("0.1.0"),
        "node": st.just("rabbit@fuzz"),
        "at": st.integers(0, 2**53),
        "connection": st.sampled_from(("127.0.0.1:1 -> 127.0.0.1:2", "")),
        "channel": st.integers(0, 2),
        "user": _user,
        "pid": st.sampled_from(("<1.2.3>", "<1.2\0>", "<1.2\\x00>")),
        "next_tag": st.integers(0, 3) | st.integers(0, 2**60 - 1),
        "transactional": st.booleans(),
        "queue": _name,
        "auto": st.booleans(),
        "outcome": st.sampled_from(("acknowledged", "rejected", "returned")),
        "delivery_tag": st.integers(0, 3) | st.integers(0, 2**60 - 1),
        "multiple": st.booleans(),
    }
)
_odd_of_settled: st.SearchStrategy[dict[str, Any]] = st.just({}) | st.dictionaries(
    st.sampled_from(("at", "channel", "next_tag", "queue", "user")), _anything, max_size=1
)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """A trace message, valid except for what is odd on purpose."""
    if draw(st.integers(0, 4)) == 0:
        fields: dict[str, Any] = {**draw(_settled), **draw(_odd_of_settled)}
        header = ContentHeader(0, 5, Basic.Properties(user_id=BROKER_USER)).marshal()
        key = f"settle.{draw(st.sampled_from(sorted(SETTLEMENTS)))}"
        return key, header, field_table(fields).replace(b"\x7f", b"\xff")
    table = {**draw(_right), **draw(_odd)}
    header = ContentHeader(0, 5, Basic.Properties(headers=table)).marshal()
    return draw(_keys), header.replace(b"\x7f", b"\xff"), draw(st.binary(max_size=12))


def damaged(header: bytes, chance: random.Random) -> Iterator[bytes]:
    """A header, or another table, as it is, and `DAMAGED` - 1 damaged variants."""
    yield header
    for _ in range(DAMAGED - 1):
        broken = bytearray(header)
        for _ in range(chance.choice((1, 1, 1, 4))):
            start = chance.randrange(len(broken) + 1)
            end = start + chance.choice((0, 1, 1, 4))
            part = bytes(broken[start:end])
            # Replacing bytes without changing their number keeps lengths valid, and gets further.
            other = chance.randbytes(len(part))
            more = chance.randbytes(chance.randint(1, 4))
            broken[start:end] = chance.choice((other, other, other, more, part * 2, b""))
        cut = chance.randrange(len(broken) + 1)
        yield bytes(broken[: chance.choice((None, None, None, None, cut))])


def survives(message: Message, tracker: Tracker) -> str:
    """Take a message the whole way; returns what it was taken for. Raises if anything breaks."""
    routing_key, payload, body = message
    record = parse(routing_key, payload, body, 0)
    digest(record)
    if isinstance(record, Unreadable):
        msgspec.json.encode(record)
        record.headers.encode()
        return "quarantined"
    if isinstance(record, Settlement):
        return "settlement"
    for event in tracker.apply(record, 0):
        msgspec.json.encode(event.record)
    tracker.checkpoint()
    return type(record).__name__.lower()


def frames(message: Message, tag: int) -> bytes:
    """A message as the broker sends it: two frames, or three where it has a body."""
    routing_key, header, body = message
    key = routing_key.encode()[:255]
    method = DELIVER + b"\x01c" + tag.to_bytes(8, "big") + b"\x00\x01x" + bytes([len(key)]) + key
    header = header[:4] + len(body).to_bytes(8, "big") + header[12:]
    parts = [(METHOD, method), (HEADER, header), *([(BODY, body)] if body else [])]
    return b"".join(frame(kind, CHANNEL, part) for kind, part in parts)


def survives_frames(data: bytes, chance: random.Random) -> str:
    """Give the frame reader bytes in two pieces; its deliveries go the whole way."""
    splitter, deliveries = DeliverySplitter(), list[Arrival]()
    splitter.divert(CHANNEL, deliveries.extend)
    cut = chance.randrange(len(data) + 1)
    splitter.feed(data[:cut])
    splitter.feed(data[cut:])
    for delivery in deliveries:
        parse(delivery.routing_key, delivery.header, delivery.body, 0)
    return "deliveries" if deliveries else "no delivery"


def clock(chance: random.Random, levels: int = 6) -> Any:
    """An event tree in the paper's form, with small heights and large ones."""
    height = chance.choice((0, 1, 255, 2**16, 2**40, 2**63, chance.randrange(300)))
    if levels == 0 or chance.random() < 0.2:
        return height
    return height, clock(chance, levels - 1), clock(chance, levels - 1)


def survives_clock(data: bytes, sound: Stamp, chance: random.Random) -> str:
    """Do with a packed clock what is done with clocks; what is compiled gets it unchecked, too."""
    path = "".join(chance.choices("01", k=chance.randrange(9)))
    stored = Stamp(path, data)
    for use in (
        lambda: packed_height_at(data, path),
        lambda: stored.join(sound.peek()),
        lambda: sound.join(stored.peek()),
        lambda: stored.leq(sound) and sound.leq(stored),
        lambda: receive(stored),
        lambda: receive(stored, sound, stored),
    ):
        with suppress(MalformedError):
            use()
    try:
        text = packed_text(data)
        code = encode(stored)
        clock = unpack(data, path)
    except MalformedError:
        return "no clock"
    if pack(clock) != data or str(unpack(data)) != text or decode(code) != clock:
        raise AssertionError(f"the clock {data!r} is not what it was")
    return "clock"


def fuzz(inputs: int, *, repeatable: bool = False) -> Counter[str]:
    """Try up to this many inputs, new ones each time; returns how many were taken for what.

    Fewer if hypothesis runs out of new ones. If ``repeatable``, they are always the same.
    """
    outcomes: Counter[str] = Counter()

    @settings(
        max_examples=-(-inputs // (4 * DAMAGED)),
        derandomize=repeatable,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(messages(), st.integers(0, 2**32))
    def whatever_comes_is_survived(message: Message, seed: int) -> None:
        routing_key, header, body = message
        rules = Rules(BUILT_IN)
        tracker = Tracker(Policy.channel, Bounds(copies=100, handovers=100), rules=rules)
        chance = random.Random(seed)
        for broken in damaged(header, chance):
            for key in (routing_key, "deliver.q"):
                outcomes[survives((key, broken, body), tracker)] += 1
        for broken in damaged(frames(message, 1) + frames(message, 2), chance):
            outcomes[survives_frames(broken, chance)] += 1
        sound = Stamp.from_trees(0, clock(chance))
        for broken in damaged(pack(Stamp.from_trees(0, clock(chance))), chance):
            outcomes[survives_clock(broken, sound, chance)] += 1

    whatever_comes_is_survived()
    return outcomes


def main(inputs: int) -> int:
    """Run until this many inputs were tried; returns 0, since nothing broke."""
    tried = 0
    total: Counter[str] = Counter()
    while tried < inputs:  # hypothesis ends a run early if it runs out of new inputs
        total += fuzz(inputs - tried)
        tried = total.total()
    print(f"{tried} inputs, none broke anything: {dict(total)}")
    return os.EX_OK


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else INPUTS))
