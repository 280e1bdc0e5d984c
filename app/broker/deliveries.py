"""Deliveries, taken out of the broker's bytes before the client library sees them.

In the library a delivery takes nine reads, three frames through two queues and a task on its way to
a consumer's callback: longer than parsing, matching, stamping and storing it together. Everything
else (handshake, answers, heartbeats, closing) is left to the library.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, TypeAlias, final

import msgspec

from app.tracker import Channel, Record, Settlement, Unreadable

HEARTBEAT_FRAME = b"\x08\0\0\0\0\0\0\xce"

UNREAD = Unreadable("not read yet", "", "", b"", 0, 0)


MOST_REMEMBERED = 10_000

# Looked up again and again, which is quicker for the same object.
channel_of = lru_cache(maxsize=MOST_REMEMBERED)(Channel)

# The records of a bundle at most.
MOST_RECORDS = 256

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]


class Bundle(msgspec.Struct, frozen=True, gc=False):
    """The head of a bundle, a message with many records (`app.broker.bundles`).

    ``node`` and ``epoch`` name the collector that made it, ``number`` counts its bundles, and
    ``first`` is the ordinal of the first record among all that it was handed. ``lost`` of those
    just before, it could not keep. ``end`` says that it has ended, in good order.
    """

    node: str
    epoch: Count
    number: Count
    first: Count
    records: Annotated[int, msgspec.Meta(ge=0, le=MOST_RECORDS)]
    lost: Count
    end: bool = False

    @property
    def size(self) -> int:
        """The number of arrivals that it becomes: itself, where it has no records."""
        return self.records or 1


@final
class Arrival(msgspec.Struct, gc=False):
    """One message, or a record of a bundle, as it arrived, from the socket until it is stamped.

    ``header`` is the payload of its header frame, until it is read; ``size`` is that of both.
    ``sha256`` is the digest of a large body, once it is made. A routing key that is not UTF-8 keeps
    its odd bytes as ``\\xhh``: a queue's name may be any bytes, and is part of the routing key of
    its trace messages. ``at`` is its time of arrival (µs), ``message`` its contents once read, and
    ``digest`` recognises it when it comes again. A bundle has its head, and so has each of its
    records, with its ``ordinal``; ``is_last`` says that with this the message is at its end.
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
    bundle: Bundle | None = None
    ordinal: int = -1
    is_last: bool = True
