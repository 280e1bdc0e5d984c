"""Likely links: what rules that are not adopted would have made of stored events."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import TYPE_CHECKING

from app.stored.likely import Overlay
from model.happened import Cause
from model.words import LINKED

if TYPE_CHECKING:
    from app.traces.restamping import Restamping

# So many events are read at the most, and for so long.
MOST_EVENTS = 10_000
MOST_SECONDS = 10.0


async def overlay_of(restamping: Restamping, first: int, last: int) -> Overlay:
    """What would be stored of the events from one id to another, as far as they are read."""
    overlay, until, read = Overlay(first, last), time.monotonic() + MOST_SECONDS, 0
    async with aclosing(restamping.preview(first, last)) as parts:
        async for events, stamps in parts:
            for event, stamp in zip(events, stamps, strict=True):
                if event.id > last:
                    break
                causes = [
                    Cause(edge.cause.id, edge.rule, edge.kind.name)
                    for edge in stamp.edges
                    if edge.kind in LINKED and edge.cause.id is not None
                ]
                overlay.add(
                    event.id,
                    stamp.participant,
                    () if stamp.quiet else stamp.names.conversations,
                    causes,
                    is_publish=event.queue is None,
                )
            read += len(events)
            if read >= MOST_EVENTS or time.monotonic() > until:
                overlay.last = min(last, events[-1].id)
                break
            await asyncio.sleep(0)
    return overlay
