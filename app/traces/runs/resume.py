"""Recognising trace messages that were stored already, after a crash or a cut.

A batch is acknowledged after its transaction, so between the two a crash leaves messages that are
both stored and still in the queue. They come back first, in order, flagged redelivered, and the
checkpoint keeps the digests of those that may: the **window**. What identifies them must not depend
on all of them coming back. One acknowledgement covers whole batches, so as a rule a suffix of whole
batches comes; but a queue at its limit drops its head at every publish, also while it is handing
over what was put back (classic queues do that 200 at a time), so a run may begin anywhere and have
holes.

Two rules decide, in this order:

- A message that the window holds once, and that comes flagged, is the stored one; so is all that
  came before it.
- Behind it, or where every message has a double, the longest suffix of the window with which the
  run goes on. Any other reading has the traffic repeat what was stored last, right after it. It
  counts only if the traffic is known to repeat itself like that, and then the readings in which the
  queue dropped nothing go before the others.

The firehose numbers nothing, so traffic that repeats byte for byte can leave more than one such
reading. `Resume.doubt` says so. Silence decides nothing as long as the broker says that the queue
holds more: otherwise a pause among those messages would make stored ones count as new.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from itertools import accumulate
from typing import Generic, TypeVar

import msgspec

DIGEST_BYTES = 8
# Acknowledged messages that are kept to tell whether the traffic repeats itself.
MOST_ACKNOWLEDGED = 1_000

T = TypeVar("T")

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[bytes]).decode


class Window:
    """Digests of the last stored batches: those that may come back, and some before them.

    ``span`` is the prefetch: the broker gives us a message only while fewer than that are
    unacknowledged, so everything stored before them is acknowledged.
    """

    def __init__(self, span: int, stored: bytes | None = None) -> None:
        """Start empty, or from a result of `dump`."""
        history: list[bytes] = []
        batches = _decode(stored) if stored else []
        if b"" in batches:
            end = batches.index(b"")
            history, batches = batches[:end], batches[end + 1 :]
        self._acknowledged = b"".join(history)
        # Each with the last delivery tag that it covers, 0 if that was another connection's.
        self._batches = deque((batch, 0) for batch in batches)
        self._bytes = sum(map(len, batches))
        self.span = max(span, len(self))

    def __len__(self) -> int:
        """The number of messages that may come back, at most."""
        return self._bytes // DIGEST_BYTES

    def add(self, digests: list[bytes], tag: int = 0) -> None:
        """Add a batch, up to a delivery tag, and drop batches that are certainly acknowledged."""
        if not digests:
            return
        batch = b"".join(digests)
        self._batches.append((batch, tag))
        self._bytes += len(batch)
        while len(self._batches) > 1 and self._bytes > self.span * DIGEST_BYTES:
            self._drop_first()

    def confirm(self, tag: int) -> None:
        """Note that the broker has taken the acknowledgement of everything up to a tag.

        Tags are of the present connection: its first acknowledgement covers all that came back from
        earlier ones.
        """
        while tag and self._batches and self._batches[0][1] <= tag:
            self._drop_first()

    def clear(self) -> None:
        """Drop everything: every batch is known to be acknowledged."""
        while self._batches:
            self._drop_first()

    def dump(self) -> bytes:
        """The window as the checkpoint keeps it: the history, a separator, the batches."""
        return _encode([self._acknowledged, b"", *(batch for batch, _ in self._batches)])

    def history(self) -> list[bytes]:
        """The last digests that are acknowledged, oldest first."""
        return _split(self._acknowledged)

    def digests(self) -> list[bytes]:
        """The digests of messages that may come back, oldest first."""
        return _split(b"".join(batch for batch, _ in self._batches))

    def suffixes(self) -> set[int]:
        """The counts that may come back if the queue drops nothing: of the last batches, or 0."""
        sizes = [len(batch) // DIGEST_BYTES for batch, _ in reversed(self._batches)]
        return set(accumulate(sizes, initial=0))

    def _drop_first(self) -> None:
        batch, _ = self._batches.popleft()
        self._bytes -= len(batch)
        self._acknowledged = (self._acknowledged + batch)[-MOST_ACKNOWLEDGED * DIGEST_BYTES :]


class Resume(Generic[T]):
    """Holds back the first messages of a connection until it is clear which are stored already.

    Push messages in; each call returns those that are decided, with whether they are new. After
    the first new one `settled` is true, and this object has nothing more to do. Then ``doubt`` is a
    sentence on any other possible reading, None if there is none.
    """

    def __init__(self, window: Window) -> None:
        """Expect what the window holds, or the last of it, with or without holes, or none."""
        self._window = window.digests()
        self._history = window.history()
        self._whole = window.suffixes()
        counts = Counter(self._history + self._window)
        # Positions in the window; -1 for a digest that it holds more than once.
        self._positions = {
            digest: position if counts[digest] == 1 else -1
            for position, digest in enumerate(self._window)
        }
        self._run: list[bytes] = []
        self._messages: list[T] = []
        self._recognised = 0  # messages of the run that are certainly stored
        self._position = -1  # of the last of these in the window
        self.doubt: str | None = None
        self.settled = not self._window

    @property
    def is_holding(self) -> bool:
        return bool(self._messages)

    def push(self, message: T, digest: bytes, redelivered: bool) -> list[tuple[T, bool]]:
        """Take in a message; return the decided ones as (message, is new)."""
        if self.settled:
            return [(message, True)]
        self._messages.append(message)
        position = self._positions.get(digest) if redelivered else None
        if position is None or 0 <= position <= self._position:
            return self.settle()
        self._run.append(digest)
        if position >= 0:
            self._recognised, self._position = len(self._run), position
        if len(self._run) - self._recognised >= len(self._window) - 1 - self._position:
            return self.settle()
        return []

    def settle(self) -> list[tuple[T, bool]]:
        """Decide by the messages so far, because no more are coming."""
        self.settled = True
        stored = self._choose()
        messages, self._messages = self._messages, []
        return [(message, index >= stored) for index, message in enumerate(messages)]

    def _choose(self) -> int:
        """Return how many of the run are stored, and set `doubt`."""
        rest, run = self._window[self._position + 1 :], self._run[self._recognised :]
        fits = _fits(run, rest)
        # If nothing was dropped, all goes on behind a known one, or else a whole batch begins.
        whole = {len(rest)} if self._recognised else self._whole
        best = choice = fits[0]
        alternatives: list[int] = []
        if len(fits) > 1:
            repetition = _repetition(self._history + self._window)
            alternatives = [fit for fit in fits[1:] if fit in whole and best - fit <= repetition]
            if best not in whole and alternatives:
                choice = alternatives[0]
        stored = self._recognised + choice
        begin = len(self._window) - stored
        is_suffix = stored in self._whole and self._window[begin:] == self._run[:stored]
        if alternatives or not is_suffix:
            losses = choice - min([*alternatives, choice])
            self.doubt = _doubt(stored, losses=losses, doubles=best - choice)
        return stored


def _doubt(stored: int, *, losses: int, doubles: int) -> str:
    text = f"{stored:,} redelivered trace messages were taken for stored ones"
    if losses:
        text += f"; as the traffic repeats itself, up to {losses:,} of them may be new and missing"
    if doubles:
        text += f"; as the traffic repeats itself, up to {doubles:,} more may be stored twice"
    if not losses and not doubles:
        text += ", which are not whole batches: the queue has dropped messages from its head"
    return text


def _split(digests: bytes) -> list[bytes]:
    return [digests[start : start + DIGEST_BYTES] for start in range(0, len(digests), DIGEST_BYTES)]


def _borders(digests: Sequence[bytes]) -> list[int]:
    """For each prefix, the length of its longest proper prefix that is also its suffix."""
    borders = [0] * len(digests)
    for end in range(1, len(digests)):
        length = borders[end - 1]
        while length and digests[length] != digests[end]:
            length = borders[length - 1]
        borders[end] = length + (digests[length] == digests[end])
    return borders


def _fits(run: Sequence[bytes], window: Sequence[bytes]) -> list[int]:
    """All lengths at which the run begins with the window's last ones, longest first, 0 last.

    Knuth, Morris and Pratt's search, in linear time: the match at the window's end is the longest,
    and its borders are the others.
    """
    borders, length = _borders(run), 0
    for digest in window:
        if length == len(run):
            length = borders[length - 1] if length else 0
        while length and run[length] != digest:
            length = borders[length - 1]
        length += length < len(run) and run[length] == digest
    fits = [length]
    while length:
        length = borders[length - 1]
        fits.append(length)
    return fits


def _repetition(digests: Sequence[bytes]) -> int:
    """The length of the longest suffix that occurs elsewhere too."""
    return max(_borders(digests[::-1]), default=0)
