"""From trace messages to a batch: which of them are new, and the events they become."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from app.stored.batches import Batch
from app.traces.audit import Tally
from app.traces.marks import Mark
from app.traces.ports import Stream, TraceMessage
from app.traces.recorder import Recorder
from app.traces.resume import Resume, digest
from app.tracker import StampedEvent, Unreadable
from app.tracker.suspicion import Suspect
from model.times import now


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


class Stamper:
    """Stamps what arrives in one stream."""

    def __init__(self, recorder: Recorder, stream: Stream) -> None:
        self._recorder = recorder
        self._stream = stream
        self._resume: Resume[tuple[TraceMessage, bytes]] = Resume(recorder.window)
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

    def prepare(self, messages: Sequence[TraceMessage], silent: bool) -> Prepared | None:
        """Stamp what is new among the messages; None if there is nothing to acknowledge.

        ``silent`` says that the queue holds no more for now.
        """
        recorder, tracker = self._recorder, self._recorder.tracker
        about_of = self._stream.about
        events: list[StampedEvent] = []
        unreadable: list[Unreadable] = []
        digests: list[bytes] = []
        marks: list[Mark] = []
        tag = count = delivered = uncounted = 0
        began = time.perf_counter()
        for arrival, mark, is_new in self._decided(messages, silent):
            tag, count = arrival.tag, count + 1
            if not is_new:
                continue
            digests.append(mark)
            message = arrival.message
            about = about_of(message)
            if about.sentinel is not None:
                recorder.lose_sentinel(about.sentinel)
                uncounted += 1
            elif isinstance(message, Unreadable):
                unreadable.append(message if recorder.bodies else replace(message, body=b""))
                delivered += message.routing_key.startswith("deliver.")
            else:
                uncounted += not about.is_counted
                delivered += about.is_counted and message.queue is not None
                if not about.is_own:
                    events += tracker.apply(message, arrival.at)
                elif about.mark is not None:
                    marks.append(about.mark)
        events += tracker.close_overdue(now())
        recorder.work.count_stamped(len(events), time.perf_counter() - began)
        tracker.counters.quarantined += len(unreadable)
        recorder.marks += len(marks)
        recorder.seen += Tally(len(digests) - delivered - uncounted, delivered)
        batch = None
        if digests or events or recorder.is_ledger_new or recorder.are_rules_new:
            recorder.window.confirm(self._stream.taken)
            recorder.window.add(digests, tag)
            batch = recorder.batch(events, unreadable)
        if batch is None and not count:
            return None
        return Prepared(batch, tag, count, marks, tracker.suspects(), tracker.held_since)

    def _decided(
        self, messages: Sequence[TraceMessage], silent: bool
    ) -> list[tuple[TraceMessage, bytes, bool]]:
        """(message, digest, is new) for those that are known to be stored or not."""
        if self._resume.settled:
            return [(arrival, digest(arrival.message), True) for arrival in messages]
        decided: list[tuple[TraceMessage, bytes, bool]] = []
        for arrival in messages:
            mark = digest(arrival.message)
            # The sentinel is before everything, and was never stored: it says nothing of the rest.
            if not self._resume.is_holding and self._stream.about(arrival.message).sentinel:
                decided.append((arrival, mark, True))
                continue
            for held, is_new in self._resume.push((arrival, mark), mark, arrival.redelivered):
                decided.append((*held, is_new))
        if silent and self._resume.is_holding:
            decided += [(*held, is_new) for held, is_new in self._resume.settle()]
        return decided
