"""From stored values to what goes over the wire, and straight to bytes.

Lists of events are encoded here rather than by pydantic: a page of 500 takes a few milliseconds
instead of tens. ``app.api.schemas`` says the same shapes to OpenAPI, and tests hold one to the
other.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable
from typing import Any

import msgspec
from starlette.responses import Response

from app.api.schemas import Event, iso_time
from app.stored.events import EventRow, Wanted
from app.stored.jobs import Job
from app.stored.pages import EventPage
from app.stored.participants import VectorEntry
from app.stored.quarantine import Quarantined
from itc import encode

COLUMNS = frozenset(Event.model_fields)
_PAYLOAD_COLUMNS = frozenset({"payload", "payload_encoding"})
_LONGEST_UTF8 = 4

encode_json = msgspec.json.Encoder(decimal_format="number").encode


def json_answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON answer without a model between."""
    return Response(encode_json(value), status, headers, media_type="application/json")


def wanted_columns(columns: Collection[str] | None, payload: bool) -> Wanted:
    """Which of the large columns an answer with these columns needs."""
    chosen = COLUMNS if columns is None else columns
    return Wanted(
        payload=payload and not _PAYLOAD_COLUMNS.isdisjoint(chosen),
        clock="stamp" in chosen,
        properties="properties" in chosen,
    )


def event_view(row: EventRow, columns: Collection[str] | None = None) -> dict[str, Any]:
    """An event as ``docs/api.md`` has it, or some of its columns."""
    payload, encoding = payload_text(row.payload, row.payload_truncated)
    view = {
        "id": row.id,
        "vhost": row.vhost,
        "type": row.type.name,
        "match": row.match.name,
        "cause": row.cause,
        "participant": row.participant,
        "seq": row.seq,
        "lamport": row.lamport,
        "recorded_at": iso_time(row.recorded_at),
        "exchange": row.exchange,
        "queue": row.queue,
        "routing_keys": row.routing_keys,
        "routed_queues": row.routed_queues,
        "redelivered": row.redelivered,
        "node": row.node,
        "connection": row.connection,
        "channel": row.channel,
        "user": row.user,
        "properties": row.properties,
        "payload": payload,
        "payload_encoding": encoding,
        "payload_bytes": row.payload_bytes,
        "payload_truncated": row.payload_truncated,
        "stamp": None if row.clock is None else str(row.stamp),
    }
    if columns is None:
        return view
    return {name: view[name] for name in view if name in columns}


def event_views(
    rows: Iterable[EventRow], columns: Collection[str] | None = None
) -> list[dict[str, Any]]:
    """Several events."""
    return [event_view(row, columns) for row in rows]


def page_view(page: EventPage, columns: Collection[str] | None) -> dict[str, Any]:
    """A page in RabbitMQ's envelope."""
    return {
        "total_count": page.total_count,
        "item_count": page.item_count,
        "filtered_count": page.filtered_count,
        "page": page.page,
        "page_size": page.page_size,
        "page_count": page.page_count,
        "items": event_views(page.items, columns),
    }


def event_detail(row: EventRow, vector: Iterable[VectorEntry]) -> dict[str, Any]:
    """One event with its three clocks."""
    stamp = row.stamp
    id_tree, event_tree = stamp.trees()
    clocks = {
        "lamport": row.lamport,
        "vector": list(vector),
        "itc": {
            "text": str(stamp),
            "id": id_tree,
            "event": event_tree,
            "code": encode(stamp).hex(),
        },
    }
    return {**event_view(row), "clocks": clocks}


def job_view(job: Job) -> dict[str, Any]:
    """A job as ``docs/api.md`` has it."""
    view = msgspec.structs.asdict(job)
    for moment in ("created_at", "started_at", "finished_at"):
        view[moment] = None if view[moment] is None else iso_time(view[moment])
    return view


def quarantined_view(one: Quarantined) -> dict[str, Any]:
    """A trace message that could not be read."""
    body, encoding = payload_text(one.body, len(one.body) < one.body_bytes)
    return {
        "id": one.id,
        "vhost": one.vhost,
        "recorded_at": iso_time(one.recorded_at),
        "reason": one.reason,
        "routing_key": one.routing_key,
        "headers": one.headers,
        "body": body,
        "body_encoding": encoding,
        "body_bytes": one.body_bytes,
    }


def payload_text(payload: bytes | None, cut: bool) -> tuple[str | None, str]:
    """A payload as text, and how: as it is where it is UTF-8, else in base64.

    A payload that was cut may end within a character; that piece is left out.
    """
    if payload is None:
        return None, "string"
    for missing in range(_LONGEST_UTF8 if cut else 1):
        try:
            return payload[: len(payload) - missing].decode(), "string"
        except UnicodeDecodeError:
            continue
    return base64.b64encode(payload).decode(), "base64"
