"""Recognising trace messages that were stored already, after a crash or a cut.

A batch is acknowledged after its transaction, so between the two a crash leaves messages that are
both stored and still in the queue. They come back first, in order, flagged redelivered, and the
checkpoint keeps the digests of those that may: the **window**. What identifies them must not depend
on all of them coming back. One acknowledgement covers whole batches, so as a rule a suffix of whole
batches comes; but a queue at its limit drops its head at every publish, also while it is handing
over what was put back (classic queues do that 200 at a time), so a run may begin anywhere and have
holes.

What decides, in this order:

- A message that the window holds once, and that comes flagged, is the stored one; so is all that
  came before it.
- Behind it, or where no message is unlike the others, the longest suffix of the window with which
  the run goes on. Any other reading has the traffic repeat what was stored last, right after it.
  It counts only if the traffic is known to repeat itself like that, and then the readings in which
  the queue dropped nothing go before the others.

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
# So many acknowledged messages are kept to tell whether the traffic repeats itself.
REMEMBERED = 1_000

T = TypeVar("T")

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[bytes]).decode


class Window:
    """Digests of the last stored batches: those that may come back, and some before them.

    ``span`` is the prefetch: the broker gives us a message only while fewer than that are
    unacknowledged, so whatever was stored before them is acknowledged.
    """

    def __init__(self, span: int, stored: bytes | None = None) -> None:
        """Start empty, or from what `dump` returned."""
        before: list[bytes] = []
        batches = _decode(stored) if stored else []
        if b"" in batches:
            end = batches.index(b"")
            before, batches = batches[:end], batches[end + 1 :]
        self._acknowledged = b"".join(before)
        # Each with the last delivery tag that it covers, 0 if that was another connection's.
        self._batches = deque((batch, 0) for batch in batches)
        self._bytes = sum(map(len, batches))
        self.span = max(span, len(self))

    def __len__(self) -> int:
        """The number of messages that may come back, at most."""
        return self._bytes // DIGEST_BYTES

    def add(self, digests: list[bytes], tag: int = 0) -> None:
        """Add a batch, up to a delivery tag, and drop those that are certainly acknowledged."""
        if not digests:
            return
        batch = b"".join(digests)
        self._batches.append((batch, tag))
        self._bytes += len(batch)
        while len(self._batches) > 1 and self._bytes > self.span * DIGEST_BYTES:
            self._drop_first()

    def confirm(self, tag: int) -> None:
        """Note that the broker has taken the acknowledgement of everything up to a tag.

        Tags are those of the present connection: its first acknowledgement covers all that came
        back from earlier ones.
        """
        while tag and self._batches and self._batches[0][1] <= tag:
            self._drop_first()

    def clear(self) -> None:
        """Drop everything: every batch is known to be acknowledged."""
        while self._batches:
            self._drop_first()

    def dump(self) -> bytes:
        """The window as the checkpoint keeps it: what came before, a separator, the batches."""
        return _encode([self._acknowledged, b"", *(batch for batch, _ in self._batches)])

    def before(self) -> list[bytes]:
        """The last digests before those that may come back."""
        return _split(self._acknowledged)

    def digests(self) -> list[bytes]:
        """The digests of what may come back, oldest first."""
        return _split(b"".join(batch for batch, _ in self._batches))

    def suffixes(self) -> set[int]:
        """The numbers that may come back if the queue drops nothing: of the last batches, or 0."""
        sizes = [len(batch) // DIGEST_BYTES for batch, _ in reversed(self._batches)]
        return set(accumulate(sizes, initial=0))

    def _drop_first(self) -> None:
        batch, _ = self._batches.popleft()
        self._bytes -= len(batch)
        self._acknowledged = (self._acknowledged + batch)[-REMEMBERED * DIGEST_BYTES :]


class Resume(Generic[T]):
    """Holds back the first messages of a connection until it is clear which are stored already.

    Push messages in; each call returns those that are decided, with whether they are new. After
    the first new one `settled` is true, and this object has nothing more to do. Then ``doubt`` says
    in a sentence what else may have been the case, None if nothing.
    """

    def __init__(self, window: Window) -> None:
        """Expect what the window holds, or the last of it, with or without holes, or none."""
        self._window = window.digests()
        self._before = window.before()
        self._whole = window.suffixes()
        counts = Counter(self._before + self._window)
        # Where each one stands in the window; -1 if it does not tell, because there are others.
        self._places = {
            mark: place if counts[mark] == 1 else -1 for place, mark in enumerate(self._window)
        }
        self._run: list[bytes] = []
        self._held: list[T] = []
        self._known = 0  # how many of the run are certainly stored
        self._at = -1  # where the last of these stands in the window
        self.doubt: str | None = None
        self.settled = not self._window

    @property
    def is_holding(self) -> bool:
        """Tell whether messages are held until later ones decide about them."""
        return bool(self._held)

    def push(self, message: T, digest: bytes, redelivered: bool) -> list[tuple[T, bool]]:
        """Take in a message; return the decided ones as (message, is new)."""
        if self.settled:
            return [(message, True)]
        self._held.append(message)
        place = self._places.get(digest) if redelivered else None
        if place is None or 0 <= place <= self._at:
            return self.settle()
        self._run.append(digest)
        if place >= 0:
            self._known, self._at = len(self._run), place
        if len(self._run) - self._known >= len(self._window) - 1 - self._at:
            return self.settle()
        return []

    def settle(self) -> list[tuple[T, bool]]:
        """Decide with what is there, because nothing more is coming."""
        self.settled = True
        stored = self._choose()
        held, self._held = self._held, []
        return [(message, index >= stored) for index, message in enumerate(held)]

    def _choose(self) -> int:
        """Return how many of the run are stored, and say whether that is in doubt."""
        behind, run = self._window[self._at + 1 :], self._run[self._known :]
        fits = _fits(run, behind)
        # If nothing was dropped, all goes on behind a known one, or else a whole batch begins.
        whole = {len(behind)} if self._known else self._whole
        best = chosen = fits[0]
        others: list[int] = []
        if len(fits) > 1:
            repeated = _repeated(self._before + self._window)
            others = [fit for fit in fits[1:] if fit in whole and best - fit <= repeated]
            if best not in whole and others:
                chosen = others[0]
        stored = self._known + chosen
        begin = len(self._window) - stored
        is_suffix = stored in self._whole and self._window[begin:] == self._run[:stored]
        if others or not is_suffix:
            self.doubt = _doubt(stored, lost=chosen - min([*others, chosen]), doubled=best - chosen)
        return stored


def _doubt(stored: int, *, lost: int, doubled: int) -> str:
    said = f"{stored:,} redelivered trace messages were taken for stored ones"
    if lost:
        said += f"; as the traffic repeats itself, up to {lost:,} of them may be new and missing"
    if doubled:
        said += f"; as the traffic repeats itself, up to {doubled:,} more may be stored twice"
    if not lost and not doubled:
        said += ", which are not whole batches: the queue has dropped messages from its head"
    return said


def _split(digests: bytes) -> list[bytes]:
    return [digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES)]


def _borders(marks: Sequence[bytes]) -> list[int]:
    """For each prefix, the length of its longest proper prefix that is also its suffix."""
    borders = [0] * len(marks)
    for end in range(1, len(marks)):
        length = borders[end - 1]
        while length and marks[length] != marks[end]:
            length = borders[length - 1]
        borders[end] = length + (marks[length] == marks[end])
    return borders


def _fits(run: Sequence[bytes], window: Sequence[bytes]) -> list[int]:
    """All lengths at which the run begins with the window's last ones, longest first, 0 last.

    Knuth, Morris and Pratt's search, in linear time: what matches at the window's end is the
    longest, and its borders are the others.
    """
    borders, length = _borders(run), 0
    for mark in window:
        if length == len(run):
            length = borders[length - 1] if length else 0
        while length and run[length] != mark:
            length = borders[length - 1]
        length += length < len(run) and run[length] == mark
    fits = [length]
    while length:
        length = borders[length - 1]
        fits.append(length)
    return fits


def _repeated(marks: Sequence[bytes]) -> int:
    """The number of the last ones that stand elsewhere too, in the same order."""
    return max(_borders(marks[::-1]), default=0)
