"""What watching needs of the store, the traces and the network, as protocols."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol

from app.stored.assertions import Delivery, HeldAssertion, Judged, Reach, Seen, Telling
from app.stored.conversations import FoundConversation
from model.event import Event, Large
from model.gaps import Gap
from model.sound import Soundness
from model.words import Via


class ViolationStore(Protocol):
    """What did not hold (`app.store.violations`)."""

    async def claim(self, now: int, until: int, limit: int) -> Sequence[Telling]: ...
    async def told(
        self,
        telling: Telling,
        *,
        at: int,
        error: str | None = None,
        next_at: int | None = None,
    ) -> None: ...
    async def deliveries(self) -> Mapping[Delivery, int]: ...


class Post(Protocol):
    """Sends something to the one address that the setting names (`app.watch.post`)."""

    async def send(self, body: bytes, headers: Mapping[str, str]) -> None: ...
    async def close(self) -> None: ...


class AssertionStore(Protocol):
    """The assertions of traces (`app.store.assertions`)."""

    async def of_traces(self, trace_ids: Collection[int]) -> Sequence[HeldAssertion]: ...
    async def judged(
        self, trace_id: int, judged: Judged, delivery: Delivery = Delivery.none
    ) -> bool: ...


class Page(Protocol):
    """Events of a trace in order, and up to where there are no others (`app.store.watching`)."""

    @property
    def events(self) -> Sequence[Seen]: ...
    @property
    def through(self) -> int: ...


class EventStore(Protocol):
    """The events of traces, as they come (`app.store.watching`)."""

    async def page(self, trace_id: int, after: int, limit: int) -> Page: ...


class Snapshot(Protocol):
    """How a trace is (`app.traces.status.Snapshot`)."""

    @property
    def settled_at(self) -> int: ...
    @property
    def settled_id(self) -> int: ...


class WatchedTraces(Protocol):
    """The traces that this service runs (`app.traces.registry`)."""

    def snapshots(self) -> Mapping[int, Snapshot]: ...
    def prove(self, trace_id: int) -> None: ...


class ReachStore(Protocol):
    """What leads to what (`app.store.watching`)."""

    async def reached(
        self, trace_id: int, ids: Sequence[int], towards: Literal[1, -1]
    ) -> Mapping[int, Reach]: ...


class ConversationStore(Protocol):
    """Conversations (`app.store.conversations`)."""

    async def of_event(
        self, event_id: int, via: Via, *, limit: int, after: int | None
    ) -> FoundConversation: ...


class ClockStore(Protocol):
    """Events with their clocks (`app.store.queries`)."""

    async def some(self, ids: Sequence[int], large: Large) -> Sequence[Event]: ...


class GapStore(Protocol):
    """Gaps (`app.store.gaps`)."""

    async def between(self, trace_id: int, a: int, b: int) -> Sequence[Gap]: ...


class DoubtStore(Protocol):
    """Whether participants are those who act (`app.store.doubts`)."""

    async def between(self, trace_id: int, a: int, b: int) -> Soundness: ...
