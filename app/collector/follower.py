"""Follows the store, and sends the spans of each trace that is on, a portion at a time.

The place behind a portion is stored once the collector has taken it. So after a kill, or an outage
in between, the same spans are sent again, with the same ids.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

from app.stored.exporting import CopyLoss, SpanPosition
from model.sampling import SpanShare, is_on
from model.times import now

if TYPE_CHECKING:
    from app.collector.sender import Sender
    from app.store.spans.exports import SpanExports

PORTION = 500
"""Events of a portion."""

DELAY_SECONDS = 5.0
"""An event's age when its spans are made: what became of it soon, and why, is in them."""

IDLE_SECONDS = 2.0
"""The pause between looks at a trace without new events, for settlements and losses."""


@dataclass
class _Reached:
    """The ends that were sent at a place, and the last loss; when to look there again."""

    read_id: int
    ended: frozenset[int]
    lost: CopyLoss
    idle_until: float = 0.0


@dataclass(eq=False)
class SpanFollower:
    """Sends the spans of traces, by the rules."""

    exports: SpanExports
    sender: Sender
    rules: Sequence[SpanShare]
    _: KW_ONLY
    delay_seconds: float = DELAY_SECONDS
    portion: int = PORTION
    clock: Callable[[], int] = now
    timer: Callable[[], float] = time.monotonic
    _reached: dict[int, _Reached] = field(default_factory=dict, init=False)

    async def begin(self, vhosts: Collection[str], since: int) -> None:
        """Begin with traces that are on and have no place; forget those that are off."""
        on = [vhost for vhost in vhosts if is_on(self.rules, vhost)]
        await self.exports.begin(on, since)

    async def look(self, trace_ids: Collection[int]) -> bool:
        """Send the next portion of each trace; whether one of them goes on at once.

        Traces are those that run here; those that no service runs are followed, too. Raises
        `OutageError`: then nothing is lost.
        """
        goes_on = False
        for place in await self.exports.positions(trace_ids):
            reached = self._reached.get(place.trace_id)
            if reached is None or reached.read_id != place.read_id:
                reached = _Reached(place.read_id, frozenset(), place.lost)
            if place.last_id > place.read_id or self.timer() >= reached.idle_until:
                goes_on |= await self._send_next(place, reached)
        return goes_on

    async def _send_next(self, place: SpanPosition, reached: _Reached) -> bool:
        until = self.clock() - int(self.delay_seconds * 1_000_000)
        place = place._replace(lost=reached.lost)
        portion = await self.exports.next(place, self.rules, self.portion, until, reached.ended)
        refused = await self.sender.send(portion.spans, place.vhost) if portion.spans else None
        is_new = portion.through > place.read_id or portion.lost > place.lost
        if is_new or portion.spans:
            count = 0 if refused is None else refused.number
            if not await self.exports.advance(portion, refused=count):
                self._reached.pop(place.trace_id, None)
                return True
        idle_until = 0.0 if is_new or portion.goes_on else self.timer() + IDLE_SECONDS
        self._reached[place.trace_id] = _Reached(
            portion.through, portion.ended, portion.lost, idle_until
        )
        return portion.goes_on
