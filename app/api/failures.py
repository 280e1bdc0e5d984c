"""Failures as the API shows them."""

from __future__ import annotations

from typing import Any

from app.stored.failures import Failure, FailureGroup, FoundFailures
from app.stored.hidden import Who
from model.times import iso_time


def failures_view(found: FoundFailures) -> dict[str, Any]:
    """A page of failures, with groups and counts."""
    return {
        "items": [_failure_view(each) for each in found.items],
        "groups": [_group_view(each) for each in found.groups],
        "groups_truncated": found.groups_truncated,
        "over_time": {
            "seconds": found.seconds,
            "counts": [{"at": iso_time(span.at), "count": span.count} for span in found.over_time],
        },
        "counted": found.counted,
        "counted_all": found.counted_all,
        "truncated": found.next is not None,
        "next": found.next,
    }


def _failure_view(failure: Failure) -> dict[str, Any]:
    return {
        "event": failure.event,
        "message": failure.message,
        "vhost": failure.vhost,
        "kind": failure.kind.value,
        "queue": failure.queue,
        "reason": failure.reason,
        "type": failure.type,
        "exception": failure.exception,
        "at": iso_time(failure.at),
        "by": _who_view(failure.by),
        "handed_over": failure.handed_over,
        "times": failure.times,
        "to": failure.to,
        "publisher": _who_view(failure.publisher),
        "exchange": failure.exchange,
        "routing_key": failure.routing_key,
    }


def _who_view(who: Who | None) -> dict[str, Any] | None:
    return None if who is None else {"number": who.participant, "name": who.name}


def _group_view(group: FailureGroup) -> dict[str, Any]:
    return {
        "vhost": group.vhost,
        "kind": group.kind.value,
        "queue": group.queue,
        "reason": group.reason,
        "type": group.type,
        "exception": group.exception,
        "count": group.count,
        "first_at": iso_time(group.first_at),
        "last_at": iso_time(group.last_at),
        "newest": group.newest,
        "by": group.by,
    }
