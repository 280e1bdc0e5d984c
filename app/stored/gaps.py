"""Gaps: spans in which trace messages may have been lost."""

from __future__ import annotations

import msgspec


class Gap(msgspec.Struct, frozen=True):
    """A span that may lack events of a trace. Times in µs.

    The loss lies somewhere after the event ``after_event_id`` (0: before the first) and before
    ``before_event_id``. That and ``until`` are None while it may still go on.
    """

    id: int
    after_event_id: int
    before_event_id: int | None
    since: int
    until: int | None
    reason: str
