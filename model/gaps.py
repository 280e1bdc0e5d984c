"""Gaps: spans in which trace messages may have been lost, or were not asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from model.times import Microseconds


@dataclass(frozen=True, slots=True)
class Gap:
    """A span that may lack events of a trace. Times in µs.

    It lies after the event ``after_event_id`` (0: before the first) and before ``before_event_id``;
    the latter and ``until`` are None while it may still go on.
    """

    id: int
    after_event_id: int
    before_event_id: int | None
    since: Microseconds
    until: Microseconds | None
    reason: str
    suspected: Annotated[
        bool, "Whether it is probable, and may be taken back; otherwise it is certain."
    ] = False
    declared: Annotated[
        bool,
        "Whether it is no loss: only some exchanges and queues were asked for, or what lies in it "
        "is in quarantine.",
    ] = False
    quarantined: Annotated[
        int, "How many trace messages came in it that cannot be read; those are in quarantine."
    ] = 0
    channel: Annotated[
        str | None, "The only channel of which something is missing, as the broker calls it."
    ] = None

    def is_chosen(self) -> bool:
        """Tell whether it is no loss: all that is missing was not asked for."""
        return self.declared and not self.quarantined

    def is_spanned(self, a: int, b: int) -> bool:
        """Tell whether an answer about two events, in either order, spans this gap."""
        first, last = sorted((a, b))
        return self.after_event_id < last and (
            self.before_event_id is None or self.before_event_id > first
        )


def widen(gap: Gap, begins: int | None, ends: int | None) -> Gap:
    """A gap with all times at which its missing events would have been recorded.

    A gap's own times are around when it was noticed. Its messages may have waited in the broker,
    and it may begin before the last good check: so the times of the events around it count as well.
    ``begins`` is that of the last event before it (µs), None if that is not stored; ``ends`` that
    of the last one that may be in it.
    """
    first = Microseconds(0 if begins is None else min(gap.since, begins))
    last = gap.until
    if gap.before_event_id is None:
        last = None
    elif last is not None and ends is not None:
        last = Microseconds(max(last, ends))
    return replace(gap, since=first, until=last)
