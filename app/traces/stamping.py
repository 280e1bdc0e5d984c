"""From trace messages to a batch: which of them are new, and the events they become.

Where they come fast a batch has several portions: a transaction is the cheaper for each event the
more it has (`Run`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from app.stored.batches import Batch
from app.traces.audit import Tally
from app.traces.marks import Mark
from app.traces.recorder import Recorder
from app.traces.resume import Resume
from app.tracker import StampedEvent, Unreadable
from app.tracker.digest import digest
from app.tracker.suspicion import Suspect
from model.times import now

if TYPE_CHECKING:
    from app.broker.arrivals import TraceMessage
    from app.broker.source import Stream

# How long a portion keeps the event loop, and one message more. Heartbeats of the broker, health
# checks and other virtual hosts wait for it.
MOST_SECONDS = 0.005


_THROUGH = object()


class Prepared(msgspec.Struct):
    """A batch to be stored, and the delivery tag that acknowledges all of it.

    ``marks`` are those among its messages, ``suspects`` tell of missing publishes, ``held_since``
    is when the oldest record came that is held back (µs).
    """

    batch: Batch | None  # None if every message was stored before
    tag: int
    messages: int
    marks: list[Mark]
    suspects: list[Suspect]
    held_since: int | None


class _Portions(msgspec.Struct):
    """What was stamped of the batch in the making; ``tag`` is the last delivery tag, 0 for none.

    ``size`` is that of the messages' bodies, in bytes.
    """

    events: list[StampedEvent] = []
    unreadable: list[Unreadable] = []
    digests: list[bytes] = []
    marks: list[Mark] = []
    tag: int = 0
    messages: int = 0
    size: int = 0


class Stamper:
    """Stamps what arrives in one stream, a portion at a time, and makes batches of that."""

    def __init__(self, recorder: Recorder, stream: Stream) -> None:
        self._recorder = recorder
        self._stream = stream
        self._resume: Resume[tuple[TraceMessage, bytes]] = Resume(recorder.window)
        self._portions = _Portions()
        self._until = 0.0
        recorder.tracker.reorder(stream.is_cluster)
        recorder.tracker.trace_replies(stream.traces_replies)

    @property
    def is_holding(self) -> bool:
        """Whether messages are held until later ones decide whether they are stored."""
        return self._resume.is_holding

    @property
    def doubt(self) -> str | None:
        """What else may be stored or not, if that could not be told for certain; a sentence."""
        return self._resume.doubt

    @property
    def is_new(self) -> bool:
        """Whether nothing was stamped yet for the batch in the making."""
        return not self._portions.messages and not self._portions.events

    @property
    def messages(self) -> int:
        """How many messages are in the batch in the making."""
        return self._portions.messages

    @property
    def size(self) -> int:
        """How many bytes their bodies have."""
        return self._portions.size

    def stamp(self, steps: Iterator[None]) -> bool:
        """Go on with a portion, for `MOST_SECONDS` at most; whether all of it is stamped."""
        began = time.perf_counter()
        self._until = began + MOST_SECONDS
        is_through = next(steps, _THROUGH) is _THROUGH
        self._recorder.work.stamp_seconds += time.perf_counter() - began
        return is_through

    def steps(self, messages: Sequence[TraceMessage], silent: bool) -> Iterator[None]:
        """Stamp what is new among the messages, for the batch in the making; stop when time is up.

        ``silent`` says that the queue holds no more for now.
        """
        recorder, tracker = self._recorder, self._recorder.tracker
        about_of, stamped, events = self._stream.about, self._portions, self._portions.events
        before = len(events)
        received = published = 0  # that the broker counts
        clock = time.perf_counter
        for arrival, mark, is_new in self._decided(messages, silent):
            if clock() >= self._until:
                yield
            message = arrival.message
            stamped.tag = arrival.tag
            stamped.messages += 1
            stamped.size += len(message.body)
            if not is_new:
                continue
            stamped.digests.append(mark)
            about = about_of(message)
            if about.sentinel is not None:
                recorder.lose_sentinel(about.sentinel)
            elif isinstance(message, Unreadable):
                kept = message if recorder.bodies else replace(message, body=b"")
                stamped.unreadable.append(kept)
                tracker.counters.quarantined += 1
                is_delivery = message.routing_key.startswith("deliver.")
                received += is_delivery
                published += not is_delivery
            else:
                if about.is_counted:
                    received += message.queue is not None
                    published += message.queue is None
                if not about.is_own:
                    found = tracker.steps(message, arrival.at)
                    if type(found) is tuple:  # nearly always
                        events += found
                        continue
                    for event in found:
                        events.append(event)
                        if clock() >= self._until:
                            yield
                elif about.mark is not None:
                    stamped.marks.append(about.mark)
                    recorder.marks += 1
        for event in tracker.close_overdue(now()):
            events.append(event)
            if clock() >= self._until:
                yield
        recorder.work.stamped += len(events) - before
        recorder.seen += Tally(published, received)

    def prepared(self) -> Prepared | None:
        """The batch of all that was stamped since the last one; None if there is nothing to do."""
        recorder, tracker, stamped = self._recorder, self._recorder.tracker, self._portions
        self._portions = _Portions()
        batch = None
        if stamped.digests or stamped.events or recorder.is_ledger_new or recorder.are_rules_new:
            recorder.window.confirm(self._stream.taken)
            recorder.window.add(stamped.digests, stamped.tag)
            batch = recorder.batch(stamped.events, stamped.unreadable)
        if batch is None and not stamped.messages:
            return None
        return Prepared(
            batch,
            stamped.tag,
            stamped.messages,
            stamped.marks,
            tracker.suspects(),
            tracker.held_since,
        )

    def _decided(
        self, messages: Sequence[TraceMessage], silent: bool
    ) -> Iterator[tuple[TraceMessage, bytes, bool]]:
        """(message, digest, is new) for those that are known to be stored or not."""
        for arrival in messages:
            mark = digest(arrival.message)
            # The sentinel is before everything, and was never stored: it says nothing of the rest.
            if self._resume.settled or (
                not self._resume.is_holding and self._stream.about(arrival.message).sentinel
            ):
                yield arrival, mark, True
                continue
            for held, is_new in self._resume.push((arrival, mark), mark, arrival.redelivered):
                yield (*held, is_new)
        if silent and self._resume.is_holding:
            for held, is_new in self._resume.settle():
                yield (*held, is_new)
