"""The service's orders, as a child process reads them: lines of JSON on its stdin.

The first line holds the settings, the second the order, and further ones what the child asks for.
It answers on its stdout, and ends at once when its stdin does.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import msgspec
import uvloop

from app.background import end
from app.errors import ItcError
from app.interpreter import tune_interpreter
from app.settings import Settings
from model.jobs import Progress

T = TypeVar("T")

LINE_BYTES = 1 << 24  # an order may hold all rules of a file

Lines: TypeAlias = asyncio.Queue[bytes]


def obey(kind: type[T], work: Callable[[Settings, T, Lines], Awaitable[None]]) -> None:
    """Do ``work`` by the settings, an order of a ``kind``, and the lines behind it.

    An `ItcError` is told to the service.
    """
    tune_interpreter()
    uvloop.run(_obey(kind, work))


async def _obey(kind: type[T], work: Callable[[Settings, T, Lines], Awaitable[None]]) -> None:
    orders = asyncio.StreamReader(limit=LINE_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    settings = Settings.model_validate(msgspec.json.decode(await orders.readline()))
    order = msgspec.json.decode(await orders.readline(), type=kind)
    lines = Lines()
    listening = asyncio.create_task(_listen(orders, lines))
    try:
        await work(settings, order, lines)
    except ItcError as error:
        tell_service("error", reason=str(error))
    finally:
        await end(listening)


async def _listen(orders: asyncio.StreamReader, lines: Lines) -> None:
    while line := await orders.readline():
        lines.put_nowait(line)
    os._exit(1)


def tell_service(word: str, **fields: Any) -> None:
    """Answer with a line."""
    sys.stdout.buffer.write(msgspec.json.encode({"say": word, **fields}) + b"\n")
    sys.stdout.buffer.flush()


def tell_progress(progress: Progress) -> None:
    tell_service("progress", **msgspec.to_builtins(progress))
