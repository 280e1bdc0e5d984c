"""Pages of events, and their order."""

from __future__ import annotations

import enum
import math

import msgspec

from model.event import Event


class Sort(enum.StrEnum):
    """What a page is ordered by; equal events are ordered by id."""

    id = "id"
    recorded_at = "recorded_at"
    lamport = "lamport"


class EventPage(msgspec.Struct, frozen=True):
    """One page in the manner of RabbitMQ's management API.

    ``total_count`` counts all events of the virtual hosts that the filter lets through.
    """

    items: list[Event]
    total_count: int
    filtered_count: int
    page: int
    page_size: int

    @property
    def item_count(self) -> int:
        """How many events are on this page."""
        return len(self.items)

    @property
    def page_count(self) -> int:
        """How many pages there are, at least one."""
        return max(1, math.ceil(self.filtered_count / self.page_size))
