"""Histories whose messages name each other, made by hand: the tracker is not asked."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from app.stored.capture import Batch
from app.tracker.events import Edge, StampedEvent
from app.tracker.links import Names, search_key
from app.tracker.links.names import NO_NAMES
from model.words import EdgeKind, EventType
from tests.contract.history import History


def conversation(name: str) -> bytes:
    """The key of a conversation."""
    return search_key("conversation", name)


def naming(
    event: StampedEvent, names: Names = NO_NAMES, edges: Sequence[Edge] = ()
) -> StampedEvent:
    """An event whose message says this of itself and of its causes."""
    return msgspec.structs.replace(event, names=names, edges=tuple(edges))


def link(cause: StampedEvent, rule: str = "celery", kind: EdgeKind = EdgeKind.parent) -> Edge:
    """A link to a cause."""
    return Edge(cause.reference, rule, kind)


class LinkedHistory(History):
    """A random history in which some publishes name what their participant was handed before.

    Of a publish and its deliveries about half belong to one or two of a few conversations. The
    stamps know what the broker did; with ``acts`` the edges say it too.
    """

    def __init__(self, seed: int, channels: int = 6, *, acts: bool = False) -> None:
        super().__init__(seed, channels)
        self._acts = acts
        self.linked: list[StampedEvent] = []

    def batch(self, records: int, window: bytes = b"window") -> Batch:
        """As `History.batch`, with names and links; the stamps know nothing of them."""
        plain = super().batch(records, window)
        events = []
        for event in plain.events:
            events.append(self._linked(event))
            self.linked.append(events[-1])
        return Batch(events, plain.checkpoint, window)

    def _linked(self, event: StampedEvent) -> StampedEvent:
        shared = self.random.sample("abcd", self.random.choice((0, 0, 1, 2)))
        names = Names(conversations=tuple(map(conversation, shared)))
        edges: list[Edge] = [*event.edges] if self._acts else []
        before = [
            each for each in self.linked if each.participant == event.participant and not each.quiet
        ]
        if event.record.event_type == EventType.published and before:
            causes = self.random.sample(before, min(len(before), self.random.choice((0, 1, 1, 3))))
            edges += [link(cause, self.random.choice(("celery", "rpc"))) for cause in causes]
        return naming(event, names, edges)
