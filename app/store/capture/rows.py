"""The tracker's results as rows: tuples in the order of the tables' columns.

References in them must have their ids already. Those of events are in `_rows.pyx`.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, TypeAlias

from app.stored.spans import context_of
from app.tracker.events import ChannelState, Edge, LostCopy, PendingCopy, StampedEvent
from app.tracker.links.names import Key, Names
from model.words import IS_CONVERSATION, IS_FOUND_BY, Awareness, EdgeKind, EventType

Row: TypeAlias = tuple[Any, ...]

_channel_fields = attrgetter("node", "connection", "number", "user")
_channel_state = attrgetter("last_event_id", "replies_to")


def channel_rows(trace_id: int, channels: Iterable[ChannelState]) -> list[Row]:
    return [
        (
            trace_id,
            channel.key,
            channel.participant,
            *_channel_fields(channel.channel),
            *_channel_state(channel),
        )
        for channel in channels
    ]


def copy_rows(trace_id: int, copies: Iterable[PendingCopy]) -> list[Row]:
    return [
        (trace_id, copy.number, copy.queue, copy.fingerprint, copy.cause.id, copy.recorded_at)
        for copy in copies
    ]


def lost_copy_rows(trace_id: int, copies: Iterable[LostCopy]) -> list[Row]:
    return [(trace_id, copy.cause.id, copy.queue, copy.lost_at, copy.reason) for copy in copies]


def roles_of(names: Names) -> dict[Key, int]:
    roles = dict.fromkeys(names.conversations, IS_CONVERSATION)
    for key in names.found_by + names.called:
        roles[key] = roles.get(key, 0) | IS_FOUND_BY
    return roles


def edge_rows(trace_id: int, events: Iterable[StampedEvent]) -> list[Row]:
    """Rows of the links to events."""
    rows = {}
    for event in events:
        for edge in event.edges:
            key = (event.reference.id, edge.cause.id, edge.rule)
            rows[key] = (trace_id, *key, int(edge.kind), awareness_code(edge))
    return [*rows.values()]


def awareness_code(edge: Edge) -> int:
    """The way as it is stored; a candidate's is not known, so that it is no evidence."""
    return int(Awareness.known if edge.kind is EdgeKind.candidate else edge.way)


def traceparent_rows(trace_id: int, events: Iterable[StampedEvent]) -> list[Row]:
    """Rows of the contexts in publishes, and in deliveries whose publish is not known."""
    rows: list[Row] = []
    for event in events:
        if event.cause is not None or event.quiet:
            continue
        headers = event.record.properties.get("headers")
        if type(headers) is not dict or "traceparent" not in headers:
            continue
        context = context_of(headers["traceparent"])
        if context is not None:
            is_publish = event.record.event_type == EventType.published
            waits_for = context if is_publish else None
            rows.append((trace_id, event.reference.id, context, is_publish, waits_for))
    return rows
