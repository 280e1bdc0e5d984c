"""Pages of events, and their order."""

from __future__ import annotations

import enum
import math
from typing import Annotated

import msgspec

from app.stored.filters import EventFilter
from model.described import INNER
from model.event import Event

# From this position on, a page is located by arithmetic if possible, else by counting rows: at
# 2,500,000, counting takes three times as long as the rest of the answer.
DEEP = 1_000
# Lists with a filter, deep pages and long walks at a time; each has a connection to the database.
SEARCHES = 4


class Sort(enum.StrEnum):
    """What a page is ordered by; equal events are ordered by id."""

    id = "id"
    recorded_at = "recorded_at"
    lamport = "lamport"


class Found(msgspec.Struct, frozen=True):
    """Events in the order of their list.

    Those in ``heavy`` come without their large fields; it holds the bytes of these by event.
    Whoever wants them reads them some at a time.
    """

    items: list[Event]
    heavy: dict[int, int] = {}


class EventPage(msgspec.Struct, frozen=True):
    """RabbitMQ's page envelope.

    ``heavy`` is that of `Found`.
    """

    items: Annotated[list[Event], INNER]
    total_count: Annotated[int, "Of all events of the virtual hosts that the filter leaves."]
    filtered_count: int
    page: int
    page_size: int
    heavy: Annotated[dict[int, int], INNER] = {}

    @property
    def item_count(self) -> int:
        """How many events are on this page."""
        return len(self.items)

    @property
    def page_count(self) -> int:
        """How many pages there are, at least one."""
        return max(1, math.ceil(self.filtered_count / self.page_size))


def is_quick(asked: EventFilter, sort: Sort = Sort.id, offset: int = 0) -> bool:
    """Whether an index gives the answer directly, with little to search through."""
    return asked.names_traces_alone and sort is Sort.id and offset < DEEP
