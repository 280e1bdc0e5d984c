"""A browser is not to be used against its user; a client must not use the server up."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from app import protocol
from app.api.layers import bodies
from app.server import Server, bind, configuration
from tests.api.conftest import World, connected, make_world, served
from tests.api.fakes import basic
from tests.api.story import SHOP, publish

TRACE = "/itc_db/shop/undefined/undefined/undefined"
SIGN_IN = ("admin", "secret")


@pytest.mark.parametrize(
    ("path", "status"),
    [("/itc_db/traces", 200), ("/nowhere", 404), ("/itc_db/%ff", 400), (TRACE, 404)],
)
async def test_every_answer_says_what_a_page_may_do(
    client: httpx2.AsyncClient, path: str, status: int
) -> None:
    answer = await client.get(path)

    assert answer.status_code == status
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cache-control"] == "no-store"


async def test_only_the_pages_that_a_setting_names_may_frame_the_dashboard(
    tmp_path: Path,
) -> None:
    world = make_world(tmp_path, frame_ancestors="https://rabbit.example.org,http://10.0.0.1:15672")
    async with connected(world.app()) as client:
        answer = await client.get("/")

    policy = answer.headers["content-security-policy"].split("; ")
    assert "frame-ancestors https://rabbit.example.org http://10.0.0.1:15672" in policy
    assert "default-src 'none'" in policy
    assert "x-frame-options" not in answer.headers


async def test_the_answer_to_a_bug_has_the_headers_and_tells_nothing(
    world: World, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken() -> list[object]:
        raise RuntimeError("amqp://itc:password@host")

    monkeypatch.setattr(world.traces, "statuses", broken)
    answer = await client.get("/itc_db/traces")

    assert answer.status_code == 500
    assert answer.json() == {
        "error": "internal_error",
        "reason": "the service failed; its log says how",
    }
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost.evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "origin": "http://localhost"},
    ],
)
@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST", "PATCH"])
async def test_another_origins_page_changes_nothing(
    world: World, client: httpx2.AsyncClient, method: str, headers: dict[str, str]
) -> None:
    answer = await client.request(method, TRACE, headers=headers)

    assert answer.status_code == 403
    assert answer.json()["error"] == "cross_origin"
    assert world.traces.running == {}
    assert world.broker.questions == 0  # refused before anybody signs in


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://localhost"},
        {"origin": "https://LOCALHOST", "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
    ],
)
async def test_our_own_page_and_plain_clients_may_write(
    client: httpx2.AsyncClient, headers: dict[str, str]
) -> None:
    assert (await client.put(TRACE, headers=headers)).status_code == 201


async def test_cross_origin_reading_is_off(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/itc_db/traces", headers={"origin": "https://ops.example.org"})
    preflight = await client.options(
        TRACE,
        headers={"origin": "https://ops.example.org", "access-control-request-method": "PUT"},
    )

    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert not [name for name in preflight.headers if name.startswith("access-control")]
    assert preflight.status_code == 405


async def test_a_configured_origin_may_read_and_write_and_no_other(tmp_path: Path) -> None:
    world = make_world(tmp_path, cors_origins="https://ops.example.org")
    async with connected(world.app(), auth=SIGN_IN) as client:
        ours = {"origin": "https://ops.example.org", "sec-fetch-site": "cross-site"}
        read = await client.get("/itc_db/traces", headers=ours)
        written = await client.put(TRACE, headers=ours)
        preflight = await client.options(
            TRACE, headers={**ours, "access-control-request-method": "PUT"}
        )
        other = await client.put(TRACE, headers={"origin": "https://evil.example"})
        other_read = await client.get("/itc_db/traces", headers={"origin": "https://evil.example"})

    assert read.headers["access-control-allow-origin"] == "https://ops.example.org"
    assert "access-control-allow-credentials" not in read.headers
    assert written.status_code == 201
    assert preflight.status_code == 200
    assert other.status_code == 403
    assert "access-control-allow-origin" not in other_read.headers


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:15680", "[::1]:15680", "LOCALHOST:1"])
async def test_an_open_service_answers_to_this_machines_names(tmp_path: Path, host: str) -> None:
    async with connected(make_world(tmp_path, auth="none").app()) as client:
        assert (await client.get("/itc_db/traces", headers={"host": host})).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "10.0.0.1:15680"])
async def test_an_open_service_answers_to_no_other_name(tmp_path: Path, host: str) -> None:
    async with connected(make_world(tmp_path, auth="none").app()) as client:
        assert (await client.get("/itc_db/traces", headers={"host": host})).status_code == 403


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded", "via", "x-real-ip"])
async def test_an_open_service_answers_to_nobody_behind_a_proxy(
    tmp_path: Path, header: str
) -> None:
    async with connected(make_world(tmp_path, auth="none").app()) as client:
        answer = await client.get("/itc_db/traces", headers={header: "127.0.0.1"})

    assert answer.status_code == 403


async def test_a_large_body_is_refused(world: World, client: httpx2.AsyncClient) -> None:
    answer = await client.put(TRACE, content=b" " * (bodies.BODY_BYTES + 1))

    assert answer.status_code == 413
    assert answer.json()["error"] == "too_large"
    assert world.traces.running == {}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "body: "),
        (b"[]", "body: "),
        (b'{"participant": "program"}', "body.participant: "),
        (b'{"participant": "user", "more": 1}', "body.more: "),
        (b"\xff", "body: "),
        (b"[" * 60_000, "body: "),
    ],
)
async def test_a_wrong_body_is_named(
    world: World, client: httpx2.AsyncClient, body: bytes, reason: str
) -> None:
    answer = await client.put(TRACE, content=body)

    assert (answer.status_code, answer.json()["error"]) == (400, "bad_request")
    assert answer.json()["reason"].startswith(reason)
    assert world.traces.running == {}


async def test_a_body_is_read_whatever_its_content_type(
    world: World, client: httpx2.AsyncClient
) -> None:
    answer = await client.put(
        TRACE,
        content=b'{"participant": "user"}',
        headers={"content-type": "application/x-www-form-urlencoded"},
    )

    assert answer.status_code == 201
    assert world.traces.running["shop"].policy == "user"


async def test_an_unsupported_method_is_told_which_are_supported(
    client: httpx2.AsyncClient,
) -> None:
    answer = await client.post(TRACE)

    assert (answer.status_code, answer.json()["error"]) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "DELETE, GET, HEAD, PUT"


@pytest.mark.parametrize(
    ("path", "status"), [("/itc_db", 200), ("/itc_db/live", 200), ("/itc_db/events/99", 404)]
)
async def test_head_is_answered_as_get_without_the_body(
    world: World, path: str, status: int
) -> None:
    async with (
        served(world.app(), world.settings) as url,
        httpx2.AsyncClient(base_url=url, auth=SIGN_IN) as client,
    ):
        head = await client.head(path)
        after = await client.get("/itc_db/whoami")  # on the same connection

    assert (head.status_code, head.content) == (status, b"")
    assert head.headers["x-content-type-options"] == "nosniff"
    assert after.status_code == 200


async def until_closed(url: str, data: bytes) -> bytes:
    """What a server sends to a client that sends ``data`` and then only listens."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        writer.write(data)
        return await asyncio.wait_for(reader.read(), 10)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    "data", [b"", b"GET /itc_db/traces HTTP/1.1\r\nhost: x\r\n", b"GET /" + b"a" * 5_000]
)
async def test_a_client_that_does_not_finish_its_request_is_let_go(
    world: World, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "REQUEST_SECONDS", 0.2)
    async with served(world.app(), world.settings) as url:
        assert await until_closed(url, data) == b""


async def test_a_body_that_does_not_come_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "REQUEST_SECONDS", 0.2)
    world = make_world(tmp_path, auth="none")
    head = f"PUT {TRACE} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n".encode()
    async with served(world.app(), world.settings) as url:
        answer = await until_closed(url, head)

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert world.traces.running == {}


async def test_a_head_without_end_is_refused(world: World) -> None:
    head = b"GET / HTTP/1.1\r\n" + b"".join(b"x-%d: %s\r\n" % (n, b"y" * 1_000) for n in range(500))
    async with served(world.app(), world.settings) as url:
        answer = await until_closed(url, head)

    assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")


@asynccontextmanager
async def impatient(world: World, seconds: float) -> AsyncIterator[tuple[Server, int]]:
    """The server, giving slow readers this long; and its port."""
    listener = bind(world.settings)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)  # as its connections have it
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocol, "SEND_SECONDS", seconds)
        config = configuration(world.app(), world.settings)
        server = Server(config)
        async with config.app.router.lifespan_context(config.app):  # type: ignore[union-attr]
            task = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                yield server, listener.getsockname()[1]
            finally:
                server.stop()
                await task


async def ask_for_much(world: World, port: int) -> socket.socket:
    """A client that has asked for megabytes and whose system takes next to nothing of them."""
    await world.tell(*[publish(SHOP, "news", body=b"x" * 4_000)] * 500)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    client.connect(("127.0.0.1", port))
    [(name, value)] = basic(*SIGN_IN).items()
    path = "/itc_db?page_size=500"
    client.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\n{name}: {value}\r\n\r\n".encode())
    return client


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  the server's numbers are no events
            await asyncio.sleep(0.01)


async def test_an_answer_that_nobody_reads_is_not_kept(world: World) -> None:
    async with impatient(world, 0.2) as (server, port):
        with await ask_for_much(world, port) as client:
            await until(lambda: len(server.server_state.connections) == 1)
            await until(lambda: not server.server_state.connections)
            received = await asyncio.to_thread(_all_of, client)

    assert received.startswith(b"HTTP/1.1 200")
    length = int(received.partition(b"content-length: ")[2].partition(b"\r\n")[0])
    assert len(received) < length


async def test_a_slow_reader_gets_all_of_its_answer(world: World) -> None:
    async with impatient(world, 60) as (_, port):
        with await ask_for_much(world, port) as client:
            head, _, body = (await asyncio.to_thread(_answer_of, client)).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 200")
    assert len(json.loads(body)) == 500


async def test_answers_that_are_not_read_hold_no_more_than_a_bound(world: World) -> None:
    async with impatient(world, 60) as (server, port):
        protocol = server.config.http
        protocol.unread_bytes = 1  # type: ignore[union-attr]
        unread = protocol.unread  # type: ignore[union-attr]
        with await ask_for_much(world, port) as first:
            await until(lambda: len(unread) == 1)
            [cut_off] = unread
            with await ask_for_much(world, port) as second:
                await until(lambda: cut_off not in unread and len(unread) == 1)
                answer = await asyncio.to_thread(_answer_of, second)
                left = await asyncio.to_thread(_all_of, first)

    assert len(json.loads(answer.partition(b"\r\n\r\n")[2])) == 500
    assert len(left) < len(answer)


def _all_of(client: socket.socket) -> bytes:
    """What there is to read until the server's end, however it comes."""
    client.settimeout(60)
    received = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(65_536):
            received += part
    return bytes(received)


def _answer_of(client: socket.socket) -> bytes:
    """One whole answer."""
    client.settimeout(60)
    received = bytearray()
    while True:
        received += client.recv(65_536)
        head, gap, body = received.partition(b"\r\n\r\n")
        length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
        if gap and len(body) >= int(length):
            return bytes(received)
