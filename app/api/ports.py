"""What the routes need of the broker and the store, as protocols.

``app.main`` hands in the real parts, tests hand in fakes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeVar

from app.stored.assertions import Delivery, HeldAssertion, Violation, ViolationFilter
from app.stored.causality import Chain, EventLinks, Link, Path, Walk
from app.stored.conversations import ConversationFilter, ConversationPage, FoundConversation
from app.stored.deliveries import Fate
from app.stored.failures import FailureFilter, FailurePage
from app.stored.filters import EventFilter
from app.stored.hidden import HiddenLink, HiddenWays
from app.stored.link_rules import HeldRule
from app.stored.pages import EventPage, Found, Sort
from app.stored.participants import Participant, VectorEntry
from app.stored.periods import Histogram, Period
from app.stored.quarantine import Quarantined
from app.stored.spans import Handled, Span
from app.stored.touched import Touched
from app.stored.traces import Trace
from app.tracker.links import Rule, TraceRule
from model.answers import Verdict
from model.event import EVERYTHING, Event, Large
from model.gaps import Gap
from model.sound import Soundness
from model.words import Via

T = TypeVar("T")


class BrokerUser(Protocol):
    """Who the broker says some credentials belong to."""

    @property
    def name(self) -> str: ...
    @property
    def tags(self) -> frozenset[str]: ...


class BrokerUsers(Protocol):
    """What the broker says of its users (`app.broker.management.ManagementApi`)."""

    async def whoami(self, authorization: bytes) -> BrokerUser: ...
    async def visible_vhosts(self, authorization: bytes) -> frozenset[str]: ...
    async def read_patterns(self, user: str) -> frozenset[tuple[str, str]]: ...
    async def vhosts(self) -> frozenset[str]: ...


class Events(Protocol):
    """The stored events (`app.store.queries`)."""

    async def get(self, event_id: int, large: Large = EVERYTHING) -> Event: ...
    async def list(
        self,
        asked: EventFilter,
        *,
        after: int | None = None,
        before: int | None = None,
        limit: int = 100,
        large: Large = EVERYTHING,
    ) -> Sequence[Event]: ...
    async def find(
        self,
        asked: EventFilter,
        *,
        after: int | None = None,
        before: int | None = None,
        limit: int = 100,
        large: Large = EVERYTHING,
        follow: bool = False,
    ) -> Found: ...
    async def get_all(self, ids: Sequence[int], large: Large = EVERYTHING) -> Sequence[Event]: ...
    async def some(self, ids: Sequence[int], large: Large = EVERYTHING) -> Sequence[Event]: ...
    async def page(
        self,
        asked: EventFilter,
        *,
        page: int,
        page_size: int,
        sort: Sort = Sort.id,
        descending: bool = True,
        large: Large = EVERYTHING,
    ) -> EventPage: ...
    async def over_time(self, asked: EventFilter, buckets: int) -> Histogram | None: ...


class Causality(Protocol):
    """Every stored event's past and future (`app.store.causality`)."""

    async def causes(
        self,
        event_id: int,
        limit: int,
        large: Large,
        via: Via,
        *,
        before: int | None,
        asked: EventFilter,
    ) -> Walk: ...
    async def effects(
        self,
        event_id: int,
        limit: int,
        large: Large,
        via: Via,
        *,
        after: int | None,
        asked: EventFilter,
    ) -> Walk: ...
    async def path(self, a: int, b: int) -> Path: ...
    async def named_by(self, ids: Sequence[int]) -> Mapping[int, Sequence[Link]]: ...
    async def links_of(self, trace_id: int, event_id: int) -> EventLinks: ...


class Conversations(Protocol):
    """What began with each stored message (`app.store.conversations`)."""

    async def of_event(
        self, event_id: int, via: Via, *, limit: int, after: int | None
    ) -> FoundConversation: ...
    async def list(
        self,
        asked: EventFilter,
        wanted: ConversationFilter,
        via: Via,
        *,
        before: int | None,
        limit: int,
    ) -> ConversationPage: ...


class Chains(Protocol):
    """The chains between stored events (`app.store.chains`)."""

    async def between(
        self, a: int, b: int, limit: int, large: Large, via: Via, *, after: int | None
    ) -> Chain: ...


class TouchedEvents(Protocol):
    """What stored events touched (`app.store.touched`)."""

    async def by(
        self,
        ids: Sequence[int],
        *,
        verdict: Verdict | None,
        limit: int,
        large: Large,
        after: int | None,
    ) -> Touched: ...


class Deliveries(Protocol):
    """What became of each stored publish (`app.store.deliveries`)."""

    async def fate_of(self, event_id: int, large: Large) -> Fate: ...


class Gaps(Protocol):
    """The stored gaps (`app.store.gaps`)."""

    async def between(self, trace_id: int, a: int, b: int) -> Sequence[Gap]: ...


class Doubts(Protocol):
    """What is known of the traces' soundness (`app.store.doubts`)."""

    async def between(self, trace_id: int, a: int, b: int) -> Soundness: ...


class Failures(Protocol):
    """What failed, of all traces (`app.store.failures`)."""

    async def find(
        self, asked: FailureFilter, *, before: int | None, limit: int
    ) -> FailurePage: ...
    async def span(self, asked: FailureFilter) -> tuple[int, int]: ...


class Hidden(Protocol):
    """Links whose cause came by no way through the broker (`app.store.hidden`)."""

    async def newest(
        self, trace_id: int, *, before: int | None, limit: int
    ) -> Sequence[HiddenLink]: ...
    async def ways(self, trace_id: int, vhost: str) -> HiddenWays: ...


class Periods(Protocol):
    """What the traces have of periods of time (`app.store.periods`)."""

    async def of(self, trace_id: int, since: int | None, until: int | None) -> Period: ...


class Traces(Protocol):
    """The stored traces, including those that are not running (`app.store.traces`)."""

    async def find(self, vhost: str) -> Trace | None: ...


class Participants(Protocol):
    """Who took part in the traces (`app.store.participants`)."""

    async def list(
        self, trace_id: int, *, before: int | None, limit: int
    ) -> Sequence[Participant]: ...
    async def vector(self, event: Event) -> Sequence[VectorEntry]: ...


class Aliases(Protocol):
    """The names that people give to participants (`app.store.aliases`)."""

    async def give(self, trace_id: int, number: int, alias: str) -> None: ...
    async def take_back(self, trace_id: int, number: int) -> None: ...


class LinkRules(Protocol):
    """The rules of links, of all traces (`app.store.link_rules`)."""

    async def own(self, trace_id: int) -> Sequence[Rule]: ...
    async def held(self, trace_id: int) -> Sequence[HeldRule]: ...
    async def put(self, trace_id: int, rule: Rule, of_all: Sequence[TraceRule]) -> bool: ...
    async def set(
        self, trace_id: int, rules: Sequence[Rule], of_all: Sequence[TraceRule]
    ) -> None: ...
    async def remove(self, trace_id: int, name: str) -> None: ...


class Assertions(Protocol):
    """The assertions of all traces (`app.store.assertions`)."""

    async def list(self, vhosts: Collection[str] | None = None) -> Sequence[HeldAssertion]: ...
    async def put(self, trace_id: int, name: str, text: str, set_by: str) -> bool: ...
    async def set(self, trace_id: int, texts: Mapping[str, str], set_by: str) -> None: ...
    async def remove(self, trace_id: int, name: str) -> None: ...


class Violations(Protocol):
    """What did not hold (`app.store.violations`)."""

    async def list(
        self, asked: ViolationFilter, *, before: int | None = None, limit: int = 100
    ) -> Sequence[Violation]: ...
    async def deliveries(self) -> Mapping[Delivery, int]: ...


class Quarantine(Protocol):
    """Trace messages that could not be read (`app.store.quarantine`)."""

    async def newest(
        self, vhosts: Collection[str] | None, *, before: int | None, limit: int
    ) -> Sequence[Quarantined]: ...


class Spans(Protocol):
    """Imported spans (`app.store.spans`)."""

    async def add(self, spans: Sequence[Span]) -> int: ...
    async def oldest_event(self) -> int | None: ...
    async def late_between(self, trace_id: int, a: int, b: int) -> int: ...
    async def handled(self, event: Event) -> Sequence[Handled]: ...


class Store(Protocol):
    """The store as far as the routes use it (`app.store.Store`)."""

    async def at_once(self, work: Callable[[], Awaitable[T]]) -> T: ...

    @property
    def events(self) -> Events: ...
    @property
    def causality(self) -> Causality: ...
    @property
    def conversations(self) -> Conversations: ...
    @property
    def chains(self) -> Chains: ...
    @property
    def touched(self) -> TouchedEvents: ...
    @property
    def deliveries(self) -> Deliveries: ...
    @property
    def gaps(self) -> Gaps: ...
    @property
    def doubts(self) -> Doubts: ...
    @property
    def failures(self) -> Failures: ...
    @property
    def hidden(self) -> Hidden: ...
    @property
    def periods(self) -> Periods: ...
    @property
    def traces(self) -> Traces: ...
    @property
    def participants(self) -> Participants: ...
    @property
    def aliases(self) -> Aliases: ...
    @property
    def link_rules(self) -> LinkRules: ...
    @property
    def assertions(self) -> Assertions: ...
    @property
    def violations(self) -> Violations: ...
    @property
    def quarantine(self) -> Quarantine: ...
    @property
    def spans(self) -> Spans: ...
    async def size(self) -> int: ...
