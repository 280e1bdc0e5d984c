"""One trace's conversations: the walk through each, its events, and their evaluation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import text

from app.store.capture.gaps import in_span
from app.store.causality import links
from app.store.causality.copies import losses_of
from app.store.causality.walks import EVERY_ONE, nearest, neighbours_along
from app.store.conversations.dead_ends import DeadEnds
from app.store.conversations.paces import paces_of
from app.store.conversations.publishers import publishers_of
from app.store.conversations.roots import Roots
from app.store.database import tables
from app.store.database.chunks import chunks
from app.store.reading.events import read_with_types
from app.store.spans.imported import handling_times
from app.stored.conversations import MOST_OTHER_ROOTS
from model.conversations.assembly import conversation_of
from model.conversations.consumers import LEAST_PATIENCE, PATIENCE, PublisherRecord
from model.conversations.conversation import Conversation
from model.conversations.pace import Pace
from model.happened import Cause, ConversationEvent, causes_of, conversation_event
from model.times import now as present
from model.words import EdgeKind, EventType, Via

# The deliveries of a page's messages are read up to this many.
MOST_DELIVERIES = 10_000
# Messages outside a conversation whose roots are looked for.
MOST_FOREIGN = 100
# Events of each of several conversations that one walk finds, and of all in one step.
MOST_EACH, MOST_A_STEP = 1_000, 10_000

# The time until a message that was rejected in a queue was handed over there again: of each the
# longest, among the trace's newest dead letters.
_DELAYS = text(
    "SELECT d.queue, max(letter.recorded_at - d.recorded_at) FROM (SELECT id, recorded_at, queue"  # noqa: S608
    f" FROM events WHERE trace_id = :trace AND {tables.FAILURES['died']} ORDER BY id DESC LIMIT 256"
    ") AS letter JOIN edges ON edges.effect_id = letter.id AND edges.kind = :rejected"
    " JOIN events AS d ON d.id = edges.cause_id AND d.queue = letter.queue GROUP BY d.queue"
).bindparams(rejected=int(EdgeKind.rejected))


class ConversationMembers(NamedTuple):
    """The ids of a page's events, the conversation's roots, and all its events known so far."""

    ids: list[int]
    roots: frozenset[int]
    members: Collection[int]


@dataclass(eq=False)
class Conversing(Roots):
    """Conversations within a trace, as of a ``moment`` (µs)."""

    moment: int = field(default_factory=lambda: present())

    def __post_init__(self) -> None:
        self._dead_ends = DeadEnds(self, self._read, self.moment)
        self._known_paces: dict[int, Pace] = {}
        self._delays: dict[str, int] | None = None  # by queue, the longest

    async def walk(
        self, roots: Sequence[int], via: Via, limit: int, cursor: int | None
    ) -> tuple[ConversationMembers, int | None]:
        """The nearest events that a conversation leads to, and the id where the page goes on."""
        if cursor is None and via is not Via.any and not self.overlay:
            whole = await self._whole(roots, via, limit)
            if whole is not None:
                return ConversationMembers(sorted(whole), frozenset(roots), whole), None
        step_limit = MOST_A_STEP if cursor is None else EVERY_ONE
        far = await neighbours_along(
            self.connection, self.trace_id, step_limit, via, 1, self.overlay
        )
        members = set(roots)

        async def note(ids: list[int]) -> dict[int, list[int]]:
            neighbours = await far(ids)
            members.update(*neighbours.values())
            return neighbours

        ids, truncated = await nearest(0, limit, note, 1, cursor, leads=roots)
        page = ConversationMembers(ids, frozenset(roots), members)
        return page, ids[-1] if truncated else None

    async def _whole(self, roots: Sequence[int], via: Via, limit: int) -> set[int] | None:
        """All that a conversation leads to, by few queries; None if it is more than ``limit``."""
        by_keys = links.ConversationWalk(self.connection, self.trace_id, None, 1)
        reached: set[int] = set()
        fresh = set(roots)
        while fresh:
            effects: set[int] = set()
            for chunk in chunks(sorted(fresh)):
                binds = {"ids": chunk, "trace": self.trace_id, "most": limit + 1}
                effects.update(
                    (await self.connection.execute(self.dialect.led_to, binds)).scalars()
                )
                if len(reached | effects) > limit:
                    return None
            effects -= reached
            reached |= effects
            fresh = set()
            if via is Via.conversation:
                for chunk in chunks(sorted(effects)):
                    fresh.update(*(await by_keys.neighbours([*chunk])).values())
                fresh -= reached
        return reached

    async def describe(
        self, page: ConversationMembers, via: Via, *, truncated: bool
    ) -> tuple[Conversation, list[int]]:
        """A page of a conversation, and the roots of others that led there."""
        first = min(page.roots)
        events = await self._read([*{first, *page.ids}])
        root = events[first] if first in page.ids else events.pop(first)
        separate = page.roots if via is Via.any else page.roots | await self._strays(events, page)
        events = await self._with_deliveries(events, separate)
        edge_causes = await self._edge_causes(events)
        # Publishes without a cause begin the walk; by keys, the delivery that led to them is known.
        begins = frozenset([first]) if via is Via.conversation else page.roots
        keys = await self.keys_of(events) if via is Via.conversation else {}
        causes = causes_of(
            events, edge_causes, via, roots=begins, members=page.members, shared_keys=keys
        )
        outer = (edge_causes[message] for message in edge_causes.keys() - page.roots)
        foreign = sorted({cause.event for edges in outer for cause in edges} - {*page.members})
        other_roots: list[int] = []
        if via is not Via.any and foreign:
            beginnings = (await self.ends_of(foreign[:MOST_FOREIGN])).values()
            other_roots = sorted({*beginnings} - page.roots)[:MOST_OTHER_ROOTS]
        if (
            via is Via.conversation
            and not self.overlay
            and not any(e.keys for e in events.values())
        ):
            via = Via.links  # which is all that holds it together
        publishers = await publishers_of(self, events.values(), via)
        ends = await self._ends_among(events, causes, publishers)
        parts = await self._surroundings(events, publishers, ends)
        parts |= {"spans": await self._handling_times(events), "origins": page.roots}
        parts |= {"via": via, "truncated": truncated}
        return conversation_of(root, events.values(), causes, **parts), other_roots

    async def describe_alone(self, root: int, via: Via) -> Conversation | None:
        """A root's conversation; None if it begins elsewhere."""
        roots = await self.roots_of(root, None, via)
        if roots[0] != root:
            return None
        page, next_id = await self.walk(roots, via, MOST_EACH, None)
        return (await self.describe(page, via, truncated=next_id is not None))[0]

    async def describe_many(self, roots: Sequence[int]) -> list[Conversation]:
        evident = links.Evident(self.connection, self.trace_id, self.first, MOST_A_STEP, 1)
        reached, cut = await evident.spread(roots, MOST_EACH - 1)
        events = await self._read(sorted({*roots}.union(*reached.values())))
        strays = await self._strays(events, ConversationMembers([], frozenset(roots), events))
        events = await self._with_deliveries(events, frozenset(roots) | strays)
        of_message: defaultdict[int | None, list[int]] = defaultdict(list)
        for event in events.values():
            if event.type is EventType.received:
                of_message[event.cause].append(event.id)
        edge_causes = await self._edge_causes(events)
        publishers = await publishers_of(self, events.values(), Via.links)
        ends = set[int]()
        parts: dict[int, tuple[dict[int, ConversationEvent], dict[int, tuple[Cause, ...]]]] = {}
        for root, ids in reached.items():
            if root not in events:  # retention has removed it meanwhile
                continue
            ids.add(root)
            ids.update(delivery for message in [*ids] for delivery in of_message.get(message, ()))
            members = {event_id: events[event_id] for event_id in ids if event_id in events}
            causes = causes_of(
                members, edge_causes, Via.links, roots=[root], members=ids, shared_keys={}
            )
            ends |= await self._ends_among(members, causes, publishers)
            parts[root] = members, causes
        known = await self._surroundings(events, publishers, ends)
        return [
            conversation_of(events[root], members.values(), causes, truncated=root in cut, **known)
            for root, (members, causes) in parts.items()
        ]

    async def _surroundings(
        self,
        events: Mapping[int, ConversationEvent],
        publishers: Mapping[int, PublisherRecord],
        ends: Collection[int],
    ) -> dict[str, Any]:
        """Arguments of `conversation_of`: all that is known of some events beside their causes."""
        unsettled = [e for e in events.values() if e.queue and e.settlement is None]
        if unsettled and self._delays is None:
            rows = await self.connection.execute(_DELAYS, {"trace": self.trace_id})
            self._delays = {row[0]: row[1] for row in rows}
        delays = self._delays or {}
        span = min(events, default=0), max(events, default=0) + 1
        return {
            "publishers": publishers,
            "dead_ends": ends,
            "returning": {
                event.id
                for event in unsettled
                if event.recorded_at > self.moment - 2 * delays.get(event.queue or "", 0)
            },
            "paces": await self._paces(events, ends),
            "losses": await losses_of(self.connection, self.trace_id, events),
            "gaps": await in_span(self.connection, self.dialect, self.trace_id, *span),
            "now": self.moment,
        }

    async def _ends_among(
        self,
        events: Mapping[int, ConversationEvent],
        causes: Mapping[int, Sequence[Cause]],
        publishers: Mapping[int, PublisherRecord],
    ) -> frozenset[int]:
        """Dead ends that nothing names, of those who explain what they published, or never did."""
        sources = {cause.event for links in causes.values() for cause in links}
        deliveries = (
            event
            for event in events.values()
            if event.type is EventType.received and event.id not in sources
            if (record := publishers[event.participant]).explains_all_since(event.id)
            or not record.evidence.reactions
        )
        return await self._dead_ends.among(deliveries, events.values())

    async def _paces(
        self, events: Mapping[int, ConversationEvent], ends: Collection[int]
    ) -> Mapping[int, Pace]:
        """The paces of those who were at work just now, or were handed several messages."""
        times = [event.recorded_at for event in events.values()]
        span = max(times, default=0) - min(times, default=0)
        recent_from = self.moment - max(LEAST_PATIENCE, PATIENCE * span)
        recent = {
            event.participant
            for event in events.values()
            if event.recorded_at > recent_from
            if event.type is EventType.published or event.id in ends
        }
        # A participant that was handed several here may be through with all of them.
        received = Counter(e.participant for e in events.values() if e.type is EventType.received)
        several = {participant for participant, times in received.items() if times > 1}
        new = (recent | several) - self._known_paces.keys()
        self._known_paces |= await paces_of(self, new, self.moment)
        return self._known_paces

    async def _read(self, ids: Sequence[int]) -> dict[int, ConversationEvent]:
        events = read_with_types(self.connection, ids)
        return dict(sorted([(event.id, conversation_event(event)) async for event in events]))

    async def _strays(
        self, events: Mapping[int, ConversationEvent], page: ConversationMembers
    ) -> frozenset[int]:
        """Deliveries of other conversations' messages that the broker's acts led to."""
        foreign = [
            event.id
            for event in events.values()
            if event.type is EventType.received and event.cause not in page.members
        ]
        return frozenset(await links.edge_causes(self.connection, foreign))

    async def _with_deliveries(
        self, events: Mapping[int, ConversationEvent], separate: frozenset[int]
    ) -> dict[int, ConversationEvent]:
        """Publishes with all their deliveries, and deliveries ``separate`` from their publish."""
        selection = {
            event.id: event
            for event in events.values()
            if event.type is EventType.published or event.id in separate
        }
        publishes = [event.id for event in selection.values() if event.type is EventType.published]
        ids: list[int] = []
        for chunk in chunks(publishes):
            binds = {"ids": chunk, "most": MOST_DELIVERIES - len(ids)}
            ids += (await self.connection.execute(links.DELIVERIES, binds)).scalars()
        unread = [event_id for event_id in ids if event_id not in events]
        known = {**events, **(await self._read(unread) if unread else {})}
        selection |= {event_id: known[event_id] for event_id in ids}
        return dict(sorted(selection.items()))

    async def _edge_causes(self, events: Mapping[int, ConversationEvent]) -> dict[int, list[Cause]]:
        """The stored causes of events beside their messages."""
        causes = {
            effect: [
                Cause(link.cause, link.rule, link.kind.name)
                for link in edges
                if link.cause >= self.first
            ]
            for effect, edges in (await links.edge_causes(self.connection, [*events])).items()
        }
        for effect in self.overlay.causes.keys() & events.keys():
            causes.setdefault(effect, []).extend(self.overlay.causes[effect])
        return causes

    async def _handling_times(self, events: Mapping[int, ConversationEvent]) -> dict[int, int]:
        """Handling times of deliveries by their consumers' spans (µs)."""
        deliveries: defaultdict[int, list[int]] = defaultdict(list)
        for event in events.values():
            if event.type is EventType.received and event.cause is not None:
                deliveries[event.cause].append(event.id)
        handled = await handling_times(self.connection, self.trace_id, deliveries)
        return {
            delivery: max(span.ended_at for span in spans) - min(span.started_at for span in spans)
            for delivery, spans in handled.items()
        }
