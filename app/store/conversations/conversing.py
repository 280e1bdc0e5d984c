"""One trace's conversations: the walk through each, its events, and what they come to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import bindparam, text

from app.store.capture.gaps import in_span
from app.store.causality import links
from app.store.causality.copies import losses_of
from app.store.causality.walks import EVERY_ONE, nearest, neighbours_along
from app.store.conversations.publishers import publishers_of
from app.store.conversations.roots import Roots
from app.store.database.chunks import chunks
from app.store.reading.events import some_at_a_time
from app.store.spans.imported import handling_times
from app.stored.conversations import MOST_OTHER_ROOTS
from model.conversations import Conversation, conversation_of
from model.gaps import Gap
from model.happened import Cause, ConversationEvent, causes_of, conversation_event
from model.message_types import is_in_body, type_of
from model.words import EventType, Via

# The deliveries of a page's messages are read up to this many.
MOST_DELIVERIES = 10_000
# Messages outside a conversation whose roots are looked for.
MOST_FOREIGN = 100
# Of conversations that are found together: events of each, and of all in one step.
MOST_EACH, MOST_A_STEP = 1_000, 10_000

# With those of quiet traffic: a copy that was handed over does not wait.
_DELIVERIES = text(
    "SELECT id FROM events WHERE cause_id IN :ids ORDER BY id LIMIT :most"
).bindparams(bindparam("ids", expanding=True))


class ConversationMembers(NamedTuple):
    """The ids of events, which of them nothing led to, and all that are known to belong there."""

    ids: list[int]
    roots: frozenset[int]
    members: Collection[int]


class Conversing(Roots):
    """Conversations within a trace."""

    async def reached(
        self, roots: Sequence[int], via: Via, limit: int, after: int | None
    ) -> tuple[ConversationMembers, int | None]:
        """The nearest events that a conversation leads to, and where the page goes on."""
        if after is None and via is not Via.any and not self.overlay:
            whole = await self._whole(roots, via, limit)
            if whole is not None:
                return ConversationMembers(sorted(whole), frozenset(roots), whole), None
        most = MOST_A_STEP if after is None else EVERY_ONE
        far = await neighbours_along(self.connection, self.trace_id, most, via, 1, self.overlay)
        members = set(roots)

        async def noted(asked: list[int]) -> dict[int, list[int]]:
            found = await far(asked)
            members.update(*found.values())
            return found

        ids, truncated = await nearest(0, limit, noted, 1, after, leads=roots)
        page = ConversationMembers(ids, frozenset(roots), members)
        return page, ids[-1] if truncated else None

    async def _whole(self, roots: Sequence[int], via: Via, limit: int) -> set[int] | None:
        """All that a conversation leads to, found by few queries; None if that is too much."""
        by_keys = links.ConversationWalk(self.connection, self.trace_id, None, 1)
        reached: set[int] = set()
        fresh = set(roots)
        while fresh:
            found: set[int] = set()
            for some in chunks(sorted(fresh)):
                asked = {"ids": some, "trace": self.trace_id, "most": limit + 1}
                found.update((await self.connection.execute(self.dialect.led_to, asked)).scalars())
                if len(reached | found) > limit:
                    return None
            found -= reached
            reached |= found
            fresh = set()
            if via is Via.conversation:
                for some in chunks(sorted(found)):
                    for of_one in (await by_keys.neighbours([*some])).values():
                        fresh.update(of_one)
                fresh -= reached
        return reached

    async def told(
        self, page: ConversationMembers, via: Via, *, truncated: bool
    ) -> tuple[Conversation, list[int]]:
        """A page of a conversation, and the roots of what else led there."""
        began = min(page.roots)
        events = await self._read([*{began, *page.ids}])
        root = events[began]
        if began not in page.ids:
            del events[began]
        apart = page.roots if via is Via.any else page.roots | await self._strays(events, page)
        events = await self._with_deliveries(events, apart)
        named = await self._named(events)
        # What names no cause begins the walk; by keys, the delivery that led to it is known.
        begins = frozenset([began]) if via is Via.conversation else page.roots
        causes = await self._causes(events, page, via, named, begins)
        foreign = sorted(
            {
                each.event
                for message, of_one in named.items()
                for each in of_one
                if message not in page.roots and each.event not in page.members
            }
        )
        others: list[int] = []
        if via is not Via.any and foreign:
            ends = await self.ends_of(foreign[:MOST_FOREIGN])
            others = sorted({*ends.values()} - page.roots)[:MOST_OTHER_ROOTS]
        conversation = conversation_of(
            root,
            events.values(),
            causes,
            via=via,
            origins=page.roots,
            spans=await self._handled(events),
            publishers=await publishers_of(self, events.values(), via),
            losses=await losses_of(self.connection, self.trace_id, events),
            gaps=await self._gaps(events),
            truncated=truncated,
        )
        return conversation, others

    async def told_alone(self, root: int, via: Via) -> Conversation | None:
        """A root's conversation; None if it begins elsewhere."""
        roots = await self.roots_of(root, None, via)
        if roots[0] != root:
            return None
        page, following = await self.reached(roots, via, MOST_EACH, None)
        return (await self.told(page, via, truncated=following is not None))[0]

    async def told_together(self, roots: Sequence[int]) -> list[Conversation]:
        evident = links.Evident(self.connection, self.trace_id, self.first, MOST_A_STEP, 1)
        reached, cut = await evident.spread(roots, MOST_EACH - 1)
        events = await self._read(sorted({*roots}.union(*reached.values())))
        strays = await self._strays(events, ConversationMembers([], frozenset(roots), events))
        events = await self._with_deliveries(events, frozenset(roots) | strays)
        of_message: defaultdict[int | None, list[int]] = defaultdict(list)
        for each in events.values():
            if each.type is EventType.received:
                of_message[each.cause].append(each.id)
        named = await self._named(events)
        publishers = await publishers_of(self, events.values(), Via.links)
        losses = await losses_of(self.connection, self.trace_id, events)
        gaps = await self._gaps(events)
        told = []
        for root, ids in reached.items():
            if root not in events:  # retention has removed it meanwhile
                continue
            ids.add(root)
            ids.update(each for message in [*ids] for each in of_message.get(message, ()))
            own = {each: events[each] for each in ids if each in events}
            page = ConversationMembers(sorted(ids), frozenset([root]), ids)
            causes = await self._causes(own, page, Via.links, named, page.roots)
            told.append(
                conversation_of(
                    events[root],
                    own.values(),
                    causes,
                    publishers=publishers,
                    losses=losses,
                    gaps=gaps,
                    truncated=root in cut,
                )
            )
        return told

    async def _gaps(self, events: Collection[int]) -> list[Gap]:
        """The gaps from the first of some events until behind the last."""
        span = min(events, default=0), max(events, default=0) + 1
        return await in_span(self.connection, self.dialect, self.trace_id, *span)

    async def _read(self, ids: Sequence[int]) -> dict[int, ConversationEvent]:
        read: dict[int, ConversationEvent] = {}
        in_body: list[int] = []
        async for event in some_at_a_time(self.connection, ids, frozenset({"properties"})):
            read[event.id] = conversation_event(event)
            if is_in_body(event.properties):
                in_body.append(event.id)
        typed = frozenset[str]({"properties", "payload"})
        async for event in some_at_a_time(self.connection, in_body, typed):
            said = type_of(event.properties, event.exchange, event.routing_keys, event.payload)
            read[event.id] = read[event.id]._replace(message_type=said)
        return dict(sorted(read.items()))

    async def _strays(
        self, events: Mapping[int, ConversationEvent], page: ConversationMembers
    ) -> frozenset[int]:
        """Deliveries of another conversation's messages, which the broker's doing led to."""
        foreign = [
            each.id
            for each in events.values()
            if each.type is EventType.received and each.cause not in page.members
        ]
        return frozenset(await links.named_by(self.connection, foreign))

    async def _with_deliveries(
        self, events: Mapping[int, ConversationEvent], apart: frozenset[int]
    ) -> dict[int, ConversationEvent]:
        """The publishes, with all their deliveries; and those ``apart`` from their publish."""
        kept = {
            each.id: each
            for each in events.values()
            if each.type is EventType.published or each.id in apart
        }
        publishes = [each.id for each in kept.values() if each.type is EventType.published]
        ids: list[int] = []
        for some in chunks(publishes):
            asked = {"ids": some, "most": MOST_DELIVERIES - len(ids)}
            ids += (await self.connection.execute(_DELIVERIES, asked)).scalars()
        missing = [each for each in ids if each not in events]
        more = await self._read(missing) if missing else {}
        kept |= {each: events[each] if each in events else more[each] for each in ids}
        return dict(sorted(kept.items()))

    async def _named(self, events: Mapping[int, ConversationEvent]) -> dict[int, list[Cause]]:
        """The causes of events beside their messages, as far as it is stored."""
        named = {
            effect: [
                Cause(link.cause, link.rule, link.kind.name)
                for link in found
                if link.cause >= self.first
            ]
            for effect, found in (await links.named_by(self.connection, [*events])).items()
        }
        for effect in self.overlay.named.keys() & events.keys():
            named.setdefault(effect, []).extend(self.overlay.named[effect])
        return named

    async def _causes(
        self,
        events: Mapping[int, ConversationEvent],
        page: ConversationMembers,
        via: Via,
        named: Mapping[int, Sequence[Cause]],
        begins: frozenset[int],
    ) -> dict[int, tuple[Cause, ...]]:
        shared = await self.keys_of(events) if via is Via.conversation else {}
        return causes_of(events, named, via, roots=begins, members=page.members, shared=shared)

    async def _handled(self, events: Mapping[int, ConversationEvent]) -> dict[int, int]:
        """The times that consumers took for deliveries, as spans say (µs)."""
        deliveries: defaultdict[int, list[int]] = defaultdict(list)
        for each in events.values():
            if each.type is EventType.received and each.cause is not None:
                deliveries[each.cause].append(each.id)
        handled = await handling_times(self.connection, self.trace_id, deliveries)
        return {
            delivery: max(one.ended_at for one in found) - min(one.started_at for one in found)
            for delivery, found in handled.items()
        }
