"""No state of a connection lasts for as long as a client likes, and nobody takes them all."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from fastapi import FastAPI

from app import protocol
from app.api.layers import bodies
from app.api.layers.metrics import HttpMetrics
from app.connections import Admission, descriptors, open_admission
from app.protocol import ConnectionPhase, GuardedProtocol
from app.server import Server, bind, configuration
from app.settings import Settings
from tests.api.conftest import World, make_world
from tests.api.fakes import Clock, basic
from tests.api.story import SHOP, publish

LIVE = b"GET /health/live HTTP/1.1\r\nhost: x\r\n"
TRACE = b"/itc_db/shop/undefined/undefined/undefined"
[(NAME, VALUE)] = basic("admin", "secret").items()
SIGNED_IN = f"{NAME}: {VALUE}\r\n".encode()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the service wait for no client as long as 0.3 seconds."""
    monkeypatch.setattr(bodies, "REQUEST_SECONDS", 0.2)
    monkeypatch.setattr(protocol, "KEEP_ALIVE_SECONDS", 0.2)
    monkeypatch.setattr(protocol, "SEND_SECONDS", 0.2)


class Running:
    """A server under test, and the clients that have connected to it."""

    def __init__(self, server: Server, app: FastAPI, port: int) -> None:
        self.server = server
        self.metrics: HttpMetrics = app.state.http_metrics
        self.port = port
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def connections(self) -> list[GuardedProtocol]:
        return cast(list[GuardedProtocol], list(self.server.server_state.connections))

    async def connect(self, data: bytes = b"") -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._writers.append(writer)
        writer.write(data)
        return Client(reader, writer)

    def cut(self, state: str) -> float:
        return self.metrics.cut.labels(state)._value.get()

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def answer(self) -> bytes:
        """One answer, with a body where it has a length."""
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 30)
        length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
        return head + await self.reader.readexactly(int(length or 0))

    async def until_closed(self) -> bytes:
        with contextlib.suppress(ConnectionResetError):
            return await asyncio.wait_for(self.reader.read(), 30)
        return b""


@asynccontextmanager
async def running(world: World, *, send_buffer: int = 0) -> AsyncIterator[Running]:
    app, listener = world.app(), bind(world.settings)
    if send_buffer:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    server = Server(configuration(app, world.settings))
    async with app.router.lifespan_context(app):
        task = asyncio.create_task(server.serve(sockets=[listener]))
        one = Running(server, app, listener.getsockname()[1])
        try:
            yield one
        finally:
            one.close()
            app.state.services.stopping.set()
            server.stop()
            await task


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  the server's numbers are no events
            await asyncio.sleep(0.01)


PUT = b"PUT " + TRACE + b" HTTP/1.1\r\nhost: x\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n\r\n"


@dataclass
class Silence:
    """What a client sends before it falls silent, and what becomes of it."""

    data: bytes
    answers: list[bytes]  # their statuses
    cut: (
        ConnectionPhase | None
    )  # what the service found the connection in; None: it closed it by itself
    trickle: bytes = b"x"  # more of the same


SILENCES = {
    "nothing at all": Silence(b"", [], ConnectionPhase.head, b"\r\n"),
    "half a request line": Silence(b"GET /health", [], ConnectionPhase.head),
    "half a header": Silence(LIVE + b"x-a: b", [], ConnectionPhase.head),
    "one request": Silence(LIVE + b"\r\n", [b"200"], ConnectionPhase.idle, b"\r\n"),
    "a blank line behind an answer": Silence(
        LIVE + b"\r\n\r\n", [b"200"], ConnectionPhase.idle, b"\r\n"
    ),
    "a byte behind an answer": Silence(LIVE + b"\r\nG", [b"200"], ConnectionPhase.head, b""),
    "half a second head": Silence(
        LIVE + b"\r\nGET / HTTP/1.1\r\nhost: x", [b"200"], ConnectionPhase.head
    ),
    "a body that nobody reads": Silence(
        LIVE + b"content-length: 999\r\n\r\n1", [b"400"], ConnectionPhase.body
    ),
    "a chunk that nobody reads": Silence(
        LIVE + CHUNKED + b"fff\r\n1", [b"400"], ConnectionPhase.body
    ),
    "a chunk's extension": Silence(LIVE + CHUNKED + b"5;a=", [b"400"], ConnectionPhase.body),
    "a trailer": Silence(LIVE + CHUNKED + b"0\r\nx-a: b", [b"400"], ConnectionPhase.body),
    "a body after a refusal": Silence(
        PUT + b"content-length: 999\r\n\r\n1", [b"401"], ConnectionPhase.body
    ),
    "a body that the application reads": Silence(
        PUT + SIGNED_IN + b"content-length: 999\r\n\r\n1", [b"408"], None
    ),
    "a body that is waited for": Silence(
        PUT + SIGNED_IN + b"expect: 100-continue\r\ncontent-length: 999\r\n\r\n",
        [b"100", b"408"],
        None,
    ),
    "two requests and a half": Silence(
        2 * (LIVE + b"\r\n") + LIVE + b"x-a: b", [b"200", b"200"], ConnectionPhase.head
    ),
    "an upgrade": Silence(
        LIVE + b"connection: upgrade\r\nupgrade: h2c\r\n\r\nPRI *", [b"200"], None
    ),
    "no request of HTTP": Silence(b"\x16\x03\x01\x00\r\n\r\n", [b"400"], ConnectionPhase.closing),
    "no request behind an answer": Silence(LIVE + b"\r\n\x16\x03\r\n\r\n", [b"200"], None),
    "a body that is none": Silence(
        PUT + SIGNED_IN + CHUNKED + b"no\r\n", [b"400"], ConnectionPhase.closing
    ),
}


@pytest.fixture(params=SILENCES)
def silence(request: pytest.FixtureRequest, impatient: None) -> Silence:
    return SILENCES[request.param]


async def test_a_client_that_falls_silent_is_let_go(
    tmp_path: Path, silence: Silence, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(make_world(tmp_path)) as server:
        answers = await (await server.connect(silence.data)).until_closed()
        await until(lambda: not server.connections)
        cuts = {state for state in ConnectionPhase if server.cut(state)}

    assert [part[:3] for part in answers.split(b"HTTP/1.1 ")[1:]] == silence.answers
    assert cuts == ({silence.cut} if silence.cut else set())
    assert not server.server.server_state.tasks
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_one_more_byte_behind_an_answer_holds_nothing(
    tmp_path: Path, silence: Silence
) -> None:
    async with running(make_world(tmp_path)) as server:
        client = await server.connect(silence.data)
        for status in silence.answers:
            assert (await client.answer())[9:12] == status
        client.writer.write(silence.trickle[:1])
        await until(lambda: not server.connections)


async def test_a_trickle_prolongs_nothing(tmp_path: Path, silence: Silence) -> None:
    async with running(make_world(tmp_path)) as server:
        client = await server.connect(silence.data)
        ended = asyncio.create_task(client.until_closed())
        async with asyncio.timeout(30):
            while server.connections or not ended.done():
                client.writer.write(silence.trickle)
                await asyncio.wait({ended}, timeout=0.02)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("header", [b"", b"connection: close\r\n"])
async def test_an_end_that_nobody_reads_is_not_kept(tmp_path: Path, header: bytes) -> None:
    """So little that the transport does not say that it waits."""
    world = make_world(tmp_path)
    async with running(world, send_buffer=4_096) as server:
        await world.tell(*[publish(SHOP, "news", body=b"x" * 1_000)] * 25)
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_304)
            client.connect(("127.0.0.1", server.port))
            client.sendall(
                b"GET /itc_db?page_size=25 HTTP/1.1\r\nhost: x\r\n" + SIGNED_IN + header + b"\r\n"
            )
            await until(lambda: server.cut(ConnectionPhase.unread) == 1)
            await until(lambda: not server.connections)


async def test_requests_that_wait_for_an_earlier_answer_are_not_the_clients_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "REQUEST_SECONDS", 0.2)
    world = make_world(tmp_path)
    poll = b"GET /itc_db?after=999999&wait=1 HTTP/1.1\r\nhost: x\r\n" + SIGNED_IN + b"\r\n"
    async with running(world) as server:
        client = await server.connect(poll + 3 * (LIVE + b"\r\n") + LIVE)
        statuses = [(await client.answer())[9:12] for _ in range(4)]
        client.writer.write(b"\r\n")
        statuses.append((await client.answer())[9:12])

    assert statuses == [b"200"] * 5


@pytest.mark.usefixtures("impatient")
async def test_few_requests_wait_on_a_connection(tmp_path: Path) -> None:
    async with running(make_world(tmp_path)) as server:
        client = await server.connect(5_000 * (LIVE + b"\r\n"))
        answers = await client.until_closed()

    assert answers.count(b"HTTP/1.1 200 ") == 1 + 16
    assert b"HTTP/1.1 4" not in answers  # it would be taken for the answer to the next


async def test_little_of_what_waits_for_an_earlier_answer_is_kept(tmp_path: Path) -> None:
    tail = b"GET /itc_db/live HTTP/1.1\r\nhost: x\r\n" + SIGNED_IN + b"\r\n"
    body = PUT + b"content-length: 99999999\r\n\r\n" + b"x" * 8_000_000
    async with running(make_world(tmp_path)) as one:
        client = await one.connect((LIVE + b"\r\n") * 12 + tail + body)
        for _ in range(12):
            await client.answer()
        await client.reader.readuntil(b"event-stream")
        [connection] = one.connections
        await until(lambda: connection.flow.read_paused)
        [(waiting, _)] = connection.pipeline

        assert len(waiting.body) <= bodies.BODY_BYTES + 1


async def test_a_body_that_may_be_larger_arrives_whole(tmp_path: Path) -> None:
    body = b" " * 3_000_000 + b"{}"
    head = b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n" + SIGNED_IN
    async with running(make_world(tmp_path, otlp=True)) as one:
        client = await one.connect(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        answer = await client.answer()

    assert answer.startswith(b"HTTP/1.1 200 "), answer


async def test_an_answer_lets_no_more_in_while_requests_wait(tmp_path: Path) -> None:
    async with running(make_world(tmp_path)) as one:
        client = await one.connect((LIVE + b"\r\n") * 6)
        [connection] = await _connections(one)
        paused = list[tuple[int, bool]]()
        respond = connection.on_response_complete

        def noted() -> None:
            respond()
            paused.append((len(connection.pipeline), connection.flow.read_paused))

        connection.on_response_complete = noted  # type: ignore[method-assign]
        client.writer.write((LIVE + b"\r\n") * 6)
        for _ in range(12):
            await client.answer()

        assert [number > 0 for number, _ in paused] == [is_paused for _, is_paused in paused]
        assert any(number for number, _ in paused)


async def test_one_address_does_not_keep_another_waiting(tmp_path: Path) -> None:
    async with running(make_world(tmp_path)) as one:
        for _ in range(100):
            await one.connect((LIVE + b"\r\n") * 16)
        await until(lambda: len(one.connections) == 100)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", one.port, local_addr=("127.0.0.2", 0)
        )
        before = one.server.server_state.total_requests
        writer.write(LIVE + b"connection: close\r\n\r\n")
        assert (await asyncio.wait_for(reader.read(), 30)).startswith(b"HTTP/1.1 200")
        served = one.server.server_state.total_requests - before
        writer.close()

    assert served < 400  # of 1600; all connections have one turn each, again and again


async def _connections(one: Running) -> list[GuardedProtocol]:
    await until(lambda: bool(one.connections))
    return one.connections


async def test_an_honest_client_is_served_whatever_waits(tmp_path: Path) -> None:
    world = make_world(tmp_path, connections=40)
    stray = LIVE + b"content-length: 9\r\n\r\n1"
    async with running(world) as server:
        for _ in range(10):
            for data in 20 * [b"", b"GET /", LIVE + b"\r\n\r\n", stray]:
                await server.connect(data)
            honest = await server.connect(LIVE + b"\r\n")
            assert (await honest.answer()).startswith(b"HTTP/1.1 200 ")
        await until(lambda: len(server.connections) <= 20)

        assert server.cut("replaced") == 10 * 81 - 20
        assert server.metrics.connections._value.get() == 20


async def test_who_is_being_served_loses_nothing_to_who_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world(tmp_path, connections=10)
    live = b"GET /itc_db/live HTTP/1.1\r\nhost: x\r\n" + SIGNED_IN + b"\r\n"
    async with running(world) as server:
        readers = [await server.connect(live) for _ in range(5)]
        for reader in readers:
            await asyncio.wait_for(reader.reader.readuntil(b"still here"), 30)
        with caplog.at_level(logging.WARNING, "app.connections"):
            refused = [await (await server.connect()).until_closed() for _ in range(20)]
        await world.tell(publish(SHOP, "news"))
        for reader in readers:
            await asyncio.wait_for(reader.reader.readuntil(b"\ndata: {"), 30)
        counted = server.metrics.refused.labels("address")._value.get()
        readers[0].writer.close()
        await until(lambda: len(server.connections) == 4)
        after = await (await server.connect(LIVE + b"\r\n")).answer()

    assert all(b"HTTP/1.1 503 " in answer and b'"unavailable"' in answer for answer in refused)
    assert counted == 20
    assert [record.message for record in caplog.records] == [
        "1 connection(s) refused: 127.0.0.1 has 5 connections, all with requests under way "
        "(ITC_CONNECTIONS)"
    ]
    assert after.startswith(b"HTTP/1.1 200 ")


async def test_a_named_proxy_is_bounded_by_the_total_alone(tmp_path: Path) -> None:
    world = make_world(tmp_path, connections=6, trusted_proxies="127.0.0.0/8")
    live = b"GET /itc_db/live HTTP/1.1\r\nhost: x\r\nx-forwarded-for: ::1\r\n" + SIGNED_IN
    async with running(world) as server:
        for _ in range(6):
            reader = await server.connect(live + b"\r\n")
            await asyncio.wait_for(reader.reader.readuntil(b"still here"), 30)
        refused = await (await server.connect()).until_closed()

        assert b"HTTP/1.1 503 " in refused
        assert server.metrics.refused.labels("total")._value.get() == 1


async def test_a_thousand_readers_of_the_live_tail_may_come_from_one_address(
    tmp_path: Path,
) -> None:
    if descriptors() < 4_096:
        pytest.skip("both ends of a thousand connections need more descriptors")
    world = make_world(tmp_path)
    live = b"GET /itc_db/live HTTP/1.1\r\nhost: x\r\n" + SIGNED_IN + b"\r\n"
    async with running(world) as server:
        for _ in range(1_000):
            await server.connect(live)
        await until(lambda: world.subscribers.count == 1_000)

        assert not any(
            each.value
            for each in server.metrics.refused.collect()[0].samples
            if each.name.endswith("_total")
        )


@pytest.mark.parametrize(
    ("chosen", "available", "all_and_one"),
    [
        ({}, 1_024, (640, 320)),
        ({}, 65_536, (4_096, 2_048)),
        ({"connections": 100}, 1_024, (100, 50)),
        ({"connections": 100_000}, 1_024, (640, 320)),
    ],
)
def test_bounds_leave_descriptors_to_the_service(
    chosen: dict[str, int],
    available: int,
    all_and_one: tuple[int, int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    connections = open_admission(Settings(_env_file=None, **chosen), HttpMetrics(), available)

    assert (connections.capacity, connections.capacity_of_one) == all_and_one
    assert bool(caplog.records) == (chosen.get("connections", 0) > available)


class Plain:
    """A connection that only notes that it was cut off."""

    given_up = False

    def give_up(self) -> None:
        self.given_up = True


def test_the_longest_waiting_goes_first_and_never_one_at_work() -> None:
    connections = Admission(3, 3, HttpMetrics())
    first, second, third, fourth, fifth = (Plain() for _ in range(5))
    for each, address in ((first, "10.0.0.1"), (second, "10.0.0.2"), (third, "10.0.0.3")):
        assert connections.admit(each, address)
    connections.works(first)
    connections.works(second)
    connections.waits(second)  # from now on, so after the third

    assert connections.admit(fourth, "10.0.0.4")
    assert [each.given_up for each in (first, second, third)] == [False, False, True]
    for each in (second, fourth):
        connections.works(each)
    assert not connections.admit(fifth, "10.0.0.5")
    connections.release(first)
    assert connections.admit(fifth, "10.0.0.5")
    assert len(connections) == 3


def test_one_network_is_one_address() -> None:
    connections = Admission(10, 1, HttpMetrics())
    one, other, far = Plain(), Plain(), Plain()
    assert connections.admit(one, "2001:db8::1")
    connections.works(one)

    assert not connections.admit(other, "2001:db8::2")
    assert connections.admit(far, "2001:db8:0:1::1")


def test_refusals_are_logged_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    connections = Admission(1, 1, HttpMetrics(), clock=clock)
    held = Plain()
    connections.admit(held, "10.0.0.1")
    connections.works(held)
    for _ in range(100):
        assert not connections.admit(Plain(), "10.0.0.1")
    clock.now += 61
    assert not connections.admit(Plain(), "10.0.0.1")

    assert [record.message.split()[0] for record in caplog.records] == ["1", "100"]
