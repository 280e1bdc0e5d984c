"""Answers with events whose large fields are too much to hold in memory at once.

The answer is encoded with a mark in place of each such event. It is sent piece by piece: the text
between the marks, and the events themselves, read and encoded some at a time. The bytes are exactly
those that encoding everything at once would give. The memory that all such answers take is bounded.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from app.api.described import encode_json
from app.api.events import event_view
from app.api.signin.permissions import ReadRights
from app.api.streams import PiecewiseAnswer
from app.stored.causality import Named
from app.stored.reading import shares
from model.described import json_of
from model.event import Event, Large

if TYPE_CHECKING:
    from app.store.reading.queries import Events

# The most by which an event's large fields grow while they are encoded: the stored bytes,
# their text, and JSON, in which a control character takes six times the space.
GROWTH = 8
# Together with the tail's (`app.api.tail.KEPT_BYTES`) below 100 MiB, whatever clients ask for.
ANSWERS_BYTES = 1 << 26


class ByteBudget:
    """Lets in callers while their bytes fit, first come first served; one that asks for more than
    the whole budget goes in alone.
    """

    def __init__(self, capacity: int = ANSWERS_BYTES) -> None:
        self._capacity = capacity
        self._line = asyncio.Lock()  # waiting callers; only the first looks for room
        self._freed = asyncio.Event()
        self.size = 0
        self.highest = 0  # since the start

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        """Wait until there is room for this many bytes, and hold it."""
        async with self._line:
            while self.size and self.size + size > self._capacity:
                self._freed.clear()
                await self._freed.wait()
            self.size += size
            self.highest = max(self.highest, self.size)
        try:
            yield
        finally:
            self.size -= size
            self._freed.set()


# Stored bytes of large fields that are read and sent at once: the most that a slow client keeps in
# memory, once encoded.
PIECE = 1 << 18

_MARK = b'"' + secrets.token_hex(16).encode() + b'-%d"'
_MARKS = re.compile(_MARK.replace(b"%d", b"([0-9]+)"))


class Heavy(msgspec.Struct, frozen=True):
    """Events whose large fields are still to be read: their bytes by event, and which fields.

    ``content`` are the events whose content the reader may see; ``links`` the causes that events
    name, if the reader wants them.
    """

    sizes: Mapping[int, int]
    content: ReadRights
    columns: Collection[str] | None
    large: Large
    links: Mapping[int, Sequence[Named]] | None = None
    light: dict[int, Event] = {}  # the events without them

    def views(self, rows: Sequence[Event]) -> list[Any]:
        """Views of events, with marks in place of those still to be read."""
        if not self.sizes and self.links is None:
            return [event_view(row, self.content, self.columns) for row in rows]
        return [self._placeholder(row) if row.id in self.sizes else self.view(row) for row in rows]

    def view(self, row: Event) -> dict[str, Any]:
        view = event_view(row, self.content, self.columns)
        if self.links is not None:
            view["links"] = json_of([*self.links.get(row.id, ())])
        return view

    def _placeholder(self, row: Event) -> msgspec.Raw:
        self.light[row.id] = row
        return msgspec.Raw(_MARK % row.id)


def heavy_answer(encoded: bytes, heavy: Heavy, events: Events, budget: ByteBudget) -> Response:
    """A JSON answer that contains `Heavy.views`; sent at once if nothing is left to be read."""
    if not heavy.sizes:
        return Response(encoded, media_type="application/json")
    return PiecewiseAnswer(_pieces(encoded, heavy, events, budget), "application/json")


async def _pieces(
    encoded: bytes, heavy: Heavy, events: Events, budget: ByteBudget
) -> AsyncGenerator[bytes, None]:
    texts = _MARKS.split(encoded)
    del encoded
    gaps = iter(texts[::2])
    yield next(gaps)
    for share in shares([int(text) for text in texts[1::2]], heavy.sizes, PIECE):
        yield b""  # the server waits with it until the client has taken the rest
        size = sum(heavy.sizes[event_id] for event_id in share)
        async with budget.hold(size * GROWTH):
            rows = {row.id: row for row in await events.get_existing(share, heavy.large)}
            # An event that retention removed meanwhile is sent without its large fields.
            views = (encode_json(heavy.view(rows.pop(n, heavy.light[n]))) for n in share)
            yield b"".join(part for view in views for part in (view, next(gaps)))
