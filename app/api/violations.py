"""Assertions and violations as the API shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from app.api.signin.permissions import ReadRights
from app.stored.assertions import HeldAssertion, Violation
from app.watch.subjects import unwatched
from app.watch.webhook import violation_facts
from model.assertions import InvalidAssertionError, from_json
from model.times import iso_time


def assertion_view(held: HeldAssertion) -> dict[str, Any]:
    """An assertion, and what came of it."""
    said = msgspec.json.decode(held.text)
    return {
        "vhost": held.vhost,
        "name": held.name,
        "assertion": said,
        "unwatched": _unwatched(said),
        "set_by": held.set_by,
        "set_at": iso_time(held.set_at),
        "from_event_id": held.from_event_id,
        "judged_id": held.judged_id,
        "waiting": held.waiting,
        "held": held.held,
        "violated": held.violated,
        "unknown": held.unknown,
    }


def _unwatched(said: dict[str, Any]) -> str | None:
    try:
        return unwatched(from_json(said))
    except InvalidAssertionError as error:
        return f"this version does not know it: {error}"


def violations_view(found: Sequence[Violation], limit: int, content: ReadRights) -> dict[str, Any]:
    """A page of violations; one more than ``limit`` was asked for."""
    items, is_cut = found[:limit], len(found) > limit
    return {
        "items": [_violation_view(each, content) for each in items],
        "truncated": is_cut,
        "next": items[-1].id if is_cut else None,
    }


def _violation_view(violation: Violation, content: ReadRights) -> dict[str, Any]:
    at = violation.delivered_at
    facts = violation_facts(violation)
    if not content.cover(violation.vhost):
        facts |= {"type": None, "sentence": None}  # of what is in the message
    return {
        **facts,
        "complete": violation.complete,
        "delivery": violation.delivery.value,
        "attempts": violation.attempts,
        "delivered_at": None if at is None else iso_time(at),
        "error": violation.error,
    }
