"""Spans on their way to a collector: how far a trace's are sent, and the next of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec

from model.spans import ExportedSpan
from model.times import Duration


class CopyLoss(NamedTuple):
    """The loss of a copy: its time (µs), its publish and its queue."""

    at: int
    event: int
    queue: str


class SpanPosition(NamedTuple):
    """The place up to which a trace's spans are sent: its last event, and the last loss."""

    trace_id: int
    vhost: str
    read_id: int
    last_id: int
    lost: CopyLoss


class SpanPortion(NamedTuple):
    """A trace's next spans, and the place behind them.

    ``ended`` are the deliveries whose end came behind the last event, so that they are not sent
    again; ``failed`` the roots of conversations that are sent from now on although they are not in
    the share.
    """

    place: SpanPosition
    through: int
    read_at: int
    lost: CopyLoss
    spans: Sequence[ExportedSpan]
    events: int
    goes_on: bool
    ended: frozenset[int] = frozenset()
    failed: frozenset[int] = frozenset()
    conversations: int = 0
    cut: int = 0


class SentSpans(msgspec.Struct, frozen=True):
    """A trace's spans at the collector, by `ITC_OTLP_EXPORT_RULES`."""

    vhost: str
    through: Annotated[int, "The last event whose spans were sent, or left out by the rules."]
    behind: Annotated[
        Duration, "Seconds since what is not sent yet was recorded; 0 where all is sent."
    ]
    sent: int
    refused: Annotated[int, "Spans that the collector refused."]
    missed: Annotated[int, "Events that retention removed before their spans were sent."]
    cut: Annotated[int, "Failed conversations of which only a part was sent, for their length."]
    waits_for: Annotated[
        str | None, "What keeps spans, in a sentence, in the service that is asked."
    ] = None
