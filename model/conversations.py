"""A conversation: a message, all that it led to, the outcome of each, and where the time went.

A message is a publish and its deliveries. Times are when trace messages reached the service, in µs.
Nothing here does I/O.
"""

from __future__ import annotations

import enum
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Literal, NamedTuple, TypeAlias, cast

from model.deaths import Death, Loss, is_put_off
from model.described import INNER
from model.gaps import Gap
from model.happened import LIKELY, Cause, ConversationEvent
from model.slack import critical_path, slacks
from model.sound import join_names, share
from model.texts import is_reply
from model.times import Duration, Microseconds
from model.words import (
    BY_BROKER,
    Disposition,
    EdgeKind,
    EventType,
    Match,
    Via,
    number_of,
    verb,
)

CopyWord: TypeAlias = Literal["handed_over", "waiting", "dead_lettered", "gone"]
FailureWord: TypeAlias = Literal["died", "error_queue", "unroutable", "came_back", "gone"]
ActWord: TypeAlias = Literal["returned", "rejected", "overflow"]
Basis: TypeAlias = Literal["settled", "by its key", "by links"]
HowWord: TypeAlias = Literal[
    "parent",
    "reply",
    "forward",
    "in_hand",
    "conversation",
    "any",
    "returned",
    "rejected",
    "overflow",
]

MANY_REDELIVERIES = 3
"""Redeliveries from which on a copy "came back again and again"."""
MOST_KEYS = 5
MOST_PUBLISHES = 16
"""The last publishes of each participant that are compared with a conversation's own."""
PATIENCE, LEAST_PATIENCE = 10, 1_000_000
"""For so many times as long as anybody took in a conversation, and so long at least (µs), whoever
receives and never publishes may yet publish."""
_OFF_QUEUE = ("handed_over", "gone")
_ACTS = frozenset(kind.name for kind in BY_BROKER)
_REPEATS = _ACTS | {EdgeKind.forward.name}


class Outcome(enum.StrEnum):
    """The outcome of a message, or of all of a conversation, as far as is known.

    A message is ``open`` while somebody has it in hand. It is ``unknown`` where it or an equal one
    was handed over, and where it was rejected: it may be a dead letter that nobody was handed yet.
    A conversation is ``open`` where a consumer of its messages has not settled one, has published
    since without naming a cause or beginning another, or usually publishes for what it is handed,
    or has only begun to receive, and has not published since: the conversation may go on. It is
    ``unknown`` where a consumer names nothing that came of a message and has published outside the
    conversation since: one that waits for several messages may name another of them.
    """

    done = "done"
    open = "open"
    unknown = "unknown"
    waiting = "waiting"
    failed = "failed"


class PublisherRecord(NamedTuple):
    """A participant's publishes, by what they say of their causes.

    ``unnamed`` is the last publish that names none, or an event before which there may be one; 0
    for none. Of its ``reactions``, the publishes that may have a cause, ``explained`` name one and
    ``spanned`` are told by spans. ``newest`` are all its publishes after the event ``cutoff``. A
    publish that begins a conversation of its own counts as neither of them, and ``only_begins``
    says that it publishes nothing else. ``first_at`` is its first event's time, 0 if that is gone.
    """

    unnamed: int = 0
    reactions: int = 0
    explained: int = 0
    spanned: int = 0
    newest: tuple[int, ...] = ()
    cutoff: int = 0
    only_begins: bool = False
    first_at: int = 0

    @property
    def coverage(self) -> float | None:
        """The share of those that may have a cause which name it; None without any."""
        return share(self.explained, self.reactions - self.explained)

    @property
    def coverage_by_spans(self) -> float | None:
        """The share of them that spans tell the cause of; None without any."""
        return share(self.spanned, self.reactions - self.spanned)


class Involved(NamedTuple):
    """A participant in a conversation."""

    number: int
    name: str
    coverage: Annotated[
        float | None,
        "The share of its publishes that may have a cause which name it, between 0 and 1; `null` "
        "without any.",
    ] = None
    coverage_by_spans: Annotated[
        float | None, "The share of them that name none, and of which spans tell it."
    ] = None


class MessageFailure(NamedTuple):
    """The way in which a message failed."""

    kind: FailureWord
    queue: str | None = None
    reason: str | None = None
    exception: str | None = None


class How(NamedTuple):
    """By which rule a message names its cause, or what else led to it."""

    rule: str | None
    kind: HowWord


class BrokerAct(NamedTuple):
    """An act of the broker that led to a delivery: a copy's return, its rejection, an overflow."""

    cause: Annotated[
        int, "The delivery that was given back or rejected, or the publish that was one too many."
    ]
    kind: ActWord


@dataclass(frozen=True, slots=True)
class Delivery:
    """A copy that was handed over."""

    record: Annotated[ConversationEvent, INNER]
    offset: Annotated[Duration, "Seconds since the conversation began."]
    queued: Annotated[
        Duration,
        "Seconds since its publish; of one that was handed over again or had died, since the "
        "delivery that was given back or rejected, or else the same copy's before it.",
    ]
    handled: Annotated[
        Duration | None, "Seconds until the last publish that it led to, or as a span says."
    ]
    handled_until: Literal["published", "span"] | None
    slack: Duration
    critical: bool
    leads_to: Annotated[tuple[int, ...], "The publishes that it led to."]
    acts: Annotated[tuple[BrokerAct, ...], "What led to it beside its message."] = ()
    settled_after: Annotated[
        Duration | None,
        "Seconds until its consumer acknowledged, rejected or returned it, as the broker plugin "
        "says; `null` where that is not known, and where the trace message came only later.",
    ] = None

    @property
    def settlement(self) -> Disposition | None:
        """Its settlement by its consumer; `null` where it is not known."""
        return self.record.settlement

    @property
    def event(self) -> int:
        """Its id."""
        return self.record.id

    @property
    def participant(self) -> int:
        """The participant that was handed it."""
        return self.record.participant

    @property
    def at(self) -> Microseconds:
        """The time at which it was handed over."""
        return self.record.recorded_at

    @property
    def match(self) -> Match:
        """The way its publish was found."""
        return self.record.match

    @property
    def redelivered(self) -> bool:
        """Tell whether the broker says that it was handed over before."""
        return self.record.redelivered

    @property
    def queue(self) -> str | None:
        """The queue that it came from."""
        return self.record.queue

    @property
    def mover(self) -> str | None:
        """The shovel or federation link that took it elsewhere, if one did."""
        is_back = self.settlement in (Disposition.rejected, Disposition.returned)
        return None if self.leads_to or is_back else self.record.mover


@dataclass(frozen=True, slots=True)
class Copy:
    """The fate of the copy that a queue got."""

    queue: str
    state: Annotated[
        CopyWord, "`handed_over` also where it or an equal message was, which `remark` says."
    ]
    dead_lettered_to: tuple[str, ...]
    deliveries: tuple[Delivery, ...]
    remark: Annotated[str | None, "What became of it where no delivery is known to be of it."] = (
        None
    )
    loss: Annotated[Loss | None, INNER] = None


@dataclass(frozen=True, slots=True)
class Message:
    """A publish, and what became of it.

    The first of ``led_by`` counts. ``outer_cause`` is set where the cause is not among the events
    that were read.
    """

    record: Annotated[ConversationEvent, INNER]
    led_by: Annotated[tuple[Cause, ...], INNER]
    offset: Annotated[Duration, "Seconds since the conversation began."]
    outcome: Outcome
    failure: MessageFailure | None
    slack: Annotated[Duration, "By how many seconds it could have come later."]
    critical: Annotated[bool, "Whether it is on the critical path."]
    copies: tuple[Copy, ...]
    unseen: Annotated[
        bool,
        "Whether its publish is not stored, or of another conversation: then `event` is its "
        "delivery's.",
    ] = False
    outer_cause: Annotated[Via | None, INNER] = None

    @property
    def event(self) -> int:
        """Its publish."""
        return self.record.id

    @property
    def type(self) -> str:
        """The message's type, by name."""
        return self.record.message_type

    @property
    def exchange(self) -> str:
        """The exchange that it was published to."""
        return self.record.exchange

    @property
    def routing_key(self) -> str:
        """The first, where it has several."""
        return self.record.routing_keys[0] if self.record.routing_keys else ""

    @property
    def participant(self) -> int | None:
        """The publisher; `null` where that is unseen."""
        return None if self.unseen else self.record.participant

    @property
    def at(self) -> Microseconds:
        """The time at which it was published."""
        return self.record.recorded_at

    @property
    def cause(self) -> int | None:
        """The event that led to it."""
        return self.led_by[0].event if self.led_by else None

    @property
    def how(self) -> How | None:
        """`null` where nothing led to it."""
        if self.led_by:
            return How(self.led_by[0].rule, cast("HowWord", self.led_by[0].kind))
        return (
            None if self.outer_cause is None else How(None, cast("HowWord", self.outer_cause.value))
        )

    @property
    def causes(self) -> list[int]:
        """All that it names, or what else led to it."""
        return [*dict.fromkeys(cause.event for cause in self.led_by)]


class Counts(NamedTuple):
    """Numbers of a conversation's parts."""

    messages: int
    deliveries: int
    redeliveries: int
    deaths: Annotated[int, "Deliveries of messages that had died."]
    waiting: Annotated[int, "Copies in queues that were not handed over."]
    participants: int


class Loop(NamedTuple):
    """A message type in its own past: the messages of that type."""

    type: str
    events: tuple[int, ...]


class Amplification(NamedTuple):
    """The most messages that one led to directly, and which one."""

    most: int
    event: int | None


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation, or a page of it.

    On its critical path a publish waited for its cause. A delivery waited for its publish, or after
    a return or a death for the delivery that was given back or rejected, or the copy's last one.
    """

    root: int
    type: str
    outcome: Outcome
    sentence: str
    began_at: Microseconds
    ended_at: Microseconds
    counts: Counts
    keys: Annotated[tuple[str, ...], "Values that its messages share, at most 5."]
    participants: tuple[Involved, ...]
    messages: tuple[Message, ...]
    critical_path: tuple[int, ...]
    amplification: Amplification
    loops: tuple[Loop, ...]
    truncated: bool

    def crossing_events(self) -> list[int]:
        """Deliveries that left by a shovel or a federation link, and publishes that came by one."""
        came = [m.event for m in self.messages if m.record.mover is not None and not m.led_by]
        copies = (copy for message in self.messages for copy in message.copies)
        return came + [d.event for copy in copies for d in copy.deliveries if d.mover]

    @property
    def seconds(self) -> float:
        """From the first publish to the last event."""
        return (self.ended_at - self.began_at) / 1e6

    @property
    def done_by(self) -> Basis | None:
        """By what it is `done`; `null` where it is not.

        All deliveries were settled, or all messages share a key, or else it is links alone.
        """
        if self.outcome is not Outcome.done:
            return None
        copies = chain.from_iterable(message.copies for message in self.messages)
        deliveries = [delivery for copy in copies for delivery in copy.deliveries]
        if deliveries and all(delivery.settlement for delivery in deliveries):
            return "settled"
        keys = [{*message.record.keys} for message in self.messages if not message.unseen]
        return "by its key" if keys and set.intersection(*keys) else "by links"


def conversation_of(
    root: ConversationEvent,
    events: Iterable[ConversationEvent],
    causes: Mapping[int, Sequence[Cause]],
    *,
    via: Via = Via.links,
    origins: frozenset[int] = frozenset(),
    spans: Mapping[int, int] | None = None,
    publishers: Mapping[int, PublisherRecord] | None = None,
    losses: Mapping[int, Mapping[str, Loss]] | None = None,
    gaps: Sequence[Gap] = (),
    truncated: bool = False,
    now: int | None = None,
) -> Conversation:
    """The conversation that began with ``root``, as of ``now``; None for long after.

    ``events`` are publishes with all their deliveries, and deliveries whose publish is not stored.
    ``causes`` are by event, the one that counts first. Nothing led to ``origins``. ``spans`` says
    how long consumers handled deliveries (µs); ``losses`` are by publish and queue. ``gaps`` may be
    any of the trace.
    """
    assembly = _Assembly(root, events, causes, via, origins, spans or {}, losses or {})
    last = max(assembly.events, default=root.id)
    # The last effect may be missing right behind the last event. What was left out by choice is of
    # no conversation.
    is_whole = not any(
        gap.is_spanned(root.id, last + 1) and (gap.quarantined or not gap.declared) for gap in gaps
    )
    return assembly.conversation(publishers or {}, truncated, is_whole, now)


class _Assembly:
    def __init__(
        self,
        root: ConversationEvent,
        events: Iterable[ConversationEvent],
        causes: Mapping[int, Sequence[Cause]],
        via: Via,
        origins: frozenset[int],
        spans: Mapping[int, int],
        losses: Mapping[int, Mapping[str, Loss]],
    ) -> None:
        self.root, self.via, self.spans, self.losses = root, via, spans, losses
        self.origins = origins | {root.id}
        self.events = {event.id: event for event in sorted(events)}
        self.causes = causes
        self.of_message: defaultdict[int, list[ConversationEvent]] = defaultdict(list)
        for event in self.events.values():
            if event.type is EventType.received:
                message = event.cause if event.cause in self.events else event.id
                self.of_message[message].append(event)
        self.heads = [
            event
            for event in self.events.values()
            if event.type is EventType.published or event.id in self.of_message
        ]
        self.leads_to: defaultdict[int, list[int]] = defaultdict(list)
        for head in self.heads:
            for cause in dict.fromkeys(link.event for link in causes.get(head.id, ())):
                self.leads_to[cause].append(head.id)
        self.copies = {head.id: self._copies_of(head) for head in self.heads}
        self.predecessors = self._predecessors()
        times = {event.id: event.recorded_at for event in self.events.values()}
        self.slack = slacks(times, self.predecessors)
        self.path = critical_path(times, self.predecessors)
        self.on_path = frozenset(self.path)
        self.put_aside = self._put_aside()

    def conversation(
        self,
        publishers: Mapping[int, PublisherRecord],
        truncated: bool,
        is_whole: bool,
        now: int | None,
    ) -> Conversation:
        messages = tuple(map(self._message, self.heads))
        counts = self._counts(messages)
        unnamed = self._consumers_without_cause(publishers)
        silent, pending = ((), ()) if unnamed or truncated else self._silent(publishers, now)
        return Conversation(
            root=self.root.id,
            type=self.root.message_type,
            outcome=_outcome(
                messages,
                bool(unnamed or pending),
                is_known=is_whole and not silent and not truncated,
            ),
            sentence=sentence_of(
                self.root,
                messages,
                counts,
                self._end(),
                via=self.via,
                unnamed=unnamed,
                silent=silent,
                pending=pending,
                truncated=truncated,
                is_whole=is_whole,
            ),
            began_at=self.root.recorded_at,
            ended_at=self._end(),
            counts=counts,
            keys=self._keys(),
            participants=self._participants(publishers),
            messages=messages,
            critical_path=tuple(self.path),
            amplification=self._amplification(),
            loops=tuple(self._loops()),
            truncated=truncated,
        )

    def _end(self) -> Microseconds:
        return max(
            (event.recorded_at for event in self.events.values()), default=self.root.recorded_at
        )

    def _copies_of(self, head: ConversationEvent) -> dict[str, list[ConversationEvent]]:
        """The deliveries of each copy, by the queue that it was routed to.

        A message to the default exchange that came out of another queue was moved there.
        """
        copies: dict[str, list[ConversationEvent]] = {queue: [] for queue in head.routed_queues}
        for delivery in self.of_message.get(head.id, ()):
            queue = delivery.queue or ""
            if delivery.match is Match.dead_lettered:
                died_in = (death.queue for death in reversed(delivery.deaths))
                queue = next((name for name in died_in if name in copies), queue)
            elif queue not in copies and not head.exchange and len(head.routed_queues) == 1:
                (queue,) = head.routed_queues
            copies.setdefault(queue, []).append(delivery)
        return copies

    def _predecessors(self) -> dict[int, list[int]]:
        """The events that each event had to wait for."""
        waits: dict[int, list[int]] = {}
        for head in self.heads:
            causes = self.causes.get(head.id, ())
            waits[head.id] = self._inside(cause.event for cause in causes)
            for deliveries in self.copies[head.id].values():
                last = head.id
                for delivery in deliveries:
                    if delivery.id != head.id:
                        is_repeated = delivery.match in (Match.redelivered, Match.dead_lettered)
                        acts = self._acts(delivery.id)
                        freed = self._inside(act.cause for act in acts if act.kind != "overflow")
                        pushed = self._inside(act.cause for act in acts if act.kind == "overflow")
                        waits[delivery.id] = [
                            *(freed or [last if is_repeated else head.id]),
                            *pushed,
                        ]
                    last = delivery.id
        return waits

    def _inside(self, ids: Iterable[int]) -> list[int]:
        return [event for event in dict.fromkeys(ids) if event in self.events]

    def _acts(self, delivery: int) -> tuple[BrokerAct, ...]:
        causes = self.causes.get(delivery, ())
        return tuple(
            BrokerAct(cause.event, cast("ActWord", cause.kind))
            for cause in causes
            if cause.kind in _ACTS
        )

    def _message(self, head: ConversationEvent) -> Message:
        causes = tuple(self.causes.get(head.id, ()))
        copies = tuple(
            self._copy(head, queue, deliveries)
            for queue, deliveries in self.copies[head.id].items()
        )
        failure = self._failure(head)
        is_elsewhere = not causes and head.id not in self.origins and self.via is not Via.links
        waits = any(copy.state == "waiting" for copy in copies)
        is_held = any(_is_held(delivery) for copy in copies for delivery in copy.deliveries)
        is_vague = any(copy.state in _OFF_QUEUE and _is_vague(copy) for copy in copies)
        is_vague |= not copies  # a direct reply, if it has not failed
        settled = Outcome.unknown if is_vague else Outcome.done
        alive = Outcome.waiting if waits else Outcome.open if is_held else settled
        return Message(
            record=head,
            led_by=causes,
            offset=Duration(head.recorded_at - self.root.recorded_at),
            outcome=Outcome.failed if failure else alive,
            failure=failure,
            slack=Duration(self.slack[head.id]),
            critical=head.id in self.on_path,
            copies=copies,
            unseen=head.type is EventType.received,
            outer_cause=self.via if is_elsewhere else None,
        )

    def _copy(
        self, head: ConversationEvent, queue: str, deliveries: Sequence[ConversationEvent]
    ) -> Copy:
        dead = [delivery for delivery in deliveries if delivery.match is Match.dead_lettered]
        state: CopyWord = "dead_lettered" if dead else "handed_over" if deliveries else "waiting"
        remark = None if deliveries else _remark(head)
        loss = None if deliveries else self.losses.get(head.id, {}).get(queue)
        origins = [] if deliveries else self._unrouted_queues(head)
        if origins:
            state = "handed_over"
            remark = f"waits, or was moved and handed over from {join_names(origins)}"
        elif not deliveries and is_reply(queue):  # a direct reply is kept nowhere
            state, remark = (
                "gone",
                "went to its caller untraced (before RabbitMQ 4.2), or to nobody",
            )
        elif loss is not None:
            state, remark = loss.state, loss.remark(head.exchange)
        return Copy(
            queue,
            state,
            tuple(dict.fromkeys(delivery.queue for delivery in dead if delivery.queue)),
            tuple(map(self._delivery, deliveries)),
            remark,
            loss,
        )

    def _unrouted_queues(self, head: ConversationEvent) -> list[str]:
        """Queues that a message came out of, though it was not routed there and did not die."""
        deliveries = self.of_message.get(head.id, ())
        queues = (
            delivery.queue for delivery in deliveries if delivery.match is not Match.dead_lettered
        )
        return [name for name in dict.fromkeys(queues) if name and name not in head.routed_queues]

    def _delivery(self, delivery: ConversationEvent) -> Delivery:
        leads_to = tuple(self.leads_to.get(delivery.id, ()))
        handled: Duration | None = None
        end = None
        published = [
            self.events[publish].recorded_at for publish in leads_to if publish in self.events
        ]
        if delivery.id in self.spans:
            handled, end = Duration(self.spans[delivery.id]), "span"
        elif published:
            handled, end = Duration(max(published) - delivery.recorded_at), "published"
        waited_for = self.predecessors.get(delivery.id) if delivery.id not in self.copies else None
        queued = delivery.recorded_at - self.events[waited_for[0]].recorded_at if waited_for else 0
        settled = (
            None if delivery.settled_at is None else delivery.settled_at - delivery.recorded_at
        )
        if delivery.settlement is Disposition.auto or (settled is not None and settled < 0):
            settled = None
        return Delivery(
            delivery,
            Duration(delivery.recorded_at - self.root.recorded_at),
            Duration(queued),
            handled,
            end,  # type: ignore[arg-type]  # one of the two words, or None
            Duration(self.slack[delivery.id]),
            delivery.id in self.on_path,
            leads_to,
            self._acts(delivery.id),
            None if settled is None else Duration(settled),
        )

    def _put_aside(self) -> dict[int, ConversationEvent]:
        """By message, its second publish into an error queue."""
        forwards = {}
        for head in self.heads:
            if head.forward is not None:
                cause = next((e for e in self.causes.get(head.id, ()) if e.kind == "forward"), None)
                forwards[self._message_of(cause.event) if cause else head.id] = head
        return forwards

    def _message_of(self, event_id: int) -> int:
        event = self.events.get(event_id)
        if event is None or event.cause is None or event.cause not in self.events:
            return event_id
        return event.cause

    def _failure(self, head: ConversationEvent) -> MessageFailure | None:
        copies = self.copies[head.id]
        forwarded = self.put_aside.get(head.id)
        if (
            forwarded is not None
            and forwarded.forward is not None
            and not self._came_back(forwarded, head)
        ):
            # If a forward names no message, the queue that it failed in is unknown.
            first_queue = next(iter(copies), None) if forwarded is not head else None
            failed_in = forwarded.forward.queue or first_queue
            return MessageFailure("error_queue", failed_in, None, forwarded.forward.exception)
        if not copies and head.type is EventType.published and not is_direct_reply(head):
            return MessageFailure("unroutable")
        for deliveries in copies.values():
            if (death := _final_death(head, deliveries)) is not None:
                return MessageFailure("died", death.queue, death.reason)
        for queue, deliveries in copies.items():
            if (
                sum(delivery.match is Match.redelivered for delivery in deliveries)
                >= MANY_REDELIVERIES
            ):
                return MessageFailure("came_back", queue)
        for queue, loss in self.losses.get(head.id, {}).items():
            if (
                loss.is_final
                and queue in copies
                and not copies[queue]
                and not self._unrouted_queues(head)
            ):
                return MessageFailure("gone", queue, loss.reason)
        return None

    def _came_back(self, forwarded: ConversationEvent, head: ConversationEvent) -> bool:
        """Tell whether a forwarded message was handed over again from where it was first routed."""
        deliveries = chain.from_iterable(self.copies[forwarded.id].values())
        return forwarded is not head and any(
            delivery.queue in head.routed_queues for delivery in deliveries
        )

    def _counts(self, messages: Sequence[Message]) -> Counts:
        received = [e for e in self.events.values() if e.type is EventType.received]
        return Counts(
            messages=len(messages),
            deliveries=len(received),
            redeliveries=sum(event.match is Match.redelivered for event in received),
            deaths=sum(event.match is Match.dead_lettered for event in received),
            waiting=sum(copy.state == "waiting" for message in messages for copy in message.copies),
            participants=len({event.participant for event in self.events.values()}),
        )

    def _keys(self) -> tuple[str, ...]:
        """Values that messages share, those of most messages first."""
        counts = Counter(key for head in self.heads for key in head.keys)
        threshold = 2 if len(self.heads) > 1 else 1
        return tuple(key for key, times in counts.most_common(MOST_KEYS) if times >= threshold)

    def _participants(self, publishers: Mapping[int, PublisherRecord]) -> tuple[Involved, ...]:
        names = {event.participant: event.name for event in self.events.values()}
        unknown = PublisherRecord()
        return tuple(
            Involved(number, name, record.coverage, record.coverage_by_spans)
            for number, name in names.items()
            for record in [publishers.get(number, unknown)]
        )

    def _consumers_without_cause(
        self, publishers: Mapping[int, PublisherRecord]
    ) -> tuple[str, ...]:
        """Consumers that have published without a cause since.

        Along clocks all that may be of the conversation is in it.
        """
        if self.via is Via.any:
            return ()
        handed: dict[int, ConversationEvent] = {}
        for event in self.events.values():
            if event.type is EventType.received and event.mover is None:
                handed.setdefault(event.participant, event)
        return tuple(
            event.name
            for number, event in handed.items()
            if number in publishers and publishers[number].unnamed > event.id
        )

    def _silent(
        self, publishers: Mapping[int, PublisherRecord], now: int | None
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Consumers whose effects nothing names: silent ones, and those that may still publish.

        The former have published outside the conversation since; the latter have published nothing
        since, though they do for other messages, or never yet, but were handed it just now.
        Deliveries that were rejected or are in hand do
        not count. Suggestions count as neither named nor part of the conversation.
        """
        if self.via is Via.any:
            return (), ()
        caused = {
            cause.event for links in self.causes.values() for cause in links if cause.kind != LIKELY
        }
        replies = {
            (head.participant, self._message_of(cause.event))
            for head in self.heads
            for cause in self.causes.get(head.id, ())
            if cause.kind != LIKELY
        }
        members = self.events.keys() - self._suggested_messages()
        silent: dict[int, str] = {}
        pending: dict[int, str] = {}
        young_from = (now or sys.maxsize) - self._patience()
        for event in self.events.values():
            if event.type is not EventType.received or event.mover or event.id in caused:
                continue
            if event.settlement in (Disposition.rejected, Disposition.in_hand):
                continue
            record = publishers.get(event.participant)
            if record is None or (event.participant, self._message_of(event.id)) in replies:
                continue
            newer = {publish for publish in record.newest if publish > event.id}
            if record.cutoff > event.id or newer - members:
                silent.setdefault(event.participant, event.name)
            elif (record.reactions and not newer and not record.only_begins) or (
                not record.reactions and record.first_at > young_from
            ):
                pending.setdefault(event.participant, event.name)
        return tuple(silent.values()), tuple(pending.values())

    def _patience(self) -> int:
        """The time for which a consumer that never published is waited for (µs)."""
        took = [
            self.events[effect].recorded_at - self.events[cause].recorded_at
            for cause, effects in self.leads_to.items()
            for effect in effects
            if {cause, effect} <= self.events.keys()
        ]
        return max(LEAST_PATIENCE, PATIENCE * max(took, default=0))

    def _suggested_messages(self) -> set[int]:
        """Messages that only suggestions put into the conversation."""
        messages: set[int] = set()
        for head in self.heads:
            causes = self.causes.get(head.id, ())
            if causes and all(
                cause.kind == LIKELY or self._message_of(cause.event) in messages
                for cause in causes
            ):
                messages.add(head.id)
        return messages

    def _children(self) -> dict[int, set[int]]:
        """The messages that each led to directly."""
        children: dict[int, set[int]] = {head.id: set() for head in self.heads}
        for head in self.heads:
            for cause in self.causes.get(head.id, ()):
                parent = self._message_of(cause.event)
                if parent in children and parent != head.id:
                    children[parent].add(head.id)
        return children

    def _amplification(self) -> Amplification:
        counts = {message: len(led_to) for message, led_to in self._children().items()}
        greatest = max(counts.values(), default=0)
        first = min((message for message in counts if counts[message] == greatest), default=None)
        return Amplification(greatest, first if greatest else None)

    def _loops(self) -> list[Loop]:
        """Types in their own past; a message that was forwarded or has died is the same one."""
        by_type: defaultdict[str, set[int]] = defaultdict(set)
        # By message, the nearest of each type on the way from the root, itself included.
        nearest: dict[int, dict[str, int]] = {}
        readers = Counter(
            self._message_of(self.causes[head.id][0].event)
            for head in self.heads
            if head.id in self.causes
        )
        for head in self.heads:
            causes = self.causes.get(head.id, ())
            parent = self._message_of(causes[0].event) if causes else None
            past = nearest.get(parent, {}) if parent is not None else {}
            if parent is not None:
                readers[parent] -= 1
                if readers[parent] == 0:
                    nearest.pop(parent, None)
                else:
                    past = dict(past)
            is_again = bool(causes) and causes[0].kind in _REPEATS
            if not is_again:
                if head.message_type in past:
                    by_type[head.message_type] |= {past[head.message_type], head.id}
                past[head.message_type] = head.id
            if readers[head.id]:
                nearest[head.id] = past
        loops = [Loop(name, tuple(sorted(ids))) for name, ids in by_type.items()]
        return sorted(loops, key=lambda loop: loop.events)


def is_direct_reply(event: ConversationEvent) -> bool:
    """Tell whether a publish goes to a channel that waits for a reply, and not to a queue."""
    return not event.exchange and any(map(is_reply, event.routing_keys[:1]))


def _is_held(delivery: Delivery) -> bool:
    return delivery.record.settlement is Disposition.in_hand


def _is_vague(copy: Copy) -> bool:
    """Tell whether a copy's consumer is unknown, or its fate elsewhere, or after a rejection."""
    last = copy.deliveries[-1] if copy.deliveries else None
    return last is None or last.settlement is Disposition.rejected or last.mover is not None


def _final_death(head: ConversationEvent, deliveries: Sequence[ConversationEvent]) -> Death | None:
    """The death of a copy that died for good, as far as is known.

    A copy that came back to a queue of its publish was tried again.
    """
    if not deliveries or deliveries[-1].match is not Match.dead_lettered:
        return None
    last = deliveries[-1]
    if last.queue in head.routed_queues or not last.deaths:
        return None
    handed_from = {delivery.queue for delivery in deliveries[:-1] if delivery.queue}
    return next((death for death in last.deaths if not is_put_off(death, handed_from)), None)


def _remark(head: ConversationEvent) -> str:
    if head.expiration is not None:
        expiry = f"after {head.expiration} ms"
        return f"not handed over: it waits, or has expired ({expiry}), or was dropped"
    return "not handed over: it waits, or was dropped, or expired by its queue's own time"


def _outcome(messages: Sequence[Message], is_open: bool, *, is_known: bool) -> Outcome:
    outcomes = {message.outcome for message in messages}
    for outcome in (Outcome.failed, Outcome.waiting):
        if outcome in outcomes:
            return outcome
    if is_open or Outcome.open in outcomes:
        return Outcome.open
    return Outcome.done if is_known and Outcome.unknown not in outcomes else Outcome.unknown


_FAILURE_WORDS = {
    "error_queue": "went to an error queue",
    "unroutable": "could not be routed",
    "came_back": "came back again and again",
    "gone": "was lost, with nobody having been handed it",
}


_NONE_NAMES_IT = {
    Via.links: "no message names it as its cause",
    Via.conversation: "no message names it as its cause or shares its keys",
    Via.any: "no message can have come of it",
}


def sentence_of(
    root: ConversationEvent,
    messages: Sequence[Message],
    counts: Counts,
    ended_at: int,
    *,
    via: Via = Via.links,
    unnamed: Sequence[str] = (),
    silent: Sequence[str] = (),
    pending: Sequence[str] = (),
    truncated: bool = False,
    is_whole: bool = True,
) -> str:
    """A conversation in a sentence.

    ``unnamed``, ``silent`` and ``pending`` are names of participants that may carry it on. Unless
    it ``is_whole``, events of it may be missing.
    """
    effects, took = counts.messages - 1, duration_words(ended_at - root.recorded_at)
    effects_text = number_of(effects, "more message")
    if truncated:
        effects_text = f"at least {effects_text}" if effects else "more than is shown"
    clauses = [f"{root.message_type} led to {effects_text} in {took}"]
    if not effects and not truncated:
        clauses = [f"{root.message_type}: {_NONE_NAMES_IT[via]}, in {took}"]
    failures = Counter((f.kind, f.queue) for f in (message.failure for message in messages) if f)
    for (kind, queue), times in failures.most_common(3):
        clauses.append(f"{times:,} {_FAILURE_WORDS.get(kind, f'died in {queue}')}")
    if copies := counts.waiting:
        clauses.append(f"{copies:,} {verb(copies, 'was', 'were')} not handed over yet")
    deliveries = [d for message in messages for copy in message.copies for d in copy.deliveries]
    for mover, times in Counter(d.mover for d in deliveries if d.mover).most_common(3):
        clauses.append(f"{times:,} left by {mover}")
    if holders := [delivery.record.name for delivery in deliveries if _is_held(delivery)]:
        number, names = len(holders), join_names([*dict.fromkeys(holders)])
        clauses.append(f"{number:,} {verb(number, 'is', 'are')} in the hands of {names}")
    if unnamed:
        auxiliary = verb(len(unnamed), "has", "have")
        clauses.append(
            f"{join_names(unnamed)} {auxiliary} published since without naming a cause:"
            " its id or a key in each message would tell"
        )
    if silent:
        clauses.append(
            f"{join_names(silent)} published for others since, and"
            f" {verb(len(silent), 'names', 'name')} nothing that came of a message here"
        )
    if pending:
        subject = verb(len(pending), "it was", "they were")
        clauses.append(
            f"{join_names(pending)} {verb(len(pending), 'has', 'have')} published nothing since"
            f" {subject} handed a message here, and may yet"
        )
    if not is_whole:
        clauses.append("some of it may be missing, in a gap")
    return "; ".join(clauses)


def duration_words(microseconds: int) -> str:
    """A duration for people."""
    if microseconds < 1_000:
        return "under 1 ms"
    if microseconds < 1_000_000:
        return f"{microseconds // 1000} ms"
    seconds = microseconds / 1_000_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"
