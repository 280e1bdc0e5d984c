"""The tracker's results as rows: tuples in the order of the tables' columns.

References in them must have their ids already. Those of events are in `_rows.pyx`.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter, itemgetter
from typing import Any, TypeAlias

from app.stored.spans import context_of
from app.tracker.events import ChannelState, Edge, LostCopy, PendingCopy, StampedEvent
from app.tracker.links.names import NO_NAMES, Key, Names
from model.words import IS_CONVERSATION, IS_FOUND_BY, Awareness, EdgeKind, EventType

Row: TypeAlias = tuple[Any, ...]

_KEY = itemgetter(2)
_channel_fields = attrgetter("node", "connection", "number", "user")
_channel_state = attrgetter("last_event_id", "replies_to")
_BOTH_ROLES = IS_CONVERSATION | IS_FOUND_BY


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


def key_rows(trace_id: int, events: Iterable[StampedEvent]) -> list[Row]:
    """Rows of the keys by which events are found or belong together.

    A delivery with the same names as its publish is found through the publish by the message's own
    names: nearly every message has an id, and a row for each event costs a tenth of capture's
    speed. Other values many messages may share: a search for these needs all of their events from
    the index, in order.
    """
    rows: list[Row] = []
    for event in events:
        names = event.names
        if names is NO_NAMES:
            continue
        own_names = names.called
        if own_names and event.cause is not None and event.cause.names is names:
            own_names = ()
        event_id = event.reference.id
        if names.conversations or names.found_by:
            found_by, conversations = dict.fromkeys(names.found_by + own_names), names.conversations
            for key in conversations:
                roles = _BOTH_ROLES if key in found_by else IS_CONVERSATION
                rows.append((trace_id, event_id, key, roles))
            for key in found_by:
                if key not in conversations:
                    rows.append((trace_id, event_id, key, IS_FOUND_BY))
        else:
            for key in own_names:
                rows.append((trace_id, event_id, key, IS_FOUND_BY))
    rows.sort(key=_KEY)  # SQLite's order: an insertion then takes two thirds of the time
    return rows


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
