"""A period's spans, sent to the collector for a job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from app.background import pauses
from app.collector.follower import PORTION
from app.collector.sender import CollectorError, RefusedSpans, Sender
from app.errors import NotTracedError, OutageError
from app.stored.exporting import CopyLoss, SpanPortion, SpanPosition
from app.version import program_version
from model.described import json_of
from model.interchange import PeriodSummary, SentCounts
from model.jobs import Progress
from model.spans import LinkDelivery
from model.times import Microseconds

if TYPE_CHECKING:
    from app.store.store import Store

MOST_TRIES = 5
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds


class PeriodOrder(msgspec.Struct, frozen=True):
    """A period of a virtual host (µs), and where its shovels' publishes came from."""

    vhost: str
    since: int
    until: int
    arrivals: dict[str, tuple[str, int, int]] = {}


async def send_period(
    store: Store, sender: Sender, order: PeriodOrder, tell: Callable[[Progress], None]
) -> Mapping[str, Any]:
    """Send the spans of the events of a period; returns the summary.

    Raises `OutageError` if the collector was away too often in a row.
    """
    begin = time.monotonic()
    trace = await store.traces.find(order.vhost)
    if trace is None:
        raise NotTracedError(order.vhost)
    period = await store.periods.of(trace.id, order.since, order.until)
    first, last = period.first or 1, period.last or 0
    place = SpanPosition(trace.id, order.vhost, first - 1, last, CopyLoss(0, 0, ""))
    arrivals = {int(event): LinkDelivery(*side) for event, side in order.arrivals.items()}
    events = conversations = spans = 0
    refused = RefusedSpans()
    while place.read_id < place.last_id:
        portion = await store.span_exports.of_period(
            place, (order.since, order.until), PORTION, arrivals
        )
        refused = refused.and_more(await _send(sender, portion, spans))
        spans += len(portion.spans)
        events += portion.events
        conversations += portion.conversations
        place = place._replace(read_id=portion.through)
        percent = 100 * (portion.through - first + 1) / (last - first + 1)
        tell(Progress("sending", min(99.0, percent), events, spans))
    soundness = await store.doubts.between(trace.id, first, last)
    summary = PeriodSummary(
        vhost=order.vhost,
        since=Microseconds(order.since),
        until=Microseconds(order.until),
        via="links",
        format="collector",
        file=None,
        bytes=0,
        sha256=None,
        gaps=period.gaps,
        soundness=soundness,
        seconds={"send": round(time.monotonic() - begin, 3)},
        versions={"rabbitmq-itc": program_version()},
    )
    counts = SentCounts(
        events=events,
        conversations=conversations,
        cut=0,
        spans=spans,
        refused=refused.number,
        refusal=refused.reason or None,
    )
    return {**json_of(summary), **json_of(counts)}


async def _send(sender: Sender, portion: SpanPortion, sent: int) -> RefusedSpans:
    waits = islice(pauses(FIRST_PAUSE, LONGEST_PAUSE), MOST_TRIES - 1)
    while True:
        try:
            return await sender.send(portion.spans, portion.place.vhost)
        except CollectorError as error:
            if (pause := next(waits, None)) is None:
                raise OutageError(
                    f"{error}, {MOST_TRIES} times in a row, after {sent} spans. Ask again once it"
                    " is there: the same spans have the same ids."
                ) from error
            await asyncio.sleep(error.pause or pause)
