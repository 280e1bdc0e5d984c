"""Takes deliveries out of what the broker sends before the client library sees it.

Why not through the library: on its way to a consumer's callback a delivery takes nine reads, three
frames through two queues and a task, which took longer than parsing, matching, stamping and storing
it together. Everything else (handshake, answers, heartbeats, closing) is left to the library. This
module needs two of AMQP's layouts, the frame and ``basic.deliver``:
https://www.rabbitmq.com/resources/specs/amqp0-9-1.pdf (sections 2.3.5, 4.2).
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import final

import msgspec

from app.broker import _wire
from app.tracker import Record, Settlement, Unreadable

METHOD, HEADER, BODY, HEARTBEAT = _KINDS = 1, 2, 3, 8
FRAME_END = 0xCE
HEARTBEAT_FRAME = bytes([HEARTBEAT, 0, 0, 0, 0, 0, 0, FRAME_END])

DELIVER = bytes([0, 60, 0, 60])  # class and method
FRAME = Struct(">BHI")  # kind, channel, size of the payload; after that an end octet
_TAG = Struct(">QB")  # delivery tag, flags
_BODY_SIZE = Struct(">Q").unpack_from
_BODY_SIZE_AT = 4  # in a header's payload, after class and weight


UNREAD = Unreadable("not read yet", "", "", b"", 0, 0)


@final
class Arrival(msgspec.Struct, gc=False):
    """One message as it arrived, from the socket until it is stamped.

    ``header`` is the payload of its header frame, until it is read. A routing key that is not UTF-8
    keeps its odd bytes as ``\\xhh``: a queue's name may be any bytes, and is part of the routing
    key of its trace messages. ``at`` is when it arrived (µs), ``message`` what it says once it is
    read, and ``digest`` what it is recognised by when it comes again.
    """

    tag: int
    redelivered: bool
    routing_key: str
    header: bytes
    body: bytes
    at: int = 0
    message: Record | Settlement | Unreadable = UNREAD
    digest: bytes = b""


class DeliverySplitter:
    """Splits a connection's bytes into one channel's deliveries and the rest.

    Bytes that are not frames, and all after them, are left to the client library, which closes the
    connection over them. So is a delivery that ends before it says all that it has to.
    """

    def __init__(self) -> None:
        self._channel = 0  # until one is chosen: the connection itself, which has no deliveries
        self._take: Callable[[list[Arrival]], None] = _nobody
        self._parts: list[bytes] = []  # of an incomplete frame
        self._have = 0
        self._need = 0
        self._is_broken = False
        self._method: tuple[int, bool, str] | None = None  # of the current delivery
        self._header = b""
        self._body: list[bytes] = []
        self._missing = 0

    @property
    def is_diverting(self) -> bool:
        return self._channel != 0

    def divert(self, channel: int, take: Callable[[list[Arrival]], None]) -> None:
        """Call ``take`` with the deliveries on that channel from now on, in order."""
        self._channel, self._take = channel, take

    def feed(self, data: bytes) -> bytes:
        """Take in the next bytes; return what the library is to read, in complete frames."""
        if self._is_broken:
            return data
        self._parts.append(data)
        self._have += len(data)
        if self._have < self._need:
            return b""
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        passed, end = self._split(data)
        self._parts, self._have = [data[end:]], len(data) - end
        return passed

    def _split(self, data: bytes) -> tuple[bytes, int]:
        """Go through complete frames; return what is passed on, and where they end."""
        passed: list[bytes] = []
        at, there = 0, len(data)
        unpack, ours = FRAME.unpack_from, self._channel
        while there - at >= FRAME.size:
            kind, channel, size = unpack(data, at)
            if channel == ours and kind == METHOD:
                # Compiled: a delivery of which a part is still to come, or that is odd, is put
                # together a frame at a time, below.
                deliveries, behind = _wire.read_deliveries(data, at, ours, Arrival)
                if deliveries:
                    self._take(deliveries)
                    at = behind
                    continue
            begin = at + FRAME.size
            end = begin + size
            if kind not in _KINDS:
                return self._give_up(passed, data, at)
            if end >= there:
                self._need = end + 1 - at
                return b"".join(passed), at
            if data[end] != FRAME_END:
                return self._give_up(passed, data, at)
            try:
                is_ours = channel == ours and self._is_ours(kind, data, begin, end)
            except (IndexError, StructError):
                return self._give_up(passed, data, at)
            if not is_ours:
                passed.append(data[at : end + 1])
            at = end + 1
        self._need = FRAME.size
        return b"".join(passed), at

    def _give_up(self, passed: list[bytes], data: bytes, at: int) -> tuple[bytes, int]:
        self._is_broken = True
        passed.append(data[at:])
        return b"".join(passed), len(data)

    def _is_ours(self, kind: int, data: bytes, begin: int, end: int) -> bool:
        """Add a frame of our channel to its delivery; False if it belongs to none."""
        if kind == METHOD:
            is_delivery = data.startswith(DELIVER, begin)
            if is_delivery:
                self._method = _arguments(data, begin + len(DELIVER))
            return is_delivery
        if self._method is None:
            return False
        if kind == HEADER:
            self._header = data[begin:end]
            self._missing = _BODY_SIZE(data, begin + _BODY_SIZE_AT)[0]
        else:
            self._body.append(data[begin:end])
            self._missing -= end - begin
        if self._missing == 0:
            self._complete(*self._method)
        return True

    def _complete(self, tag: int, redelivered: bool, routing_key: str) -> None:
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._method, self._body = None, []
        self._take([Arrival(tag, redelivered, routing_key, self._header, body)])


def _arguments(data: bytes, at: int) -> tuple[int, bool, str]:
    """Delivery tag, redelivered flag and routing key of a ``basic.deliver``."""
    at += 1 + data[at]  # the consumer's tag
    tag, flags = _TAG.unpack_from(data, at)
    at += _TAG.size
    at += 1 + data[at]  # the exchange
    key = data[at + 1 : at + 1 + data[at]]
    return tag, bool(flags & 1), key.decode("utf-8", "backslashreplace")


def _nobody(_: list[Arrival]) -> None:
    pass
