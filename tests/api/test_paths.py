"""Names in paths, through a real HTTP server: that is where the trap is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import quote, urlsplit

import httpx2
import pytest

from app.api.layers.paths import rebuilt_path
from app.api.parameters import unescape
from tests.api.conftest import World, served


@pytest.fixture
async def server(world: World) -> AsyncIterator[httpx2.AsyncClient]:
    world.broker.add("admin", "secret", "administrator", *world.traces.vhosts)
    async with (
        served(world.app(), world.settings) as url,
        httpx2.AsyncClient(base_url=url, auth=("admin", "secret")) as client,
    ):
        yield client


@pytest.mark.parametrize("vhost", ["/", "shop", "undefined", "50%2F off", "ü"])
async def test_a_trace_is_started_by_its_encoded_name(
    server: httpx2.AsyncClient, vhost: str
) -> None:
    path = f"/itc_db/{quote(vhost, safe='')}/undefined/undefined/undefined"

    assert (await server.put(path)).status_code == 201
    assert (await server.put(path)).status_code == 204
    assert (await server.get(path)).json()["vhost"] == vhost


async def raw_request(url: str, path: bytes) -> bytes:
    """The status line of an answer to a path that no HTTP client would send."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(b"GET " + path + b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (b"/itc_db/%00/undefined/undefined/undefined", b"NUL"),
        (b"/itc_db/%ff/undefined/undefined/undefined", b"UTF-8"),
        (b"/itc_db/%C3%28/undefined/undefined/undefined", b"UTF-8"),
        (b"/itc_db/%zz/undefined/undefined/undefined", b"hexadecimal"),
        (b"/itc_db/%2/undefined/undefined/undefined", b"hexadecimal"),
        (b"/itc_db/%", b"hexadecimal"),
        (b"/itc_db?vhost=%00", b"NUL"),
        (b"/itc_db?vhost=%ff", b"UTF-8"),
    ],
)
async def test_an_invalid_name_is_refused(world: World, path: bytes, reason: bytes) -> None:
    async with served(world.app(), world.settings) as url:
        answer = await raw_request(url, path)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"error":"bad_request"' in answer
    assert reason in answer


@pytest.mark.parametrize(
    "path",
    [b"/itc_db/\xff/undefined/undefined/undefined", b"\x00\x01\x02", b"/a b c", b"http://["],
)
async def test_bytes_that_are_not_a_request_get_a_400_and_nothing_else(
    world: World, path: bytes
) -> None:
    async with served(world.app(), world.settings) as url:
        assert (await raw_request(url, path)).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "path",
    [b"/../itc_db/traces", b"/itc_db/..%2Ftraces", b"/itc_db//traces", b"/itc_db/%2e%2e/traces"],
)
async def test_dots_and_empty_segments_lead_nowhere(world: World, path: bytes) -> None:
    async with served(world.app(), world.settings) as url:
        answer = await raw_request(url, path)

    assert answer.startswith(b"HTTP/1.1 404 ")
    assert answer.endswith(b'{"error":"Object Not Found","reason":"Not Found"}')


@pytest.mark.parametrize("name", ["/", "%2F", "%252F", "a/b%", "ü/", "%25", "🐇"])
def test_a_name_survives_path_and_back(name: str) -> None:
    segments = rebuilt_path(f"/itc_db/{quote(name, safe='')}".encode()).split("/")

    assert [unescape(segment) for segment in segments] == ["", "itc_db", name]
