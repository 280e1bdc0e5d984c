"""From stored values to what goes over the wire, and straight to bytes.

Lists of events are encoded here rather than by pydantic: a page of 500 takes a few milliseconds
instead of tens. ``app.api.schemas`` says the same shapes to OpenAPI, and tests hold one to the
other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from app.api.signin.permissions import ReadRights
from app.stored.causality import EventLinks, Link
from app.stored.jobs import Job
from app.stored.pages import EventPage
from app.stored.participants import VectorEntry
from app.stored.periods import Histogram
from app.stored.quarantine import Quarantined
from app.stored.spans import Handled
from itc import encode, packed_texts
from model.event import NOTHING_LARGE, SHOWN, WITHOUT_CONTENT, Event, Large
from model.payloads import payload_text
from model.times import LATEST, iso_time

# Numbers, brackets, commas: but for these the paper's notation of a tree is JSON.
_BRACKETS = str.maketrans("()", "[]", " ")


def large_of(columns: Collection[str] | None, payload: bool) -> Large:
    """The large fields that an answer with these columns needs."""
    chosen = (field.large for name, field in SHOWN.items() if columns is None or name in columns)
    large = NOTHING_LARGE.union(*chosen)
    return large if payload else large - {"payload"}


def event_view(
    event: Event, content: ReadRights, columns: Collection[str] | None = None
) -> dict[str, Any]:
    """An event as ``docs/api.md`` shows it to a reader with these rights, or some columns of it."""
    fields = SHOWN if content.allow(event) else WITHOUT_CONTENT
    return {
        name: field.value(event)
        for name, field in fields.items()
        if columns is None or name in columns
    }


def field_views() -> list[dict[str, Any]]:
    """The fields of the event object, in their order."""
    return [
        {
            "name": field.name,
            "kind": field.kind,
            "label": field.shown.label,
            "meaning": field.shown.meaning,
            "usual": field.shown.usual,
        }
        for field in SHOWN.values()
    ]


def event_views(
    rows: Iterable[Event], content: ReadRights, columns: Collection[str] | None = None
) -> list[dict[str, Any]]:
    """Several events."""
    return [event_view(row, content, columns) for row in rows]


def page_view(page: EventPage, items: list[Any]) -> dict[str, Any]:
    """A page in RabbitMQ's envelope; ``items`` are its events' views."""
    return {
        "total_count": page.total_count,
        "item_count": page.item_count,
        "filtered_count": page.filtered_count,
        "page": page.page,
        "page_size": page.page_size,
        "page_count": page.page_count,
        "items": items,
    }


def named_views(links: Iterable[Link]) -> list[dict[str, Any]]:
    """What an event names as its causes, as in exports."""
    return [{"cause": link.cause, "rule": link.rule, "kind": link.kind.name} for link in links]


def event_detail(
    row: Event,
    content: ReadRights,
    vector: Iterable[VectorEntry],
    handled: Iterable[Handled],
    links: EventLinks,
) -> dict[str, Any]:
    """One event with its three clocks, when its message was handled, and its links."""
    stamp = row.stamp
    id_tree, event_tree = packed_texts(stamp.packed, row.interval)
    clocks = {
        "lamport": row.lamport,
        "vector": list(vector),
        "itc": {
            "text": f"({id_tree}, {event_tree})",
            "id": _json_tree(id_tree),
            "event": _json_tree(event_tree),
            "code": encode(stamp).hex(),
        },
    }
    spans = [
        {"from": iso_time(one.started_at), "to": iso_time(one.ended_at), "service": one.service}
        for one in handled
    ]
    naming = [
        {"effect": link.effect, "rule": link.rule, "kind": link.kind.name} for link in links.naming
    ]
    return {
        **event_view(row, content),
        "clocks": clocks,
        "handled": spans,
        "links": named_views(links.named),
        "named_by": {"links": naming, "truncated": links.truncated},
    }


def _json_tree(text: str) -> msgspec.Raw:
    """A tree in the paper's notation, as nested arrays."""
    return msgspec.Raw(text.translate(_BRACKETS).encode())


def job_view(job: Job) -> dict[str, Any]:
    """A job as ``docs/api.md`` shows it."""
    view = msgspec.structs.asdict(job)
    for moment in ("created_at", "started_at", "finished_at"):
        view[moment] = None if view[moment] is None else iso_time(view[moment])
    return view


def histogram_view(found: Histogram | None) -> dict[str, Any]:
    """Events over time; without any events there are no buckets."""
    if found is None:
        nothing = {"since": None, "until": None, "seconds": 0.0, "events": 0}
        return nothing | {"counted_since": None, "buckets": []}
    counted = found.counted_since
    until = min(found.since + len(found.buckets) * found.width, LATEST)
    return {
        "since": iso_time(found.since),
        "until": iso_time(until),
        "seconds": found.width / 1_000_000,
        "events": sum(each.events or 0 for each in found.buckets),
        "counted_since": None if counted is None else iso_time(counted),
        "buckets": [
            {"at": iso_time(found.since + n * found.width), **msgspec.structs.asdict(each)}
            for n, each in enumerate(found.buckets)
        ],
    }


def quarantined_view(one: Quarantined, content: ReadRights) -> dict[str, Any]:
    """A trace message that could not be read; of which queue it is, nobody can tell."""
    is_shown = content.cover(one.vhost)
    body, encoding = payload_text(one.body, len(one.body) < one.body_bytes)
    return {
        "id": one.id,
        "vhost": one.vhost,
        "recorded_at": iso_time(one.recorded_at),
        "reason": one.reason,
        "routing_key": one.routing_key,
        "headers": one.headers if is_shown else None,
        "body": body if is_shown else None,
        "body_encoding": encoding if is_shown else "withheld",
        "body_bytes": one.body_bytes,
    }
