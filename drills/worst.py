"""The messages that cost the most for their bytes, among those that any client may send.

    python -m drills.worst                   what each costs, in processor time
    python -m drills.worst --broker          a hundred of each a second, to a real service
    python -m drills.worst --broker PATTERN  of those whose names have this

It exits with 1 if a message took more than 5 ms.

With a broker, messages come as fast as that takes them, up to `PER_SECOND` and `RATE` bytes.
Meanwhile `/health/live` is asked all the time, and behind each kind a search for text. A kind is
too much if an answer took more than `LIVE_SECONDS`, the search failed, or all was stored more than
`BEHIND_SECONDS` after the broker had handed the last to a reader beside, which does nothing else.
Seconds in which the service was ready and other programs had the processors are shown and do not
count: it lets them go first (docs/overhead.md), and for the dearest the broker takes so much time
that two processors are not enough for a hundred a second.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from operator import itemgetter
from pathlib import Path
from struct import pack
from typing import NamedTuple

import httpx2
import pamqp.frame
from pamqp import commands
from sqlalchemy import make_url

from app.background import end as stop
from app.broker._wire import DeliverySplitter
from app.broker.deliveries import Arrival
from app.broker.firehose import TRACE_EXCHANGE, parse
from app.interpreter import tune_interpreter
from app.store.capture._rows import event_rows
from app.store.database.sqlite import Sqlite
from app.tracker import Bounds, Policy, Publish, Settlement, Tracker, Unreadable
from app.tracker.digest import digest
from app.tracker.links import BUILT_IN, Rules
from drills.flood import answer, connected, end
from drills.service import Service
from model.bodies import MOST_BYTES, MOST_DIGITS, MOST_VALUES, searchable
from model.deaths import deaths_of
from model.error_queues import forward_of
from model.message_types import type_of
from spark_jobs.reports.message_fields import fields_of
from tools.frames import BODY, HEADER, frame
from tools.servers import RabbitNode

MOST_SECONDS, LIVE_SECONDS, BEHIND_SECONDS = 0.005, 0.2, 1.0
PER_SECOND, SECONDS, RATE = 100, 3, 32 * 1024 * 1024
STORED_SECONDS = 120.0  # at most
HASHED_APART = 16 * 1024  # bytes of a body: its digest is made beside the event loop
KEPT = 64 * 1024  # bytes of a body that are stored
FRAME = 130_000  # bytes of headers: a frame has 128 KiB, and the broker adds some
MOST_HEADER = 128 * 1024 - 8
LARGE = 16 * 1024 * 1024
"""Of bodies that are not read; larger ones take longer to arrive."""
BESIDE, MOST_UNREAD = "beside", 50
MASSTRANSIT = b"application/vnd.masstransit+json"
_ERROR = b"EasyNetQ.SystemMessages.Error"


class Message(NamedTuple):
    """A message as a client sends it: its fields of a content header, its headers encoded."""

    body: bytes
    headers: bytes = b""
    content_type: bytes = MASSTRANSIT
    content_encoding: bytes = b""
    type: bytes = b""

    @property
    def header(self) -> bytes:
        """The payload of its header frame."""
        fields = ((15, self.content_type), (14, self.content_encoding), (5, self.type))
        flags = sum(1 << bit for bit, field in fields if field) | bool(self.headers) << 13
        texts = [bytes([len(field)]) + field if field else b"" for _, field in fields]
        texts.insert(2, counted(self.headers) if self.headers else b"")
        return pack(">HHQH", 60, 0, len(self.body), flags) + b"".join(texts)

    def traced(self, *, queue: str = "") -> bytes:
        """The same of its trace message: of its publish, or of a delivery from a queue."""
        names = ("content_type", "content_encoding", "type")
        said = {name: text(getattr(self, name)) for name in names if getattr(self, name)}
        if self.headers:
            said["headers"] = b"F" + counted(self.headers)
        fields = {
            **{name: text(b"x") for name in ("exchange_name", "node", "connection", "user")},
            "channel": b"I\0\0\0\1",
            "routing_keys": array(text(b"k")),
            "properties": table(said),
            **({"redelivered": b"t\0"} if queue else {"routed_queues": array(text(b"q"))}),
        }
        return pack(">HHQH", 60, 0, len(self.body), 1 << 13) + table(fields)[1:]


def counted(data: bytes) -> bytes:
    """Bytes behind their length."""
    return pack(">I", len(data)) + data


def text(data: bytes) -> bytes:
    """A text of a table."""
    return b"S" + counted(data)


def array(*values: bytes) -> bytes:
    """An array of a table's values."""
    return b"A" + counted(b"".join(values))


def entries(values: Mapping[bytes, bytes] | Mapping[str, bytes]) -> bytes:
    """The inside of a table."""
    names = [(name.encode() if isinstance(name, str) else name) for name in values]
    pairs = zip(names, values.values(), strict=True)
    return b"".join(bytes([len(name)]) + name + value for name, value in pairs)


def table(values: Mapping[bytes, bytes] | Mapping[str, bytes]) -> bytes:
    """A table of a table's values."""
    return b"F" + counted(entries(values))


def _tables() -> Iterator[tuple[str, Message]]:
    """Headers."""
    for value, counts in ((b"V", (2_200, FRAME // 5)), (text(b"\xff"), (2_200, FRAME // 10))):
        for count in counts:
            many = {b"\xff" + pack(">H", number): value for number in range(count)}
            yield (
                f"{count} odd {'names' if value == b'V' else 'texts'}",
                Message(b"{}", entries(many)),
            )
    for count in (8_900, FRAME // 5):
        for name, value in (
            ("bytes", b"x\0\0\0\0"),
            ("tables", b"F\0\0\0\0"),
            ("reals", b"f\0\0\0\1"),
        ):
            yield f"{count} {name}", Message(b"{}", entries({b"a": array(*[value] * count)}))
    for name, odd in (("octets", b"\xff"), ("NULs", b"\0"), ("halves", b"\xed\xa0\x80")):
        yield f"a text of {name}", Message(b"{}", entries({b"a": text(odd * (FRAME // len(odd)))}))
        keys = array(*[text(odd * (250 // len(odd)))] * (FRAME // 260))
        yield f"keys of {name}", Message(b"{}", entries({b"CC": keys}))
    octets = b"x" + counted(b"\xff" * FRAME)
    yield "bytes that are no text", Message(b"{}", entries({b"a": octets}))
    for count in (64, 250, FRAME // 72):
        died = {"reason": text(b"rejected"), "count": b"I\0\0\0\5", "exchange": text(b"x")}
        deaths = [table({"queue": text(b"q%d" % number), **died}) for number in range(count)]
        brought = entries({b"x-death": array(*deaths)})
        yield f"{count} deaths", Message(b"a" * 16_000, brought)
        yield f"{count} deaths of a large body", Message(b"a" * LARGE, brought)
    nested = b"[" * 400 + b"{}," * 3_000
    for name in ("x-exception-stacktrace", "rbs2-error-details"):
        trace = (b"Caused by: a\n" if "trace" in name else nested + b"'") * (FRAME // 10_000)
        yield name, Message(b"{}", entries({name: text(trace[:FRAME])}))


def _json() -> Iterator[tuple[str, bytes]]:
    """JSON just within the bounds and far beyond them, right or wrong at its end."""
    for count in (MOST_VALUES - 10, MOST_BYTES // 4):
        half, two = count // 2, count // 2 * b"[],"
        yield "tables", b"[" + b"{}," * half + b"{}]"
        yield "lists, then NaN", b"[" + two + b"NaN]"
        yield "lists, then half", b"[" + two + b'"\\ud8'
        yield "lists of Latin-1", b"[" + two + b'"\xff"]'
        yield "names", b"{" + b",".join(b'"%x":1' % number for number in range(count)) + b"}"
        yield "names, then NaN", b"{" + b"".join(b'"%x":1,' % n for n in range(count)) + b'"":NaN}'
    for digits in (MOST_DIGITS, 4_300):
        yield "digits", b"[" + (b"1" * digits + b",") * (MOST_BYTES // digits - 2) + b"1]"
    yield "escapes", b'["' + b"\\ud83d" * (MOST_BYTES // 6 - 2) + b'"]'
    yield "quotes", b"[" * 501 + b'""' * (MOST_BYTES // 2 - 400)
    yield "backslashes", b"[" * 501 + b'"' + b"\\\\" * (MOST_BYTES // 2 - 400)
    yield "UTF-16", ("[" + "1," * 5_000 + "'").encode("utf-16-le")


def _bodies() -> Iterator[tuple[str, Message]]:
    """Bodies, and what they unpack to."""
    for number, (name, body) in enumerate(_json()):
        yield f"JSON {number}, {name}", Message(body)
        yield f"JSON {number}, {name}, packed", Message(gzip.compress(body, 9, mtime=0))
        error = b'{"RoutingKey":' + body[:-1]
        yield f"JSON {number}, {name}, of an error queue", Message(error, type=_ERROR)
    for size in (MOST_BYTES - 4, LARGE):
        halves = b"\xff\xfe" + b"\x00\xd8" * (size // 2)
        yield f"UTF-16 of {size} bytes", Message(halves)
        yield f"UTF-16 of {size} bytes, packed", Message(gzip.compress(halves, 9, mtime=0))
        yield f"{size} bytes", Message(b"\x01" * size)
        yield f"{size} bytes, packed", Message(gzip.compress(bytes(size), 9, mtime=0))
        yield f"{size} bytes, odd", Message(b'{"RoutingKey":["' + b"\xff" * size, type=_ERROR)
    for size in (990_000, LARGE):
        value = b"\0Sw\xb1" + counted(b"\xe2\x82\xac" * (size // 3))
        yield f"AMQP 1.0, text of {size} bytes", Message(value, type=b"amqp-1.0")
    for name, value in (
        ("nulls", b"\x40"),
        ("times", b"\x83" + b"\1" * 8),
        ("ids", b"\x98" + bytes(16)),
    ):
        for count in (1_990, 60_000):
            values = pack(">II", 4 + len(value) * count, count) + value * count
            listed = Message(b"\0Sw\xd0" + values, type=b"amqp-1.0")
            yield f"AMQP 1.0, {count} {name}", listed
    nothing = pack(">II", 5, 2**31) + b"\x45"
    yield "AMQP 1.0, lists of no bytes", Message(b"\0Sw\xf0" + nothing, type=b"amqp-1.0")


def messages() -> dict[str, Message]:
    """All of them, by name; a client may send each."""
    made = {**dict(_tables()), **dict(_bodies())}
    for name, message in made.items():
        if len(message.header) > MOST_HEADER:
            raise ValueError(
                f"{name}: {len(message.header):,} bytes of header, more than a frame has"
            )
    return made


class World:
    """What a message goes through, from its header frame's payload to a row, and out of it."""

    def __init__(self) -> None:
        self.tracker = Tracker(Policy.channel, Bounds(), rules=Rules(BUILT_IN))
        self.dialect = Sqlite(make_url("sqlite:////dev/null"))
        self.cost = 0.0  # s of processor time, of the last message

    def take(self, message: Message) -> str:
        """Capture a message and two deliveries of it, of which one comes from nowhere.

        :returns: what it was taken for.
        """
        made = sha256(message.body).digest() if len(message.body) > HASHED_APART else b""
        costs, outcome = [], ""
        for routing_key, queue in (("deliver.gone", "gone"), ("deliver.q", "q"), ("publish.x", "")):
            header = message.traced(queue=queue)
            began = time.thread_time()
            outcome = self._take(routing_key, header, message.body, made)
            costs.append(time.thread_time() - began)
        began = time.thread_time()
        read_again(message)
        self.cost = max(*costs, time.thread_time() - began)
        return outcome

    def _take(self, routing_key: str, header: bytes, body: bytes, made: bytes) -> str:
        record = parse(routing_key, header, body, 0, made)
        digest(record)
        if isinstance(record, Unreadable):
            return f"quarantined: {record.reason}"
        assert not isinstance(record, Settlement)
        events = self.tracker.apply(record, 0)
        event_rows(self.dialect, 1, events, KEPT, {})
        return "taken"


def read_again(message: Message) -> None:
    """What searches, lists and jobs read in a stored message, as far as it may be odd."""
    header = message.traced()
    record = parse("publish.x", header, message.body[:KEPT], 0)
    if not isinstance(record, Publish):
        return
    where = record.exchange, record.routing_keys
    searchable(record.body, message.content_encoding.decode(), True)
    forward_of(record.properties, *where, record.body)
    type_of(record.properties, *where, record.body)
    deaths_of(record.properties)
    fields_of(record.properties, record.body, Counter())


def clocked(rounds: int = 3) -> Iterator[tuple[str, float, str]]:
    """Each message, what it costs at most at a time (s), and what it is taken for."""
    for name, message in messages().items():
        worlds = [World() for _ in range(rounds)]
        outcome, *_ = [world.take(message) for world in worlds]
        yield name, min(world.cost for world in worlds), outcome


class Beside:
    """A reader of the trace beside the service, which counts messages of a body."""

    def __init__(self) -> None:
        self.body, self.count = b"", 0

    def _take(self, arrivals: list[Arrival]) -> None:
        self.count += sum(each.body == self.body for each in arrivals)

    @asynccontextmanager
    async def reading(self, url: str) -> AsyncIterator[None]:
        """Read until the block ends."""
        reader, writer = await connected(url)
        for method in (
            commands.Queue.Declare(queue=BESIDE, exclusive=True),
            commands.Queue.Bind(queue=BESIDE, exchange=TRACE_EXCHANGE, routing_key="#"),
            commands.Basic.Consume(queue=BESIDE, no_ack=True),
        ):
            writer.write(pamqp.frame.marshal(method, 1))
            await answer(reader)
        task = asyncio.create_task(self._read(reader))
        try:
            yield
        finally:
            await stop(task)
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        splitter = DeliverySplitter()
        splitter.divert(1, self._take)
        while data := await reader.read(1024 * 1024):
            splitter.feed(data)

    async def has(self, count: int) -> None:
        """Wait until this many have come."""
        while self.count < count:  # noqa: ASYNC110  whoever reads is not to wake others
            await asyncio.sleep(0.005)


async def send(url: str, message: Message, beside: Beside) -> int:
    """Send a message for `SECONDS`, and wait until all were read beside; returns how many."""
    reader, writer = await connected(url)
    method = pamqp.frame.marshal(commands.Basic.Publish(routing_key="nowhere"), 1)
    body = [message.body[at : at + FRAME] for at in range(0, len(message.body), FRAME)]
    parts = frame(HEADER, 1, message.header), *(frame(BODY, 1, part) for part in body)
    data = method + b"".join(parts)
    most = max(1, min(PER_SECOND * SECONDS, SECONDS * RATE // len(data)))
    beside.body, beside.count = message.body, 0
    began, count = time.monotonic(), 0
    while count < most and time.monotonic() < began + 2 * SECONDS:
        writer.write(data)
        await writer.drain()
        count += 1
        await beside.has(count - MOST_UNREAD)
        await asyncio.sleep(max(0.0, began + SECONDS * count / most - time.monotonic()))
    await beside.has(count)
    await end(reader, writer)
    return count


def waited(*pids: int) -> float:
    """Seconds for which the event loops of processes were ready, and others had the processors."""
    told = [Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split() for pid in pids]
    return sum(int(each[1]) for each in told) / 1e9


def worked(*pids: int) -> list[float]:
    """Seconds of processor time that processes have taken, for each."""
    told = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return [(int(each[11]) + int(each[12])) / os.sysconf("SC_CLK_TCK") for each in told]


class Seconds(NamedTuple):
    """A time, and the part of it that is the service's own: it did not wait for a processor."""

    whole: float
    own: float

    def __str__(self) -> str:
        return f"{self.whole:.3f} s ({self.own:.3f} own)"


async def _live(service: Service, answers: list[Seconds]) -> None:
    place = f"http://127.0.0.1:{service.port}/health/live"
    pids = service.process.pid, os.getpid()
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        while True:
            began, before = time.monotonic(), waited(*pids)
            (await client.get(place)).raise_for_status()
            took = time.monotonic() - began
            answers.append(Seconds(took, max(0.0, took - (waited(*pids) - before))))
            await asyncio.sleep(0.02)


async def sent(broker: RabbitNode, pattern: str) -> int:
    """Send each kind to a service, and to a new one behind one that failed; how many were wrong."""
    left = [(name, message) for name, message in messages().items() if pattern in name]
    wrong = 0
    while left:
        with tempfile.TemporaryDirectory() as place, broker.fresh_vhost("worst") as vhost:
            service = Service(broker, f"sqlite:///{Path(place) / 'itc.db'}", Path(place))
            url = broker.amqp_url(vhost)
            beside = Beside()
            async with service.tracing(vhost), beside.reading(url):
                is_well = True
                while left and is_well:
                    name, message = left.pop(0)
                    try:
                        is_wrong, figures = await _sent(broker, service, url, message, beside)
                    except (TimeoutError, httpx2.HTTPError) as failure:
                        is_well, is_wrong, figures = False, True, repr(failure)
                    wrong += is_wrong
                    print("!" if is_wrong else " ", figures, name, flush=True)
    return wrong


async def _sent(
    broker: RabbitNode, service: Service, url: str, message: Message, beside: Beside
) -> tuple[bool, str]:
    """Send one kind; whether it was too much, and its figures."""
    answers = [Seconds(0.0, 0.0)]
    pids = broker.pid, service.process.pid
    before, work, began = await _seen(service), worked(*pids), time.monotonic()
    asking = asyncio.create_task(_live(service, answers))
    try:
        async with asyncio.timeout(STORED_SECONDS):
            before_sent = waited(pids[1])
            count = await send(url, message, beside)
            read = time.monotonic()
            while await _seen(service) < before + count:  # noqa: ASYNC110  asking tells
                await asyncio.sleep(0.05)
            took = time.monotonic() - read
            behind = Seconds(took, max(0.0, took - (waited(pids[1]) - before_sent)))
        if asking.done():
            asking.result()
    finally:
        await stop(asking)
    costs = [1000 * (now - then) / count for now, then in zip(worked(*pids), work, strict=True)]
    began_search = time.monotonic()
    await service.get("", q="Müller/7", page_size=10)
    search = time.monotonic() - began_search
    live = Seconds(*map(max, zip(*answers, strict=True)))
    rate = count / (read - began)
    figures = (
        f"live {live}, behind {behind}, search {search:.3f} s, {rate:.0f} a second; "
        f"broker {costs[0]:.1f} ms, service {costs[1]:.1f} ms of a processor each:"
    )
    return live.own > LIVE_SECONDS or behind.own > BEHIND_SECONDS, figures


async def _seen(service: Service) -> int:
    """How many messages are stored, or quarantined."""
    (trace,) = await service.get("traces")
    return int(trace["events"]) + int(trace["counters"]["quarantined"])


async def on_a_broker(pattern: str) -> int:
    """Send all of them on a private broker; 1 if any was too much."""
    with RabbitNode() as broker:
        return int(await sent(broker, pattern) > 0)


def main() -> int:
    """Clock all of them; 1 if any is too dear."""
    tune_interpreter()
    costs = [*clocked()]
    for name, cost, outcome in sorted(costs, key=itemgetter(1)):
        print(f"{1000 * cost:9.2f} ms  {name}: {outcome}")
    return os.EX_OK if max(cost for _, cost, _ in costs) <= MOST_SECONDS else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m drills.worst")
    parser.add_argument("--broker", nargs="?", const="", metavar="PATTERN")
    pattern = parser.parse_args().broker
    sys.exit(main() if pattern is None else asyncio.run(on_a_broker(pattern)))
