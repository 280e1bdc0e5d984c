"""Deliveries, taken out of the broker's bytes before the client library sees them.

In the library a delivery takes nine reads, three frames through two queues and a task on its way to
a consumer's callback: longer than parsing, matching, stamping and storing it together. Everything
else (handshake, answers, heartbeats, closing) is left to the library.
"""

from __future__ import annotations

from typing import final

import msgspec

from app.tracker import Record, Settlement, Unreadable

HEARTBEAT_FRAME = b"\x08\0\0\0\0\0\0\xce"

UNREAD = Unreadable("not read yet", "", "", b"", 0, 0)


@final
class Arrival(msgspec.Struct, gc=False):
    """One message as it arrived, from the socket until it is stamped.

    ``header`` is the payload of its header frame, until it is read; ``size`` is that of both.
    ``sha256`` is the digest of a large body, once it is made. A routing key that is not UTF-8 keeps
    its odd bytes as ``\\xhh``: a queue's name may be any bytes, and is part of the routing key of
    its trace messages. ``at`` is its time of arrival (µs), ``message`` its contents once read, and
    ``digest`` recognises it when it comes again.
    """

    tag: int
    redelivered: bool
    routing_key: str
    header: bytes
    body: bytes
    at: int = 0
    message: Record | Settlement | Unreadable = UNREAD
    digest: bytes = b""
    size: int = 0
    sha256: bytes = b""
