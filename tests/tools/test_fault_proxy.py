"""The fault drill's proxy misbehaves as it is told, and only then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

import pytest

from drills.proxy import Proxy, is_ack

T = TypeVar("T")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    """One before a server that says everything again."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1_000):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    url = f"amqp://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with Proxy(url).open() as opened:
        yield opened
    server.close()


async def connected(proxy: Proxy) -> Streams:
    return await asyncio.open_connection("127.0.0.1", proxy.port)


async def said(streams: Streams, data: bytes) -> bytes:
    reader, writer = streams
    writer.write(data)
    return await soon(reader.readexactly(len(data)))


async def soon(awaited: Awaitable[T], seconds: float = 10) -> T:
    return await asyncio.wait_for(awaited, seconds)


async def is_silent(streams: Streams, data: bytes) -> bool:
    try:
        await asyncio.wait_for(said(streams, data), 0.2)
    except TimeoutError:
        return True
    return False


async def test_it_forwards_both_ways(proxy: Proxy) -> None:
    assert await said(await connected(proxy), b"hello") == b"hello"


async def test_stalled_connections_are_silent_and_new_ones_work(proxy: Proxy) -> None:
    old = await connected(proxy)
    await said(old, b"hello")
    proxy.stall()
    assert await is_silent(old, b"again")
    assert not old[1].is_closing()
    assert await said(await connected(proxy), b"hello") == b"hello"


async def test_a_partition_holds_everything_back_until_it_ends(proxy: Proxy) -> None:
    streams = await connected(proxy)
    await said(streams, b"hello")
    proxy.is_partitioned = True
    assert await is_silent(streams, b"again")
    proxy.is_partitioned = False
    assert await soon(streams[0].readexactly(5)) == b"again"


async def test_a_cut_resets_the_connection(proxy: Proxy) -> None:
    streams = await connected(proxy)
    await said(streams, b"hello")
    assert proxy.cut() == 1
    with pytest.raises(ConnectionResetError):
        await soon(streams[0].readexactly(1))


async def test_what_is_to_be_delayed_takes_longer_and_holds_up_what_follows(proxy: Proxy) -> None:
    streams = await connected(proxy)
    proxy.delay, proxy.delayed = 0.3, lambda data: data == b"slow"
    began = time.monotonic()
    assert await said(streams, b"quick") == b"quick"
    assert time.monotonic() - began < 0.3
    assert await said(streams, b"slow") == b"slow"
    assert time.monotonic() - began > 0.3


async def test_it_cuts_behind_what_it_is_told_to(proxy: Proxy) -> None:
    streams = await connected(proxy)
    proxy.on_sent = lambda data: data == b"COMMIT"
    assert await said(streams, b"BEGIN") == b"BEGIN"
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await said(streams, b"COMMIT")


def test_an_acknowledgement_is_recognised() -> None:
    ack = b"\x01\x00\x01\x00\x00\x00\x0d\x00\x3c\x00\x50" + (7).to_bytes(8, "big") + b"\x01\xce"
    assert is_ack(ack)
    assert not is_ack(b"\x01\x00\x01\x00\x00\x00\x0d\x00\x3c\x00\x28")
