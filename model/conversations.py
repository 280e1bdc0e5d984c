"""A conversation: a message, all that it led to, what became of each, and where the time went.

A message is a publish and its deliveries. Times are those at which trace messages reached the
service, in µs; nothing here is I/O.
"""

from __future__ import annotations

import enum
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
from model.sound import listed, share
from model.texts import is_reply
from model.times import Duration, Microseconds
from model.words import BY_BROKER, Disposition, EdgeKind, EventType, Match, Via

CopyWord: TypeAlias = Literal["handed_over", "waiting", "dead_lettered", "gone"]
FailureWord: TypeAlias = Literal["died", "error_queue", "unroutable", "came_back", "gone"]
ActWord: TypeAlias = Literal["returned", "rejected", "overflow"]
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

OFTEN = 3
"""A copy that was handed over again this many times came back again and again."""
MOST_KEYS = 5
MOST_PUBLISHES = 16
"""Of each participant, its last publishes that are told apart from a conversation's own."""
_LEFT = ("handed_over", "gone")
_ACTS = frozenset(kind.name for kind in BY_BROKER)
# What leads to the same message once more.
_SAME = _ACTS | {EdgeKind.forward.name}


class Outcome(enum.StrEnum):
    """The outcome of a message, or of all of a conversation, as far as is known.

    A conversation is ``open`` where a participant that was handed one of its messages has not
    settled it yet, or has published since without naming a cause: that may go on what was begun
    here. So may one that publishes for what it is handed and has published nothing since. A message
    is ``open`` while somebody has it in hand, and ``unknown`` where it was handed over, or an equal
    one was, and where it was rejected: it may be a dead letter that nobody was handed yet. A
    conversation is ``unknown`` where a participant names nothing that came of a message which it
    was handed, and has published since what is not of the conversation: who waits for several
    messages may name one of them.
    """

    done = "done"
    open = "open"
    unknown = "unknown"
    waiting = "waiting"
    failed = "failed"


class PublisherRecord(NamedTuple):
    """A participant's publishes, by what they say of their causes.

    ``unnamed`` is the last that names none, or an event before which there may be some; 0 if there
    is none. Of its ``reactions``, the publishes that may have a cause, ``explained`` name one, and
    of ``spanned`` spans tell it. ``newest`` are all its publishes after the event ``since``.
    """

    unnamed: int = 0
    reactions: int = 0
    explained: int = 0
    spanned: int = 0
    newest: tuple[int, ...] = ()
    since: int = 0

    @property
    def coverage(self) -> float | None:
        """The share of those that may have a cause which name it; None without any."""
        return share(self.explained, self.reactions - self.explained)

    @property
    def coverage_by_spans(self) -> float | None:
        """The share of them that spans tell the cause of; None without any."""
        return share(self.spanned, self.reactions - self.spanned)

    def __str__(self) -> str:
        spans = f", by spans {self.coverage_by_spans:.0%}" if self.spanned else ""
        return f"coverage {self.coverage or 0:.0%}{spans}"


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

    it: Annotated[ConversationEvent, INNER]
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
        """What became of it at its consumer; `null` where it is not known."""
        return self.it.settlement

    @property
    def event(self) -> int:
        """Its id."""
        return self.it.id

    @property
    def participant(self) -> int:
        """The participant that was handed it."""
        return self.it.participant

    @property
    def at(self) -> Microseconds:
        """The time at which it was handed over."""
        return self.it.at

    @property
    def match(self) -> Match:
        """The way its publish was found."""
        return self.it.match

    @property
    def redelivered(self) -> bool:
        """Tell whether the broker says that it was handed over before."""
        return self.it.redelivered

    @property
    def queue(self) -> str | None:
        """The queue that it came from."""
        return self.it.queue


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

    Of what it was ``led_by`` the first counts; ``elsewhere`` says what led to it where that is not
    among the events that were read.
    """

    it: Annotated[ConversationEvent, INNER]
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
    elsewhere: Annotated[Via | None, INNER] = None

    @property
    def event(self) -> int:
        """Its publish."""
        return self.it.id

    @property
    def type(self) -> str:
        """The message's type, by name."""
        return self.it.message_type

    @property
    def exchange(self) -> str:
        """The exchange that it was published to."""
        return self.it.exchange

    @property
    def routing_key(self) -> str:
        """The first, where it has several."""
        return self.it.routing_keys[0] if self.it.routing_keys else ""

    @property
    def participant(self) -> int | None:
        """The publisher; `null` where that is unseen."""
        return None if self.unseen else self.it.participant

    @property
    def at(self) -> Microseconds:
        """The time at which it was published."""
        return self.it.at

    @property
    def cause(self) -> int | None:
        """The event that led to it."""
        return self.led_by[0].event if self.led_by else None

    @property
    def how(self) -> How | None:
        """`null` where nothing led to it."""
        if self.led_by:
            return How(self.led_by[0].rule, cast("HowWord", self.led_by[0].kind))
        return None if self.elsewhere is None else How(None, cast("HowWord", self.elsewhere.value))

    @property
    def causes(self) -> list[int]:
        """All that it names, or what else led to it."""
        return [*dict.fromkeys(each.event for each in self.led_by)]


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

    A delivery waited for its publish, or if it was handed over again or had died, for the delivery
    that was given back or rejected, or else the same copy's before it; a publish for what led to
    it.
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

    @property
    def seconds(self) -> float:
        """From the first publish to the last event."""
        return (self.ended_at - self.began_at) / 1e6


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
) -> Conversation:
    """The conversation that began with ``root``, by its events.

    These are the publishes with all their deliveries, and deliveries whose publish is not stored.
    ``causes`` are those of each event, the one that counts first. ``origins`` are the publishes
    that nothing led to; ``spans`` says how long consumers handled deliveries (µs), where known;
    ``publishers`` what participants published, ``losses`` which copies are gone, by publish and
    queue. ``gaps`` are those of the trace around it, and others.
    """
    told = _Told(root, events, causes, via, origins, spans or {}, losses or {})
    last = max(told.events, default=root.id)
    # What it led to last may be missing right behind its last event. What was left out by choice
    # is of no conversation.
    is_whole = not any(
        gap.spanned_by(root.id, last + 1) and (gap.quarantined or not gap.declared) for gap in gaps
    )
    return told.told(publishers or {}, truncated, is_whole)


class _Told:
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
        self.events = {each.id: each for each in sorted(events)}
        self.causes = causes
        self.of_message: defaultdict[int, list[ConversationEvent]] = defaultdict(list)
        for each in self.events.values():
            if each.type is EventType.received:
                message = each.cause if each.cause in self.events else each.id
                self.of_message[message].append(each)
        self.heads = [
            each
            for each in self.events.values()
            if each.type is EventType.published or each.id in self.of_message
        ]
        self.leads_to: defaultdict[int, list[int]] = defaultdict(list)
        for head in self.heads:
            for cause in dict.fromkeys(each.event for each in causes.get(head.id, ())):
                self.leads_to[cause].append(head.id)
        self.copies = {head.id: self._copies_of(head) for head in self.heads}
        self.before = self._before()
        at = {each.id: each.at for each in self.events.values()}
        self.slack = slacks(at, self.before)
        self.path = critical_path(at, self.before)
        self.on_path = frozenset(self.path)
        self.put_aside = self._put_aside()

    def told(
        self, publishers: Mapping[int, PublisherRecord], truncated: bool, is_whole: bool
    ) -> Conversation:
        messages = tuple(map(self._message, self.heads))
        counts = self._counts(messages)
        unnamed = self._unnamed(publishers)
        silent, pending = ((), ()) if unnamed or truncated else self._silent(publishers)
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
                self._ended(),
                via=self.via,
                unnamed=unnamed,
                silent=silent,
                pending=pending,
                truncated=truncated,
                is_whole=is_whole,
            ),
            began_at=self.root.at,
            ended_at=self._ended(),
            counts=counts,
            keys=self._keys(),
            participants=self._participants(publishers),
            messages=messages,
            critical_path=tuple(self.path),
            amplification=self._amplification(),
            loops=tuple(self._loops()),
            truncated=truncated,
        )

    def _ended(self) -> Microseconds:
        return max((each.at for each in self.events.values()), default=self.root.at)

    def _copies_of(self, head: ConversationEvent) -> dict[str, list[ConversationEvent]]:
        """The deliveries of each copy, by the queue that it was routed to.

        What was published to the default exchange and came out of another queue was moved there.
        """
        copies: dict[str, list[ConversationEvent]] = {queue: [] for queue in head.routed_queues}
        for each in self.of_message.get(head.id, ()):
            queue = each.queue or ""
            if each.match is Match.dead_lettered:
                died_in = (death.queue for death in reversed(each.deaths))
                queue = next((name for name in died_in if name in copies), queue)
            elif queue not in copies and not head.exchange and len(head.routed_queues) == 1:
                (queue,) = head.routed_queues
            copies.setdefault(queue, []).append(each)
        return copies

    def _before(self) -> dict[int, list[int]]:
        """The events that each event had to wait for."""
        before: dict[int, list[int]] = {}
        for head in self.heads:
            causes = self.causes.get(head.id, ())
            before[head.id] = self._inside(each.event for each in causes)
            for deliveries in self.copies[head.id].values():
                last = head.id
                for each in deliveries:
                    if each.id != head.id:
                        again = each.match in (Match.redelivered, Match.dead_lettered)
                        acts = self._acts(each.id)
                        held = self._inside(act.cause for act in acts if act.kind != "overflow")
                        pushed = self._inside(act.cause for act in acts if act.kind == "overflow")
                        before[each.id] = [*(held or [last if again else head.id]), *pushed]
                    last = each.id
        return before

    def _inside(self, ids: Iterable[int]) -> list[int]:
        return [each for each in dict.fromkeys(ids) if each in self.events]

    def _acts(self, delivery: int) -> tuple[BrokerAct, ...]:
        causes = self.causes.get(delivery, ())
        return tuple(
            BrokerAct(each.event, cast("ActWord", each.kind))
            for each in causes
            if each.kind in _ACTS
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
        is_held = any(_is_held(each) for copy in copies for each in copy.deliveries)
        is_vague = any(copy.state in _LEFT and _is_vague(copy) for copy in copies)
        is_vague |= not copies  # a direct reply, if it has not failed
        known = Outcome.unknown if is_vague else Outcome.done
        alive = Outcome.waiting if waits else Outcome.open if is_held else known
        return Message(
            it=head,
            led_by=causes,
            offset=Duration(head.at - self.root.at),
            outcome=Outcome.failed if failure else alive,
            failure=failure,
            slack=Duration(self.slack[head.id]),
            critical=head.id in self.on_path,
            copies=copies,
            unseen=head.type is EventType.received,
            elsewhere=self.via if is_elsewhere else None,
        )

    def _copy(
        self, head: ConversationEvent, queue: str, deliveries: Sequence[ConversationEvent]
    ) -> Copy:
        dead = [each for each in deliveries if each.match is Match.dead_lettered]
        state: CopyWord = "dead_lettered" if dead else "handed_over" if deliveries else "waiting"
        remark = None if deliveries else _remark(head)
        loss = None if deliveries else self.losses.get(head.id, {}).get(queue)
        moved = [] if deliveries else self._unrouted(head)
        if moved:
            state = "handed_over"
            remark = f"waits, or was moved and handed over from {listed(moved)}"
        elif not deliveries and is_reply(queue):  # where nothing is kept
            state, remark = (
                "gone",
                "went to its caller untraced (before RabbitMQ 4.2), or to nobody",
            )
        elif loss is not None:
            state, remark = loss.state, loss.remark(head.exchange)
        return Copy(
            queue,
            state,
            tuple(dict.fromkeys(each.queue for each in dead if each.queue)),
            tuple(map(self._delivery, deliveries)),
            remark,
            loss,
        )

    def _unrouted(self, head: ConversationEvent) -> list[str]:
        """Queues that a message came out of though it was neither routed nor died there."""
        deliveries = self.of_message.get(head.id, ())
        found = (each.queue for each in deliveries if each.match is not Match.dead_lettered)
        return [name for name in dict.fromkeys(found) if name and name not in head.routed_queues]

    def _delivery(self, it: ConversationEvent) -> Delivery:
        leads_to = tuple(self.leads_to.get(it.id, ()))
        handled: Duration | None = None
        until = None
        published = [self.events[each].at for each in leads_to if each in self.events]
        if it.id in self.spans:
            handled, until = Duration(self.spans[it.id]), "span"
        elif published:
            handled, until = Duration(max(published) - it.at), "published"
        waited_for = self.before.get(it.id) if it.id not in self.copies else None
        queued = it.at - self.events[waited_for[0]].at if waited_for else 0
        settled = None if it.settled_at is None else it.settled_at - it.at
        if it.settlement is Disposition.auto or (settled is not None and settled < 0):
            settled = None
        return Delivery(
            it,
            Duration(it.at - self.root.at),
            Duration(queued),
            handled,
            until,  # type: ignore[arg-type]  # one of the two words, or None
            Duration(self.slack[it.id]),
            it.id in self.on_path,
            leads_to,
            self._acts(it.id),
            None if settled is None else Duration(settled),
        )

    def _put_aside(self) -> dict[int, ConversationEvent]:
        """Messages that were published again into an error queue: by message, the second one."""
        found = {}
        for head in self.heads:
            if head.forward is not None:
                cause = next((e for e in self.causes.get(head.id, ()) if e.kind == "forward"), None)
                found[self._message_of(cause.event) if cause else head.id] = head
        return found

    def _message_of(self, event_id: int) -> int:
        """The message that an event is of."""
        event = self.events.get(event_id)
        if event is None or event.cause is None or event.cause not in self.events:
            return event_id
        return event.cause

    def _failure(self, head: ConversationEvent) -> MessageFailure | None:
        copies = self.copies[head.id]
        aside = self.put_aside.get(head.id)
        if aside is not None and aside.forward is not None and not self._came_back(aside, head):
            # Of one that names no message nobody knows where that failed.
            known = next(iter(copies), None) if aside is not head else None
            failed_in = aside.forward.queue or known
            return MessageFailure("error_queue", failed_in, None, aside.forward.exception)
        if not copies and head.type is EventType.published and not is_direct_reply(head):
            return MessageFailure("unroutable")
        for deliveries in copies.values():
            if (death := _died_of(head, deliveries)) is not None:
                return MessageFailure("died", death.queue, death.reason)
        for queue, deliveries in copies.items():
            if sum(each.match is Match.redelivered for each in deliveries) >= OFTEN:
                return MessageFailure("came_back", queue)
        for queue, loss in self.losses.get(head.id, {}).items():
            if loss.is_final and queue in copies and not copies[queue] and not self._unrouted(head):
                return MessageFailure("gone", queue, loss.reason)
        return None

    def _came_back(self, aside: ConversationEvent, head: ConversationEvent) -> bool:
        """Tell whether what was put aside was handed out again where it had been published to."""
        deliveries = chain.from_iterable(self.copies[aside.id].values())
        return aside is not head and any(each.queue in head.routed_queues for each in deliveries)

    def _counts(self, messages: Sequence[Message]) -> Counts:
        received = [e for e in self.events.values() if e.type is EventType.received]
        return Counts(
            messages=len(messages),
            deliveries=len(received),
            redeliveries=sum(each.match is Match.redelivered for each in received),
            deaths=sum(each.match is Match.dead_lettered for each in received),
            waiting=sum(copy.state == "waiting" for each in messages for copy in each.copies),
            participants=len({each.participant for each in self.events.values()}),
        )

    def _keys(self) -> tuple[str, ...]:
        """Values that messages share, those of most messages first."""
        counted = Counter(key for head in self.heads for key in head.keys)
        least = 2 if len(self.heads) > 1 else 1
        return tuple(key for key, times in counted.most_common(MOST_KEYS) if times >= least)

    def _participants(self, publishers: Mapping[int, PublisherRecord]) -> tuple[Involved, ...]:
        names = {each.participant: each.name for each in self.events.values()}
        unknown = PublisherRecord()
        return tuple(
            Involved(number, name, its.coverage, its.coverage_by_spans)
            for number, name in names.items()
            for its in [publishers.get(number, unknown)]
        )

    def _unnamed(self, publishers: Mapping[int, PublisherRecord]) -> tuple[str, ...]:
        """Those who were handed a message and have published without a cause since, with coverage.

        Along clocks all that may be of it is there.
        """
        if self.via is Via.any:
            return ()
        handed: dict[int, ConversationEvent] = {}
        for each in self.events.values():
            if each.type is EventType.received:
                handed.setdefault(each.participant, each)
        return tuple(
            f"{each.name} ({publishers[number]})"
            for number, each in handed.items()
            if number in publishers and publishers[number].unnamed > each.id
        )

    def _silent(
        self, publishers: Mapping[int, PublisherRecord]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Those who name nothing that came of what they were handed, but publish for others.

        Of these, those who have since, and those who have published nothing since: what they were
        handed may be in work. Not what they gave back or rejected, nor what they have in hand,
        which is said of itself; and only publishes that are not of the conversation. What is
        suggested counts as neither named nor of it. Along clocks these are of it.
        """
        if self.via is Via.any:
            return (), ()
        led = {
            each.event for causes in self.causes.values() for each in causes if each.kind != LIKELY
        }
        answered = {
            (head.participant, self._message_of(each.event))
            for head in self.heads
            for each in self.causes.get(head.id, ())
            if each.kind != LIKELY
        }
        its_own = self.events.keys() - self._suggested()
        silent: dict[int, str] = {}
        pending: dict[int, str] = {}
        for each in self.events.values():
            if each.type is not EventType.received or each.id in led:
                continue
            if each.settlement in (Disposition.rejected, Disposition.in_hand):
                continue
            record = publishers.get(each.participant)
            if record is None or (each.participant, self._message_of(each.id)) in answered:
                continue
            since = {publish for publish in record.newest if publish > each.id}
            if record.since > each.id or since - its_own:
                silent.setdefault(each.participant, each.name)
            elif record.reactions and not since:
                pending.setdefault(each.participant, each.name)
        return tuple(silent.values()), tuple(pending.values())

    def _suggested(self) -> set[int]:
        """Messages that are of the conversation by suggestions alone."""
        found: set[int] = set()
        for head in self.heads:
            causes = self.causes.get(head.id, ())
            if causes and all(
                each.kind == LIKELY or self._message_of(each.event) in found for each in causes
            ):
                found.add(head.id)
        return found

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
        counted = {message: len(led_to) for message, led_to in self._children().items()}
        most = max(counted.values(), default=0)
        first = min((each for each in counted if counted[each] == most), default=None)
        return Amplification(most, first if most else None)

    def _loops(self) -> list[Loop]:
        """Types in their own past; one that was published again, or has died, is the same one."""
        by_type: defaultdict[str, set[int]] = defaultdict(set)
        # Of each message: the nearest of each type on the way from the root, itself included.
        nearest: dict[int, dict[str, int]] = {}
        left = Counter(
            self._message_of(self.causes[head.id][0].event)
            for head in self.heads
            if head.id in self.causes
        )
        for head in self.heads:
            causes = self.causes.get(head.id, ())
            parent = self._message_of(causes[0].event) if causes else None
            past = nearest.get(parent, {}) if parent is not None else {}
            if parent is not None:
                left[parent] -= 1
                if left[parent] == 0:  # nobody else asks for it
                    nearest.pop(parent, None)
                else:
                    past = dict(past)
            is_again = bool(causes) and causes[0].kind in _SAME
            if not is_again:
                if head.message_type in past:
                    by_type[head.message_type] |= {past[head.message_type], head.id}
                past[head.message_type] = head.id
            if left[head.id]:
                nearest[head.id] = past
        found = [Loop(name, tuple(sorted(ids))) for name, ids in by_type.items()]
        return sorted(found, key=lambda loop: loop.events)


def is_direct_reply(event: ConversationEvent) -> bool:
    """Tell whether a publish goes to a channel that asked, and not to a queue."""
    return not event.exchange and any(map(is_reply, event.routing_keys[:1]))


def _is_held(delivery: Delivery) -> bool:
    return delivery.it.settlement is Disposition.in_hand


def _is_vague(copy: Copy) -> bool:
    """Tell whether it is not known who was handed a copy, or where it went once rejected."""
    last = copy.deliveries[-1].it if copy.deliveries else None
    return last is None or last.settlement is Disposition.rejected


def _died_of(head: ConversationEvent, deliveries: Sequence[ConversationEvent]) -> Death | None:
    """The death of a copy that died for good, as far as is known; None if it did not.

    One that came back to a queue that it was published to was tried again.
    """
    if not deliveries or deliveries[-1].match is not Match.dead_lettered:
        return None
    last = deliveries[-1]
    if last.queue in head.routed_queues or not last.deaths:
        return None
    handed_from = {each.queue for each in deliveries[:-1] if each.queue}
    return next((each for each in last.deaths if not is_put_off(each, handed_from)), None)


def _remark(head: ConversationEvent) -> str:
    """A remark on what may have become of a copy that was never handed over."""
    if head.expiration is not None:
        after = f"after {head.expiration} ms"
        return f"not handed over: it waits, or has expired ({after}), or was dropped"
    return "not handed over: it waits, or was dropped, or expired by its queue's own time"


def _outcome(messages: Sequence[Message], is_open: bool, *, is_known: bool) -> Outcome:
    found = {each.outcome for each in messages}
    for outcome in (Outcome.failed, Outcome.waiting):
        if outcome in found:
            return outcome
    if is_open or Outcome.open in found:
        return Outcome.open
    return Outcome.done if is_known and Outcome.unknown not in found else Outcome.unknown


_FAILED = {
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
    """A conversation in a sentence; of ``unnamed`` and ``silent`` publishes may be of it, too.

    Those of ``pending`` may be to come; unless it ``is_whole``, others may be missing.
    """
    more = counts.messages - 1
    led = f"{more:,} more message{'s' * (more != 1)}"
    if truncated:
        led = f"at least {led}" if more else "more than is shown"
    said = [f"{root.message_type} led to {led} in {spoken(ended_at - root.at)}"]
    if not more and not truncated:
        said = [f"{root.message_type}: {_NONE_NAMES_IT[via]}, in {spoken(ended_at - root.at)}"]
    failures = Counter((f.kind, f.queue) for f in (each.failure for each in messages) if f)
    for (kind, queue), times in failures.most_common(3):
        said.append(f"{times:,} {_FAILED.get(kind, f'died in {queue}')}")
    if counts.waiting:
        verb = "was" if counts.waiting == 1 else "were"
        said.append(f"{counts.waiting:,} {verb} not handed over yet")
    deliveries = [each for one in messages for copy in one.copies for each in copy.deliveries]
    if held := [each.it.name for each in deliveries if _is_held(each)]:
        verb = "is" if len(held) == 1 else "are"
        said.append(f"{len(held):,} {verb} in the hands of {listed([*dict.fromkeys(held)])}")
    if unnamed:
        names = listed(unnamed)
        verb = "has" if len(unnamed) == 1 else "have"
        said.append(f"{names} {verb} published since without naming a cause")
    if silent:
        verb = "names" if len(silent) == 1 else "name"
        said.append(
            f"{listed(silent)} published for others since, and {verb} nothing that came of a"
            " message here"
        )
    if pending:
        verb = "has" if len(pending) == 1 else "have"
        be = "it was" if len(pending) == 1 else "they were"
        nothing = f"{verb} published nothing since {be} handed a message here, and may yet"
        said.append(f"{listed(pending)} {nothing}")
    if not is_whole:
        said.append("some of it may be missing, in a gap")
    return "; ".join(said)


def spoken(microseconds: int) -> str:
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
