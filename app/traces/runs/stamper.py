"""From trace messages to a batch: which of them are new, and the events they become.

Where they come fast a batch has several portions: larger transactions cost less per event (`Run`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from app.stored.capture import Batch
from app.traces.losses.audit import Tally
from app.traces.losses.marks import Mark
from app.traces.recorder import Recorder
from app.traces.runs.resume import Resume
from app.traces.runs.sieve import Sieve, unreadable
from app.tracker import Settlement, StampedEvent
from app.tracker.digest import digest
from app.tracker.events import Reference
from model.times import now

if TYPE_CHECKING:
    from app.broker.consumer import TraceStream
    from app.broker.deliveries import Arrival

# A portion keeps the event loop for this long, and one message more. Heartbeats of the broker,
# health checks and other virtual hosts wait meanwhile.
MOST_SECONDS = 0.005


_END = object()


def identity(arrival: Arrival) -> bytes:
    """The digest of a message, which identifies it when it comes again."""
    return arrival.digest or digest(arrival.message)


class Stretch(msgspec.Struct):
    """The messages that make one batch; ``tag`` is the last delivery tag, 0 for none.

    ``size`` is in bytes; ``marks`` are among the messages. Once it is complete: ``batch`` is to be
    stored, None if every message was stored before, ``suspects`` tell of missing publishes, and
    ``held_since`` is when the oldest record came that is held back (µs).
    """

    events: list[StampedEvent] = []
    digests: list[bytes] = []
    marks: list[Mark] = []
    tag: int = 0
    messages: int = 0
    size: int = 0
    batch: Batch | None = None
    suspects: list[Reference | None] = []
    held_since: int | None = None


class Stamper:
    """Stamps what arrives in one stream, a portion at a time, and makes batches of that."""

    def __init__(self, recorder: Recorder, stream: TraceStream, sieve: Sieve) -> None:
        self._recorder = recorder
        self._stream = stream
        self._refused = sieve.refused
        self.resume: Resume[Arrival] = Resume(recorder.window)
        self.stretch = Stretch()  # in the making
        self._deadline = 0.0
        recorder.tracker.reorder(stream.is_cluster)
        recorder.tracker.trace_replies(stream.traces_replies)

    @property
    def is_new(self) -> bool:
        """Tell whether the batch in the making is empty."""
        return not self.stretch.messages and not self.stretch.events

    def stamp(self, steps: Iterator[None]) -> bool:
        """Go on with a portion, for `MOST_SECONDS` at most; tell whether all of it is stamped."""
        start = time.perf_counter()
        self._deadline = start + MOST_SECONDS
        is_through = next(steps, _END) is _END
        self._recorder.work.stamp_seconds += time.perf_counter() - start
        return is_through

    def steps(self, messages: Sequence[Arrival], silent: bool) -> Iterator[None]:
        """Stamp new messages, for the batch in the making; stop when time is up.

        ``silent`` says that the queue holds no more for now.
        """
        recorder, tracker = self._recorder, self._recorder.tracker
        ownership_of, stretch, refused = self._stream.about, self.stretch, self._refused
        events, digests = stretch.events, stretch.digests
        start = len(events)
        received = published = count = size = 0  # the broker counts the first two
        clock = time.perf_counter
        # A microsecond is a twentieth of a message's whole cost: nothing here twice.
        is_settled = self.resume.settled
        decisions = zip(messages, repeat(True)) if is_settled else self._decide(messages, silent)
        for arrival, is_new in decisions:
            if clock() >= self._deadline:
                yield
            message = arrival.message
            count += 1
            size += arrival.size
            stretch.tag = arrival.tag
            if not is_new:
                continue
            key = identity(arrival)
            digests.append(key)
            if refused and key in refused:
                message = unreadable(arrival, refused[key])
            ownership = ownership_of(message)
            if ownership.sentinel is not None:
                recorder.lose_sentinel(ownership.sentinel)
            elif not message.is_event:
                if isinstance(message, Settlement):
                    tracker.settle(message, arrival.at)
                    continue
                record = message if recorder.bodies else replace(message, body=b"")
                tracker.quarantine(record, arrival.at)
                if ownership.is_counted:
                    is_delivery = message.kind == "deliver"
                    recorder.count_quarantined(Tally(not is_delivery, is_delivery))
            else:
                if ownership.is_counted:
                    if message.queue is None:
                        published += 1
                    else:
                        received += 1
                if not ownership.is_own:
                    outcome = tracker.steps(message, arrival.at)
                    if type(outcome) is tuple:  # nearly always
                        events += outcome
                        continue
                    for event in outcome:
                        events.append(event)
                        if clock() >= self._deadline:
                            yield
                    continue
                if ownership.is_counted:
                    is_delivery = message.queue is not None
                    recorder.own += Tally(not is_delivery, is_delivery)
                if ownership.mark is not None:
                    stretch.marks.append(ownership.mark)
                    recorder.marks += 1
        for event in tracker.close_overdue(now()):
            events.append(event)
            if clock() >= self._deadline:
                yield
        stretch.messages += count
        stretch.size += size
        recorder.work.stamped += len(events) - start
        recorder.tally += Tally(published, received)

    def complete(self) -> Stretch | None:
        """Everything stamped since the last call, as a batch; None if there is nothing to do."""
        recorder, stretch = self._recorder, self.stretch
        self.stretch = Stretch()
        if stretch.digests or stretch.events or recorder.is_ledger_new or recorder.are_rules_new:
            recorder.window.confirm(self._stream.taken)
            recorder.window.add(stretch.digests, stretch.tag)
            stretch.batch = recorder.batch(stretch.events)
        elif not stretch.messages:
            return None
        stretch.suspects = recorder.tracker.suspects()
        stretch.held_since = recorder.tracker.held_since
        return stretch

    def _decide(self, messages: Sequence[Arrival], silent: bool) -> Iterator[tuple[Arrival, bool]]:
        """(message, is new) for the messages on which `Resume` has decided."""
        for arrival in messages:
            arrival.digest = digest(arrival.message)
            # The sentinel is before everything, and was never stored: it says nothing of the rest.
            if not self.resume.is_holding and self._stream.about(arrival.message).sentinel:
                yield arrival, True
                continue
            yield from self.resume.push(arrival, arrival.digest, arrival.redelivered)
        if silent and self.resume.is_holding:
            yield from self.resume.settle()
