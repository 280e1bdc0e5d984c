"""Recognising trace messages that were stored already, after a crash or a cut.

A batch is acknowledged after its transaction, so between the two a crash leaves messages that are
both stored and still in the queue. They come back first, in order, flagged redelivered. One
acknowledgement covers a whole batch, so what comes back of the stored ones is the last batch, or
the last few: some suffix of the stored batches, always whole ones. The checkpoint keeps the digests
of as many batches as can be unacknowledged, and the first messages of a new connection are compared
with each such suffix. Silence decides nothing as long as the broker says that the queue holds more:
otherwise a pause among those messages would make stored ones count as new.

What this cannot tell apart, because the firehose numbers nothing: traffic that repeats byte for
byte with a whole batch as its period, cut exactly between commit and acknowledgement.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Generic, TypeVar

import msgspec
import xxhash

from app.tracker import Record, Unreadable

DIGEST_BYTES = 8

T = TypeVar("T")

_canonical = msgspec.msgpack.Encoder(order="deterministic").encode

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[bytes]).decode


def digest(message: Record | Unreadable) -> bytes:
    """The 8 bytes by which a trace message is recognised when it comes again.

    Made from what was parsed, not from the raw bytes: a quorum queue adds a delivery count to the
    trace message's own headers. It guards against accidents, so it need not be cryptographic, and
    takes a third of the time (0.5 instead of 1.4 µs).
    """
    what: Any = message
    if isinstance(message, Unreadable):
        what = (message.reason, message.routing_key, message.body, message.body_bytes)
    return xxhash.xxh3_64_digest(_canonical(what))


class Window:
    """Digests of the last stored batches: the whole ones among the last ``span`` messages.

    ``span`` is the prefetch: the broker gives us a message only while fewer than that are
    unacknowledged, so whatever was stored before them is acknowledged.
    """

    def __init__(self, span: int, stored: bytes | None = None) -> None:
        """Start empty, or from what `dump` returned."""
        self._span = span
        self._batches: deque[bytes] = deque(_decode(stored) if stored else ())
        self._bytes = sum(map(len, self._batches))

    def __len__(self) -> int:
        """How many messages may come back, at most."""
        return self._bytes // DIGEST_BYTES

    def add(self, digests: list[bytes]) -> None:
        """Add a batch, and drop those that are certainly acknowledged."""
        if not digests:
            return
        batch = b"".join(digests)
        self._batches.append(batch)
        self._bytes += len(batch)
        while len(self._batches) > 1 and self._bytes > self._span * DIGEST_BYTES:
            self._bytes -= len(self._batches.popleft())

    def clear(self) -> None:
        """Drop everything: every batch is known to be acknowledged."""
        self._batches.clear()
        self._bytes = 0

    def dump(self) -> bytes:
        """The window as the checkpoint keeps it."""
        return _encode(list(self._batches))

    def suffixes(self) -> list[bytes]:
        """What may come back: the batches from each one on, joined, longest first."""
        joined = b"".join(self._batches)
        starts = [0]
        for batch in self._batches:
            starts.append(starts[-1] + len(batch))
        return [joined[start:] for start in starts[:-1]]


class Resume(Generic[T]):
    """Holds back the first messages of a connection until it is clear which are stored already.

    Push messages in; each call returns those that are decided, with whether they are new. After
    the first new one `settled` is true, and this object has nothing more to do.
    """

    def __init__(self, window: Window) -> None:
        """Expect any of the window's suffixes, or none."""
        self._candidates = window.suffixes()
        self._run = b""
        self._held: list[T] = []
        self._stored = 0  # how many of the messages held a candidate matches in full
        self.settled = not self._candidates

    @property
    def is_holding(self) -> bool:
        """Whether messages are held until later ones decide about them."""
        return bool(self._held)

    def push(self, message: T, digest: bytes, redelivered: bool) -> list[tuple[T, bool]]:
        """Take in a message; return the decided ones as (message, is new)."""
        if self.settled:
            return [(message, True)]
        self._held.append(message)
        if not redelivered:
            return self.settle()
        start = len(self._run)
        self._run += digest
        end = len(self._run)
        self._candidates = [c for c in self._candidates if c[start:end] == digest]
        if any(len(candidate) == end for candidate in self._candidates):
            self._stored = len(self._held)
        if any(len(candidate) > end for candidate in self._candidates):
            return []
        return self.settle()

    def settle(self) -> list[tuple[T, bool]]:
        """Decide with what is there, because nothing more is coming."""
        self.settled = True
        held, self._held = self._held, []
        return [(message, index >= self._stored) for index, message in enumerate(held)]
