"""Lost publishes, by the unmatched deliveries that tell of them.

A delivery is unmatched where its publish was not seen, as a rule because that was before the trace
began. But a queue hands out its messages in the order in which they came in: behind the first one
whose publish was traced, all came in while tracing was on. Of an unmatched one among these the
publish's trace message was probably lost.

The order does not hold for redeliveries, dead letters, priorities and streams. Some publishes are
never traced as such: those of a local shovel, and what a delaying exchange keeps for later. So a
queue with many unmatched deliveries says nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from app.tracker._pass import SETTLED, Matches, QueueTally
from app.tracker.events import Handover, Reference
from app.tracker.records import Deliver

MOST_QUEUES = 10_000
# One in this many deliveries of a queue may be unmatched before they say nothing any more.
RARE = 10
# Headers of messages that were in another queue before, or come out of a stream.
DEAD = frozenset({"x-death", "x-opt-deaths"})
MOVED_HEADERS = DEAD | {"x-stream-offset"}


class Suspicion(Matches):
    """Follows the queues of one trace. Times in µs."""

    def __init__(self) -> None:
        # Not a dict, which would walk over all that made room to find the oldest.
        self._queues: OrderedDict[str, QueueTally] = OrderedDict()
        self._suspects: list[Reference | None] = []
        self.start: int | None = 0

    def restore(self, handovers: Iterable[Handover]) -> None:
        """Go on after a restart: earlier handovers are settled."""
        for handover in handovers:
            if handover.candidates is not None:
                continue
            if self.start is None or (handover.cause.id or 0) <= self.start:
                continue
            queue = self._queues.setdefault(
                handover.queue, QueueTally(0, handover.cause, matched=0)
            )
            queue.cause = handover.cause
            queue.matched += 1

    def _begin(self, name: str, tally: QueueTally) -> None:
        if len(self._queues) >= MOST_QUEUES:
            self._queues.popitem(last=False)
        self._queues[name] = tally

    def is_first(self, deliver: Deliver) -> bool:
        """Tell whether its queue may still hand out messages from before the trace."""
        return deliver.queue not in self._queues

    def note_unmatched(self, deliver: Deliver, moment: int, *, has_forgotten: bool) -> None:
        """Judge a delivery whose publish was not seen, or perhaps forgotten."""
        if has_forgotten:
            self._suspects.append(None)
            return
        queue = self._queues.get(deliver.queue)
        if queue is None or _is_out_of_order(deliver):
            return
        queue.unmatched += 1
        if queue.unmatched * RARE > queue.matched + RARE:
            return
        if moment - queue.matched_at >= SETTLED:
            self._suspects.append(queue.cause)
        elif queue.settled is not None and moment - queue.settled_at >= SETTLED:
            self._suspects.append(queue.settled)

    def take(self) -> list[Reference | None]:
        """The events after which publishes are missing, as found since the last call.

        None where the publish may be forgotten: then only the delivery's cause is missing.
        """
        suspects, self._suspects = self._suspects, []
        return suspects


def may_be_new(deliver: Deliver) -> bool:
    """Tell whether a delivery may have causes beside a publish from before the trace.

    Somebody gave it back or rejected it, or it came out of a stream, into which clients of that
    protocol publish untraced.
    """
    return deliver.redelivered or _has_header(deliver, MOVED_HEADERS)


def _is_out_of_order(deliver: Deliver) -> bool:
    return may_be_new(deliver) or "priority" in deliver.properties


def _has_header(deliver: Deliver, names: frozenset[str]) -> bool:
    headers = deliver.properties.get("headers")
    return isinstance(headers, dict) and not names.isdisjoint(headers)
