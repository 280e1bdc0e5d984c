"""The assembly of a conversation from its events: times, copies, deliveries, messages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Literal

from model.conversations.consumers import (
    NO_SILENCE,
    PublisherRecord,
    recent_publishers,
    silent_consumers,
    unnamed_consumers,
)
from model.conversations.conversation import Conversation, Counts, Involved
from model.conversations.deliveries import Delivery
from model.conversations.members import Members
from model.conversations.messages import Copy, CopyWord, Message
from model.conversations.outcomes import failure_of, message_outcome, outcome_of
from model.conversations.pace import Pace
from model.conversations.sentences import clauses_of, other_fate_of
from model.conversations.shape import amplification_of, keys_of, loops_of
from model.conversations.states import conversation_state, is_retried, position_of
from model.deaths import Loss
from model.gaps import Gap
from model.happened import Cause, ConversationEvent
from model.slack import critical_path, slacks
from model.sound import join_names
from model.texts import is_reply
from model.times import Duration, Microseconds
from model.wording import Sentence
from model.words import BACK, Disposition, EventType, Match, Via


def conversation_of(
    root: ConversationEvent,
    events: Iterable[ConversationEvent],
    causes: Mapping[int, Sequence[Cause]],
    *,
    via: Via = Via.links,
    origins: frozenset[int] = frozenset(),
    spans: Mapping[int, int] | None = None,
    publishers: Mapping[int, PublisherRecord] | None = None,
    dead_ends: Collection[int] = (),
    returning: Collection[int] = (),
    paces: Mapping[int, Pace] = MappingProxyType({}),
    losses: Mapping[int, Mapping[str, Loss]] | None = None,
    gaps: Sequence[Gap] = (),
    truncated: bool = False,
    now: int | None = None,
) -> Conversation:
    """The conversation that began with ``root``, as of ``now``; None for long after.

    ``events`` are publishes with all their deliveries, and deliveries whose publish is not stored.
    ``causes`` are by event, the one that counts first. Nothing led to ``origins``. ``spans`` says
    how long consumers handled deliveries (µs); ``dead_ends`` are deliveries of kinds that have led
    to nothing, and ``returning`` those that may have been rejected, to come back; ``paces`` are by
    participant, and ``losses`` by publish and queue. ``gaps`` may be any of the trace.
    """
    members, publishers = Members(events, causes), publishers or {}
    assembly = _Assembly(root, members, via, origins | {root.id}, spans or {}, losses or {})
    assembly.returning = returning
    messages = tuple(map(assembly.message, members.heads))
    counts = _counts(members, messages)
    last = max(members.events, default=root.id)
    # The last effect may be missing right behind the last event. What was left out by choice is of
    # no conversation.
    is_whole = all(gap.is_chosen() or not gap.is_spanned(root.id, last + 1) for gap in gaps)
    end = max((e.recorded_at for e in members.events.values()), default=root.recorded_at)
    unnamed = unnamed_consumers(members, publishers, via)
    is_known_to_go_on = bool(unnamed) or truncated
    silence = (
        NO_SILENCE
        if is_known_to_go_on
        else silent_consumers(members, publishers, via, now, dead_ends, paces)
    )
    recent = () if is_known_to_go_on else recent_publishers(members, via, now, paces)

    is_at_work = bool(silence.pending or recent)
    is_known = is_whole and not (unnamed or silence.silent or silence.halves or truncated)

    lasting = [each for each in messages if not is_retried(each, messages)]
    state = conversation_state(outcome_of(lasting, is_at_work, is_known=is_known), messages)
    return Conversation(
        root=root.id,
        type=root.message_type,
        outcome=outcome_of(messages, is_at_work or bool(unnamed), is_known=is_known),
        state=state,
        position=position_of(state, messages),
        clauses=clauses_of(
            root,
            messages,
            counts,
            end,
            via=via,
            unnamed=unnamed,
            silence=silence,
            recent=recent,
            truncated=truncated,
            is_whole=is_whole,
        ),
        began_at=root.recorded_at,
        ended_at=end,
        counts=counts,
        keys=keys_of(members),
        participants=_participants(members, publishers),
        messages=messages,
        critical_path=tuple(assembly.path),
        amplification=amplification_of(members),
        loops=loops_of(members),
        truncated=truncated,
    )


def messages_of(
    events: Iterable[ConversationEvent],
    causes: Mapping[int, Sequence[Cause]],
    losses: Mapping[int, Mapping[str, Loss]],
) -> list[Message]:
    """Messages of any conversations, in their order, by `conversation_of`'s arguments."""
    members = Members(events, causes)
    if not members.heads:
        return []
    assembly = _Assembly(members.heads[0], members, Via.links, frozenset(), {}, losses)
    return [*map(assembly.message, members.heads)]


def _counts(members: Members, messages: Sequence[Message]) -> Counts:
    received = [e for e in members.events.values() if e.type is EventType.received]
    return Counts(
        messages=len(messages),
        deliveries=len(received),
        redeliveries=sum(event.match is Match.redelivered for event in received),
        deaths=sum(event.match is Match.dead_lettered for event in received),
        waiting=sum(copy.state == "waiting" for message in messages for copy in message.copies),
        participants=len({event.participant for event in members.events.values()}),
    )


def _participants(
    members: Members, publishers: Mapping[int, PublisherRecord]
) -> tuple[Involved, ...]:
    names = {event.participant: event.name for event in members.events.values()}
    unknown = PublisherRecord()
    return tuple(
        Involved(number, name, record.evidence.coverage, record.evidence.coverage_by_spans)
        for number, name in names.items()
        for record in [publishers.get(number, unknown)]
    )


class _Assembly:
    """The messages of a conversation, with their times."""

    def __init__(
        self,
        root: ConversationEvent,
        members: Members,
        via: Via,
        origins: frozenset[int],
        spans: Mapping[int, int],
        losses: Mapping[int, Mapping[str, Loss]],
    ) -> None:
        self.began_at, self.members, self.via = root.recorded_at, members, via
        self.origins, self.spans, self.losses = origins, spans, losses
        self.returning: Collection[int] = ()
        self.predecessors = members.predecessors()
        times = {event.id: event.recorded_at for event in members.events.values()}
        self.slack = slacks(times, self.predecessors)
        self.path = critical_path(times, self.predecessors)
        self.on_path = frozenset(self.path)

    def message(self, head: ConversationEvent) -> Message:
        causes = tuple(self.members.causes.get(head.id, ()))
        losses = self.losses.get(head.id, {})
        copies = tuple(
            self._copy(head, queue, deliveries, losses.get(queue))
            for queue, deliveries in self.members.copies[head.id].items()
        )
        failure = failure_of(head, self.members, losses)
        is_dead = failure is not None and failure.kind == "died"
        is_elsewhere = not causes and head.id not in self.origins and self.via is not Via.links
        return Message(
            record=head,
            led_by=causes,
            offset=Duration(head.recorded_at - self.began_at),
            outcome=message_outcome(copies, failure, self.returning),
            failure=failure,
            slack=Duration(self.slack[head.id]),
            critical=head.id in self.on_path,
            copies=copies,
            unseen=head.type is EventType.received,
            outer_cause=self.via if is_elsewhere else None,
            put_back=self.members.put_back(head.id, failure.queue) if failure and is_dead else None,
        )

    def _copy(
        self,
        head: ConversationEvent,
        queue: str,
        deliveries: Sequence[ConversationEvent],
        loss: Loss | None,
    ) -> Copy:
        if deliveries:
            dead = [event.queue for event in deliveries if event.match is Match.dead_lettered]
            copy = Copy(
                queue,
                "dead_lettered" if dead else "handed_over",
                tuple(dict.fromkeys(name for name in dead if name)),
                tuple(map(self._delivery, deliveries)),
            )
            # Without the publish the next delivery is a message of its own.
            is_back = deliveries[-1].settlement in BACK and deliveries[-1] is not head
            return _back(copy, head, loss) if is_back and not dead else copy
        state: CopyWord = "waiting"
        fate = other_fate_of(head)
        remark = Sentence.waiting_copy.format(fate=fate)
        if origins := self.members.unrouted_queues(head):
            state = "handed_over"
            remark = Sentence.moved_copy.format(queues=join_names(origins))
        elif is_reply(queue):  # a direct reply is kept nowhere
            state = "gone"
            remark = Sentence.direct_reply
        elif loss is not None:
            state, remark = loss.state, loss.remark(head.exchange)
        waits = (head.recorded_at, fate) if state == "waiting" else ()
        return Copy(queue, state, (), (), remark, loss, *waits)

    def _delivery(self, delivery: ConversationEvent) -> Delivery:
        events = self.members.events
        leads_to = tuple(self.members.leads_to.get(delivery.id, ()))
        handled: Duration | None = None
        end: Literal["published", "span"] | None = None
        published = [events[publish].recorded_at for publish in leads_to if publish in events]
        if delivery.id in self.spans:
            handled, end = Duration(self.spans[delivery.id]), "span"
        elif published:
            handled, end = Duration(max(published) - delivery.recorded_at), "published"
        is_head = delivery.id in self.members.copies
        waited_for = None if is_head else self.predecessors.get(delivery.id)
        queued = delivery.recorded_at - events[waited_for[0]].recorded_at if waited_for else 0
        settled = (
            None if delivery.settled_at is None else delivery.settled_at - delivery.recorded_at
        )
        if delivery.settlement is Disposition.auto or (settled is not None and settled < 0):
            settled = None
        return Delivery(
            delivery,
            Duration(delivery.recorded_at - self.began_at),
            Duration(queued),
            handled,
            end,
            Duration(self.slack[delivery.id]),
            delivery.id in self.on_path,
            leads_to,
            self.members.acts(delivery.id),
            None if settled is None else Duration(settled),
        )


def _back(copy: Copy, head: ConversationEvent, loss: Loss | None) -> Copy:
    """A copy that came back to its queue: it waits there, unless it is known to have left it."""
    last = copy.deliveries[-1].record
    since = last.settled_at or last.recorded_at
    if loss is not None and loss.noticed_at >= since:
        return replace(copy, remark=loss.remark(head.exchange), loss=loss)
    fate = Sentence.returned_fate
    remark, at = Sentence.returned_copy.format(fate=fate), Microseconds(since)
    return replace(copy, state="waiting", remark=remark, waits_since=at, other_fate=fate)
