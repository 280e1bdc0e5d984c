"""The events of a conversation, by what joins them: messages, their copies, and causes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from model.conversations.deliveries import ActWord, BrokerAct
from model.happened import LIKELY, Cause, ConversationEvent
from model.words import BY_BROKER, EventType, Match

ACTS = frozenset(kind.name for kind in BY_BROKER)


class Members:
    """The events of a conversation.

    A message's head is its publish, or a delivery whose publish is not stored.
    """

    def __init__(
        self, events: Iterable[ConversationEvent], causes: Mapping[int, Sequence[Cause]]
    ) -> None:
        """``events`` and ``causes`` are `conversation_of`'s."""
        self.events = {event.id: event for event in sorted(events)}
        self.causes = causes
        self._deliveries: defaultdict[int, list[ConversationEvent]] = defaultdict(list)
        for event in self.events.values():
            if event.type is EventType.received:
                self._deliveries[self.message_of(event.id)].append(event)
        self.heads = [
            event
            for event in self.events.values()
            if event.type is EventType.published or event.id in self._deliveries
        ]
        self.leads_to: defaultdict[int, list[int]] = defaultdict(list)
        for head in self.heads:
            for cause in dict.fromkeys(link.event for link in causes.get(head.id, ())):
                self.leads_to[cause].append(head.id)
        self.copies = {head.id: self._copies_of(head) for head in self.heads}
        self.put_aside = self._put_aside()

    def message_of(self, event_id: int) -> int:
        """The head of an event's message; the event itself where its publish is not here."""
        event = self.events.get(event_id)
        if event is None or event.cause is None or event.cause not in self.events:
            return event_id
        return event.cause

    def first_attempt(self, message: int) -> int:
        """The message that this one is, published again; itself where it is the first."""
        while forwards := [e for e in self.causes.get(message, ()) if e.kind == "forward"]:
            earlier = self.message_of(forwards[0].event)
            if earlier >= message or earlier not in self.events:
                break
            message = earlier
        return message

    def put_back(self, message: int, queue: str | None) -> int | None:
        """The first publish that put a dead message back into the queue where it died."""
        own = (message, *(delivery.id for delivery in self._deliveries.get(message, ())))
        publishes = (
            effect
            for event in own
            for effect in self.leads_to.get(event, ())
            if queue in self.events[effect].routed_queues
            and any((e.event, e.kind) == (event, "forward") for e in self.causes[effect])
        )
        return min(publishes, default=None)

    def acts(self, delivery: int) -> tuple[BrokerAct, ...]:
        """The acts of the broker that led to a delivery."""
        return tuple(
            BrokerAct(cause.event, cast("ActWord", cause.kind))
            for cause in self.causes.get(delivery, ())
            if cause.kind in ACTS
        )

    def unrouted_queues(self, head: ConversationEvent) -> list[str]:
        """Queues that a message came out of, though it was not routed there and did not die."""
        queues = (
            delivery.queue
            for delivery in self._deliveries.get(head.id, ())
            if delivery.match is not Match.dead_lettered
        )
        return [name for name in dict.fromkeys(queues) if name and name not in head.routed_queues]

    def predecessors(self) -> dict[int, list[int]]:
        """The events that each event had to wait for."""
        waits: dict[int, list[int]] = {}
        for head in self.heads:
            waits[head.id] = self._inside(cause.event for cause in self.causes.get(head.id, ()))
            for deliveries in self.copies[head.id].values():
                last = head.id
                for delivery in deliveries:
                    if delivery.id != head.id:
                        is_repeated = delivery.match in (Match.redelivered, Match.dead_lettered)
                        acts = self.acts(delivery.id)
                        freed = self._inside(act.cause for act in acts if act.kind != "overflow")
                        pushed = self._inside(act.cause for act in acts if act.kind == "overflow")
                        waits[delivery.id] = [
                            *(freed or [last if is_repeated else head.id]),
                            *pushed,
                        ]
                    last = delivery.id
        return waits

    def suggested_messages(self) -> set[int]:
        """Messages that only suggestions put into the conversation."""
        messages: set[int] = set()
        for head in self.heads:
            causes = self.causes.get(head.id, ())
            if causes and all(
                cause.kind == LIKELY or self.message_of(cause.event) in messages for cause in causes
            ):
                messages.add(head.id)
        return messages

    def _copies_of(self, head: ConversationEvent) -> dict[str, list[ConversationEvent]]:
        """The deliveries of each copy, by the queue that it was routed to.

        A message to the default exchange that came out of another queue was moved there.
        """
        copies: dict[str, list[ConversationEvent]] = {queue: [] for queue in head.routed_queues}
        for delivery in self._deliveries.get(head.id, ()):
            queue = delivery.queue or ""
            if delivery.match is Match.dead_lettered:
                died_in = (death.queue for death in reversed(delivery.deaths))
                queue = next((name for name in died_in if name in copies), queue)
            elif queue not in copies and not head.exchange and len(head.routed_queues) == 1:
                (queue,) = head.routed_queues
            copies.setdefault(queue, []).append(delivery)
        return copies

    def _put_aside(self) -> dict[int, ConversationEvent]:
        """By message, its second publish into an error queue."""
        forwards = {}
        for head in self.heads:
            if head.forward is not None:
                cause = next((e for e in self.causes.get(head.id, ()) if e.kind == "forward"), None)
                forwards[self.message_of(cause.event) if cause else head.id] = head
        return forwards

    def _inside(self, ids: Iterable[int]) -> list[int]:
        return [event for event in dict.fromkeys(ids) if event in self.events]
