"""From trace messages to a batch: which of them are new, and the events they become.

Where they come fast a batch has several portions: larger transactions cost less per event (`Run`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from app.stored.capture import Batch
from app.traces.losses.audit import Tally
from app.traces.losses.collectors import MissingRecords
from app.traces.losses.marks import Mark
from app.traces.recorder import Recorder
from app.traces.runs._loop import Loop
from app.traces.runs.resume import Resume
from app.traces.runs.sieve import Sieve, unreadable
from app.tracker import Settlement, StampedEvent
from app.tracker.digest import digest
from app.tracker.events import Reference
from model.times import now

if TYPE_CHECKING:
    from app.broker.consumer import TraceStream
    from app.broker.deliveries import Arrival, Bundle

# A portion keeps the event loop for this long, and one message more. Heartbeats of the broker,
# health checks and other virtual hosts wait meanwhile.
MOST_SECONDS = 0.005


_END = object()


def identity(arrival: Arrival) -> bytes:
    """The digest of a message, which identifies it when it comes again."""
    return arrival.digest or digest(arrival.message)


class Stretch(msgspec.Struct):
    """The messages that make one batch; ``tag`` is that of the last complete one.

    ``digests`` are of complete messages, which have to be recognised if they come again, and
    ``inner`` of new records of bundles. ``records`` counts all, ``messages`` only complete ones.
    ``size`` is in bytes; ``marks`` are among the messages. Once it is complete: ``batch`` is to be
    stored, None if every message was stored before, ``suspects`` tell of missing publishes,
    ``missing`` of records that the plugin had, and ``held_since`` is when the oldest record came
    that is held back (µs).
    """

    events: list[StampedEvent] = []
    digests: list[bytes] = []
    inner: list[bytes] = []
    marks: list[Mark] = []
    tag: int = 0
    messages: int = 0
    records: int = 0
    size: int = 0
    batch: Batch | None = None
    suspects: list[Reference | None] = []
    missing: list[MissingRecords] = []
    held_since: int | None = None

    @property
    def every_digest(self) -> list[bytes]:
        """The digests of all messages and records, some twice."""
        return [*self.inner, *self.digests]


class Stamper:
    """Stamps what arrives in one stream, a portion at a time, and makes batches of that."""

    def __init__(self, recorder: Recorder, stream: TraceStream, sieve: Sieve) -> None:
        self._recorder = recorder
        self._stream = stream
        self._refused = sieve.refused
        self.resume: Resume[list[Arrival]] = Resume(recorder.window)
        self._behind: list[tuple[Arrival, bool]] = []  # decided on, and not stamped yet
        self.stretch = Stretch()  # in the making
        self._deadline = 0.0
        recorder.tracker.reorder(stream.is_cluster)
        recorder.tracker.trace_replies(stream.traces_replies)

    @property
    def is_new(self) -> bool:
        """Tell whether the batch in the making is empty."""
        return not self.stretch.records and not self.stretch.events

    def stamp(self, steps: Iterator[None]) -> bool:
        """Go on with a portion, for `MOST_SECONDS` at most; tell whether all of it is stamped."""
        start = time.perf_counter()
        self._deadline = start + MOST_SECONDS
        is_through = next(steps, _END) is _END
        self._recorder.work.stamp_seconds += time.perf_counter() - start
        return is_through

    @property
    def is_behind(self) -> bool:
        """Tell whether records have come that are not stamped: the sieve wants fewer at once."""
        return bool(self._behind)

    def steps(
        self, messages: Sequence[Arrival], silent: bool, most: int | None = None
    ) -> Iterator[None]:
        """Stamp new messages, for the batch in the making; stop when time is up.

        ``silent`` says that the queue holds no more for now. After ``most`` records it `is_behind`.
        """
        recorder, stretch, clock = self._recorder, self.stretch, time.perf_counter
        events = stretch.events
        start = len(events)
        loop = Loop(self, recorder, self._stream.about, self._refused)
        is_settled = self.resume.settled
        decisions = zip(messages, repeat(True)) if is_settled else self._decide(messages, silent)
        if most is not None or self._behind:
            waiting = [*self._behind, *decisions]
            most = len(waiting) if most is None else most
            decisions, self._behind = iter(waiting[:most]), waiting[most:]
        else:
            decisions = iter(decisions)
        while (outcome := loop.go_on(decisions, self._deadline)) is not None:
            for event in chain(outcome, (None,)):
                if event is not None:
                    events.append(event)
                if clock() >= self._deadline:
                    yield
        for event in recorder.tracker.close_overdue(now()):
            events.append(event)
            if clock() >= self._deadline:
                yield
        stretch.tag = loop.tag
        stretch.records += loop.count
        stretch.messages += loop.count - loop.unfinished
        stretch.size += loop.size
        recorder.work.stamped += len(events) - start
        recorder.tally += Tally(loop.published, loop.received)

    def take_rare(self, loop: Loop, arrival: Arrival, key: bytes) -> Iterable[StampedEvent]:
        """Take in what is refused, our own, uncounted, or no event; the events of it, if any."""
        recorder, message = self._recorder, arrival.message
        if key in self._refused:
            message = unreadable(arrival, self._refused[key])
        ownership = self._stream.about(message)
        if ownership.sentinel is not None:
            recorder.lose_sentinel(ownership.sentinel)
        elif not message.is_event:
            if isinstance(message, Settlement):
                recorder.tracker.settle(message, arrival.at)
                return ()
            record = message if recorder.bodies else replace(message, body=b"")
            recorder.tracker.quarantine(record, arrival.at)
            if ownership.is_counted:
                is_delivery = message.kind == "deliver"
                recorder.count_quarantined(Tally(not is_delivery, is_delivery))
        else:
            is_delivery = message.queue is not None
            if ownership.is_counted:
                loop.published += not is_delivery
                loop.received += is_delivery
            if not ownership.is_own:
                return recorder.tracker.steps(message, arrival.at)
            if ownership.is_counted:
                recorder.own += Tally(not is_delivery, is_delivery)
            if ownership.mark is not None:
                self.stretch.marks.append(ownership.mark)
                recorder.marks += 1
        return ()

    def complete(self) -> Stretch | None:
        """Everything stamped since the last call, as a batch; None if there is nothing to do."""
        recorder, stretch = self._recorder, self.stretch
        self.stretch = Stretch()
        stretch.missing = recorder.collectors.take_missing()
        is_news = recorder.is_ledger_new or recorder.are_rules_new
        if stretch.digests or stretch.inner or stretch.events or is_news:
            recorder.window.confirm(self._stream.taken)
            recorder.window.add(stretch.digests, stretch.tag)
            stretch.batch = recorder.batch(stretch.events)
        elif not stretch.messages:
            return None
        stretch.suspects = recorder.tracker.suspects()
        stretch.held_since = recorder.tracker.held_since
        return stretch

    def take_record(self, arrival: Arrival, bundle: Bundle) -> bool:
        """Take a record of a bundle; tell whether it is not stored yet."""
        recorder = self._recorder
        is_new = recorder.collectors.take(
            bundle, arrival.ordinal, recorder.last_event_id, arrival.at
        )
        if arrival.is_last:
            self.stretch.digests.append(arrival.digest)
            recorder.is_ledger_new |= bundle.end
        return is_new

    def _decide(self, messages: Sequence[Arrival], silent: bool) -> Iterator[tuple[Arrival, bool]]:
        """(message or record, is new) for the messages on which `Resume` has decided."""
        decided: list[tuple[list[Arrival], bool]] = []
        whole: list[Arrival] = []
        for arrival in messages:
            whole.append(arrival)
            if not arrival.is_last:
                continue
            arrival.digest = identity(arrival)
            # The sentinel is before everything, and was never stored: it says nothing of the rest.
            if not self.resume.is_holding and self._stream.about(arrival.message).sentinel:
                decided.append((whole, True))
            else:
                decided += self.resume.push(whole, arrival.digest, arrival.redelivered)
            whole = []
        if silent and self.resume.is_holding:
            decided += self.resume.settle()
        for records, is_new in decided:
            yield from zip(records, repeat(is_new))
