"""A portion of a trace's spans: of its next events, and of settlements and losses since.

What is read for a message is bounded by that message, and nothing is read of its conversation but
the way back to its beginning; of a conversation that failed and was left out until then, all that
came before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import bindparam, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.causality import links
from app.store.causality.copies import losses_of
from app.store.causality.ranges import oldest
from app.store.database import tables
from app.store.database.chunks import chunks
from app.store.reading.events import read_with_types
from app.store.spans.beginnings import (
    Beginning,
    Beginnings,
    KnownEvent,
    contexts_of,
    known_causes,
)
from app.stored.causality import Named
from model.conversations.assembly import messages_of
from model.conversations.messages import Message
from model.event import Event
from model.happened import Cause, ConversationEvent, conversation_event, sort_causes
from model.sampling import SpanShare, is_sampled, share_of
from model.spans import ExportedSpan, LinkDelivery, Part, SpanFacts, SpanMaker, context_in
from model.words import Disposition, EventType

# Deliveries of a message that are read beside those whose spans are due, the nearest before.
MOST_OF_MESSAGE = 100
# Events of one conversation, and of all in a portion, that are sent later because it failed.
MOST_WHOLE, MOST_WHOLE_TOGETHER = 1_000, 5_000

# Quiet traffic has no spans, but is in the line.
NEXT = text(
    "SELECT id, type, cause_id, recorded_at, quiet, settlement, hold FROM events"
    " WHERE trace_id = :trace AND id > :after AND id <= :last ORDER BY id LIMIT :most"
)
# A settlement is stored with the last event before it.
ENDED = text(
    f"SELECT id, cause_id, hold FROM events WHERE trace_id = :trace AND {tables.ENDED}"  # noqa: S608
    " AND hold >= :after AND hold <= :through AND NOT quiet ORDER BY hold, id LIMIT :most"
)
LOST = text(
    "SELECT at, event_id, queue FROM lost_copies"  # noqa: S608 - a constant
    f" WHERE trace_id = :trace AND {tables.FINAL_LOSSES}"
    " AND at >= :at AND (at, event_id, queue) > (:at, :event, :queue)"
    " ORDER BY at, event_id, queue LIMIT :most"
)
_NEAREST = text(
    "SELECT id FROM events WHERE cause_id = :id AND id <= :last ORDER BY id DESC LIMIT :most"
)
_PUT_ASIDE = text(
    "SELECT coalesce(e.cause_id, e.id) FROM edges AS g JOIN events AS e ON e.id = g.cause_id"
    " WHERE g.effect_id IN :ids AND g.kind = 2"
).bindparams(bindparam("ids", expanding=True))
_LED_TO = text(
    "SELECT effect_id FROM edges WHERE trace_id = :trace AND cause_id IN :ids AND kind IN (0, 1, 2)"
    " ORDER BY effect_id LIMIT :most"
).bindparams(bindparam("ids", expanding=True))


@dataclass(eq=False)
class DueParts:
    """The events whose spans are due, by part; ``heads`` are their messages."""

    heads: set[int] = field(default_factory=set)
    sent: set[int] = field(default_factory=set)
    handed: set[int] = field(default_factory=set)
    ended: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)

    def add(self, event: Any, message: int | None, *, is_over: bool) -> None:
        """Add an event; ``is_over`` says whether the end of a delivery is due, too."""
        is_publish = event.type == EventType.published
        self.heads.add(event.id if is_publish or message is None else message)
        (self.sent if is_publish else self.handed).add(event.id)
        if is_over and not is_publish:
            self.ended.add(event.id)

    def has(self, event: int, part: Part) -> bool:
        match part:
            case Part.sent:
                return event in self.sent
            case Part.handed:
                return event in self.handed
            case Part.end:
                return event in self.ended
        return event in self.lost


@dataclass(frozen=True)
class ReadMessages:
    """Messages, and what their spans need beside them."""

    messages: Sequence[Message]
    facts: Mapping[int, SpanFacts]
    beginnings: Mapping[int, Beginning]
    known: Sequence[KnownEvent]


@dataclass(eq=False)
class PortionReader:
    """Reads messages of a trace, and makes the spans that are due."""

    connection: AsyncConnection
    trace_id: int
    vhost: str
    through: int
    beginnings: Beginnings
    rules: Sequence[SpanShare]

    async def read(self, due: DueParts) -> ReadMessages:
        """The messages of the events that are due, with their deliveries and what they led to."""
        heads = due.heads | await self._put_aside(sorted(due.sent))
        ids = heads | due.handed | due.ended | await self._deliveries(sorted(heads))
        stored = await self._stored(ids)
        deliveries = [e.id for e in stored.values() if e.type is EventType.received]
        led_to = await self._effects_of(deliveries) - stored.keys()
        stored |= await self._stored(led_to)
        named = await links.edge_causes(self.connection, sorted(stored))
        causes = {
            effect: sort_causes(Cause(c.cause, c.rule, c.kind.name) for c in effects)
            for effect, effects in named.items()
        }
        publishes = [e.id for e in stored.values() if e.type is EventType.published]
        losses = await losses_of(self.connection, self.trace_id, publishes)
        made = messages_of(map(conversation_event, stored.values()), causes, losses)
        messages = [message for message in made if message.event not in led_to]
        return await self._with_beginnings(messages, stored, named)

    async def _with_beginnings(
        self,
        messages: Sequence[Message],
        stored: Mapping[int, Event],
        named: Mapping[int, Sequence[Named]],
    ) -> ReadMessages:
        facts = {
            event.id: SpanFacts(event.properties or {}, event.payload_bytes, event.connection)
            for event in stored.values()
        }
        members = {e.id for message in messages for e in _events_of(message)}
        of_members = {effect: ways for effect, ways in named.items() if effect in members}
        causes = await known_causes(self.connection, of_members)
        records = [message.record for message in messages]
        heads = {e.id: KnownEvent(e.id, e.type, e.id, e.recorded_at) for e in records}
        contexts = {event_id: context_in(facts[event_id].properties) for event_id in heads}
        beginnings = await self.beginnings.of(self.connection, heads, causes, contexts)
        known = [event for events in causes.values() for event in events]
        return ReadMessages(messages, facts, beginnings, known)

    def spans(
        self,
        read: ReadMessages,
        due: DueParts,
        roots: Collection[int],
        arrivals: Mapping[int, LinkDelivery] | None = None,
    ) -> Iterator[ExportedSpan]:
        """The due spans of the messages that the rules keep, or whose conversations are kept."""
        contexts = contexts_of(self.vhost, read.known, read.beginnings)
        maker = SpanMaker(self.vhost, read.facts, arrivals or {}, contexts, due.has)
        for message in read.messages:
            beginning = read.beginnings[message.event]
            share = share_of(self.rules, self.vhost, message.exchange)
            if share is None:
                continue
            if beginning.root in roots or is_sampled(beginning.trace, share):
                yield from maker.spans(message, beginning.root, beginning.trace)

    def outside_share(self, read: ReadMessages) -> dict[int, bool]:
        """The roots of conversations that are not in the share; whether one of these failed."""
        roots: defaultdict[int, bool] = defaultdict(bool)
        for message in read.messages:
            beginning = read.beginnings[message.event]
            share = share_of(self.rules, self.vhost, message.exchange)
            if share is not None and not is_sampled(beginning.trace, share):
                roots[beginning.root] |= message.failure is not None
        return roots

    async def whole(self, roots: Sequence[int], after: int) -> tuple[DueParts, int]:
        """All parts of some conversations up to an event; and how many are cut."""
        first = await oldest(self.connection, self.trace_id)
        evident = links.Evident(self.connection, self.trace_id, first, MOST_WHOLE_TOGETHER, 1)
        whole, cut = DueParts(), 0
        for root in roots:
            if len(whole.handed) + len(whole.sent) >= MOST_WHOLE_TOGETHER:
                cut += 1
                continue
            reached, too_long = await evident.spread([root], MOST_WHOLE - 1)
            cut += len(too_long)
            ids = sorted(event_id for event_id in {root, *reached[root]} if event_id <= after)
            for event in (await self._stored(ids)).values():
                is_over = event.settlement is not Disposition.in_hand
                whole.add(event, event.cause, is_over=is_over)
        whole.lost |= whole.sent
        return whole, cut

    async def _put_aside(self, publishes: Sequence[int]) -> set[int]:
        """The messages that publishes put into an error queue, which says that they failed."""
        ids: set[int] = set()
        for chunk in chunks(publishes):
            ids.update((await self.connection.execute(_PUT_ASIDE, {"ids": chunk})).scalars())
        return ids

    async def _deliveries(self, heads: Sequence[int]) -> set[int]:
        """The deliveries of messages; of one with very many the nearest to the last event."""
        ids: set[int] = set()
        for chunk in chunks(heads):
            most = 20 * len(chunk) + 10 * MOST_OF_MESSAGE
            binds = {"ids": chunk, "most": most}
            delivered = [*(await self.connection.execute(links.DELIVERIES, binds)).scalars()]
            if len(delivered) == most:
                delivered = []
                for head in chunk:
                    one = {"id": head, "last": self.through, "most": MOST_OF_MESSAGE}
                    delivered += (await self.connection.execute(_NEAREST, one)).scalars()
            ids.update(delivered)
        return ids

    async def _effects_of(self, deliveries: Sequence[int]) -> set[int]:
        ids: set[int] = set()
        for chunk in chunks(deliveries):
            most = 10 * len(chunk) + MOST_OF_MESSAGE
            binds = {"trace": self.trace_id, "ids": chunk, "most": most}
            ids.update((await self.connection.execute(_LED_TO, binds)).scalars())
        return ids

    async def _stored(self, ids: Iterable[int]) -> dict[int, Event]:
        events = read_with_types(self.connection, sorted(ids))
        return dict(sorted([(event.id, event) async for event in events if not event.quiet]))


def _events_of(message: Message) -> Iterator[ConversationEvent]:
    yield message.record
    for copy in message.copies:
        for delivery in copy.deliveries:
            yield delivery.record
