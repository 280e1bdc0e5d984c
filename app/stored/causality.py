"""Causes and effects of events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, NamedTuple, Self

import msgspec

from app.errors import BadRequestError
from model.answers import Verdict
from model.conversations.deliveries import Delivery
from model.conversations.messages import Copy, Message
from model.conversations.outcomes import is_direct_reply
from model.conversations.sentences import duration_words
from model.described import INNER
from model.durations import MOST_OWNERS, REST
from model.event import Event
from model.sound import join_names
from model.times import Duration, Microseconds
from model.who import Who
from model.wording import Sentence
from model.words import Disposition, EdgeKind, Match, StepWord, how_of, number_of

LINKS = "What it names as its causes, and what led to it by what the broker did."
_RULE = "By which it is named; `null` for what the broker did, which `kind` says."


class PathStep(msgspec.Struct, frozen=True):
    """A step from an event to an effect: by a message, a link, or what the broker did."""

    cause: int
    effect: int
    how: StepWord
    rule: Annotated[str | None, "Of a link, by which it is named."] = None
    kind: Annotated[EdgeKind | None, "Of a link."] = None

    @classmethod
    def along(cls, cause: int, effect: int, rule: str | None, kind: int | None) -> Self:
        """The step along an edge; without a kind, along a message."""
        edge = None if kind is None else EdgeKind(kind)
        if how_of(edge) != "link":
            return cls(cause, effect, how_of(edge))
        return cls(cause, effect, "link", rule, edge)


class CausalPath(msgspec.Struct, frozen=True):
    """A shortest way of messages, links and what the broker did, from one event to another.

    ``steps`` is None if there is none, or none was found before the search was ``cut``.
    """

    steps: list[PathStep] | None
    cut: bool = False


class Named(msgspec.Struct, frozen=True):
    """A cause that a publish names, or that the broker's act gave a delivery."""

    cause: int
    rule: Annotated[str | None, _RULE]
    kind: EdgeKind


class Naming(msgspec.Struct, frozen=True):
    """An effect that names an event, or that the broker joined to it."""

    effect: int
    rule: Annotated[str | None, _RULE]
    kind: EdgeKind


class NamedBy(msgspec.Struct, frozen=True):
    """An event's effects beside its message: the first 100, if ``truncated``."""

    links: list[Naming]
    truncated: bool


class EventLinks(msgspec.Struct, frozen=True):
    """An event's causes and effects beside its message."""

    links: Annotated[list[Named], LINKS]
    named_by: Annotated[NamedBy, "What has it among its `links`."]


class ChainPart(msgspec.Struct, frozen=True):
    """A part of the chain between two events, by id; ``truncated`` where there is more.

    ``heavy`` is that of `app.stored.reading.EventList`. A chain that is too long to follow is
    ``truncated``, and has no items.
    """

    items: Annotated[list[Event], INNER] = []
    truncated: bool = False
    heavy: Annotated[dict[int, int], INNER] = {}
    steps: Annotated[list[PathStep], "What leads from one to another of the events shown."] = []
    count: Annotated[
        int | None, "How many events the whole chain has; `null` if that takes too long to count."
    ] = 0
    participants: Annotated[int | None, "Of how many participants; `null` as `count`."] = 0

    @property
    def next(self) -> int | None:
        """The `after` for more where it is truncated; `null` if it is too long to follow."""
        return self.items[-1].id if self.truncated and self.items else None


def of_one_trace(events: Sequence[Event]) -> int:
    """The trace of some events; raises `BadRequestError` if they are of several."""
    if len({event.trace_id for event in events}) > 1:
        raise BadRequestError(
            "these events are of two virtual hosts, whose clocks cannot be compared"
        )
    return events[0].trace_id


_VERBS = (
    (Disposition.auto, "taken without acknowledgement from"),
    (Disposition.rejected, "rejected from"),
    (Disposition.returned, "given back to"),
    (Disposition.channel_closed, "back, as a channel closed, in"),
    (None, "settlement unknown:"),
)


class CopyNumbers(NamedTuple):
    """Numbers of copies that wait in a queue; ``older`` are as old as in an earlier answer."""

    copies: int
    older: int
    newest: int


class QueueCopies(NamedTuple):
    """The number of copies of a queue, and the time of the oldest (µs), with its publish."""

    queue: str
    copies: int
    oldest: int
    event: int = 0


def busiest_queues(copies: Iterable[QueueCopies], limit: int = MOST_OWNERS) -> list[QueueCopies]:
    """The copies of the queues that have most; those of the others are together, as `REST`."""
    ordered = sorted(copies, key=lambda queue: -queue.copies)
    kept, rest = ordered[:limit], ordered[limit:]
    if rest:
        total = sum(queue.copies for queue in rest)
        kept.append(QueueCopies(REST, total, min(queue.oldest for queue in rest)))
    return kept


class Fate(msgspec.Struct, frozen=True):
    """A publish as a message with its copies, and the events of their deliveries.

    As of ``at``; None if that is when its trace ran last. ``truncated``: there are more deliveries.
    ``heavy`` is that of `app.stored.reading.EventList`.
    """

    publish: Event
    message: Message
    deliveries: Mapping[int, Event]
    at: Microseconds | None
    heavy: dict[int, int] = {}
    truncated: bool = False

    def events_of(self, copy: Copy, *, dead: bool) -> list[Event]:
        """A copy's deliveries: from its queue, or after it had died there."""
        return [
            self.deliveries[delivery.event]
            for delivery in copy.deliveries
            if (delivery.match is Match.dead_lettered) is dead
        ]

    @property
    def routed_queues(self) -> int:
        """The number of queues that it was routed to."""
        return len(self.publish.routed_queues or ())

    @property
    def sentence(self) -> str:
        """All of this in a sentence."""
        copies = self.message.copies
        if not copies:
            is_reply = is_direct_reply(self.message.record)
            return str(Sentence.direct_fate if is_reply else Sentence.no_fate)
        queues = number_of(self.routed_queues, "queue")
        clauses = [Sentence.handed_over.format(count=self.handed_over, queues=queues)]
        if vague := sum(_is_vague(copy) for copy in copies):
            clauses.append(Sentence.perhaps_handed_over.format(count=vague))
        if untraced := sum(_is_untraced(copy) for copy in copies):
            clauses.append(Sentence.untraced_reply.format(count=untraced))
        clauses += self._settlements()
        movers = dict.fromkeys(
            delivery.mover for copy in copies for delivery in copy.deliveries if delivery.mover
        )
        clauses += [f"left by {mover}" for mover in movers]
        remarkable = (copy for copy in copies if copy.remark and copy.state != "waiting")
        clauses += [
            Sentence.copy_fate.format(queue=copy.queue, remark=copy.remark) for copy in remarkable
        ]
        return "; ".join(clauses)

    def _settlements(self) -> Iterator[str]:
        queues: defaultdict[Disposition | None, list[str]] = defaultdict(list)
        holders = []
        for copy in self.message.copies:
            if (last := _newest(copy)) is not None:
                queues[last.settlement].append(copy.queue)
                if last.settlement is Disposition.in_hand:
                    holders.append(self._holder_phrase(last, copy.queue))
        if not queues.keys() - {None}:
            return
        if acknowledged := queues.get(Disposition.acknowledged):
            count = len(acknowledged)
            yield Sentence.acknowledged.format(count=count, queues=self.routed_queues)
        if holders:
            yield join_names(holders)
        yield from (f"{verb} {join_names(queues[key])}" for key, verb in _VERBS if key in queues)

    def _holder_phrase(self, last: Delivery, queue: str) -> str:
        name = last.record.name
        if self.at is None:
            return Sentence.holder_then.format(name=name, queue=queue)
        time = duration_words(max(0, self.at - last.at))
        return Sentence.holder_now.format(name=name, queue=queue, time=time)

    @property
    def is_held(self) -> bool:
        """Tell whether somebody has a copy in hand."""
        newest = map(_newest, self.message.copies)
        return any(delivery and delivery.settlement is Disposition.in_hand for delivery in newest)

    @property
    def handed_over(self) -> int:
        """The number of the queues' copies handed over for certain, directly or as dead letters."""
        copies = self.message.copies
        return sum(bool(copy.deliveries) and not _is_untraced(copy) for copy in copies)


def _is_vague(copy: Copy) -> bool:
    return copy.state == "handed_over" and not copy.deliveries and copy.loss is not None


def _is_untraced(copy: Copy) -> bool:
    """Tell whether a copy's delivery is known from the caller alone."""
    return {delivery.match for delivery in copy.deliveries} == {Match.untraced}


def _newest(copy: Copy) -> Delivery | None:
    """The last delivery from the copy's queue, or else from elsewhere after it died."""
    from_queue = [delivery for delivery in copy.deliveries if delivery.queue == copy.queue]
    return next(reversed(from_queue or copy.deliveries), None)


class HeldCopies(msgspec.Struct, frozen=True, kw_only=True):
    """The copies from one queue that a participant has in hand."""

    vhost: str
    queue: str
    holder: Annotated[Who, "Who was handed them and has not settled them."]
    count: Annotated[int, "How many; without those held for less long, if not all were looked at."]
    oldest: Annotated[int, "The delivery that has been in hand for longest."]
    since: Annotated[Microseconds, "When that was recorded."]
    usual: Annotated[
        Duration | None,
        "Seconds within which 99 of 100 of the queue's deliveries were settled, of the newest "
        "5,000 events; `null` where fewer than 20 of them are known.",
    ] = None
    late: Annotated[bool, "Whether the oldest has been in hand for longer than that, and 1 s."]


class QueueFlow(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a participant that an exchange routed to a queue, or that came from there."""

    participant: Annotated[Who | None, "Who published or took them; `null`: not observed."]
    exchange: Annotated[str, "Through which they came, or a dead letter went."]
    count: int
    dead_letters: Annotated[int, "How many of them came after they had died elsewhere."]
    last: Annotated[Microseconds, "When the newest was handed over, or published and waits."]


class QueueTraffic(msgspec.Struct, frozen=True, kw_only=True):
    """The publishers and receivers of a queue, as its messages were routed, and what waits."""

    vhost: str
    queue: str
    looked_at: Annotated[int, "How many of the virtual host's newest events were looked through."]
    since: Annotated[Microseconds | None, "When the oldest of these was recorded."]
    publishers: Annotated[list[QueueFlow], "Of what was handed over, and of what waits."]
    receivers: list[QueueFlow]
    waiting: Annotated[
        int, "Copies that wait, or wait again as they came back, as far as is known."
    ]
    oldest: Annotated[int | None, "The publish of the one that waits longest."]
    oldest_at: Annotated[Microseconds | None, "When that was published, or came back."]


class CopiesInHand(msgspec.Struct, frozen=True):
    """Copies that consumers hold now, the longest held first, as far as known."""

    counts: Annotated[dict[str, int], INNER]  # by virtual host
    items: Annotated[
        list[HeldCopies], "Of a virtual host at most 500, by its 10,000 copies held for longest."
    ]
    truncated: Annotated[bool, "Whether there are others."]

    @property
    def count(self) -> int:
        """The number of copies held, those of others than `items` too."""
        return sum(self.counts.values())


class HiddenWay(msgspec.Struct, frozen=True, kw_only=True):
    """The links of one rule from one participant to another."""

    rule: str
    giver: Annotated[Who, "Whom the id probably came from."] = msgspec.field(name="from")
    taker: Annotated[Who, "Who published the effects."] = msgspec.field(name="to")
    links: int
    first_at: Microseconds
    last_at: Microseconds
    last_effect: Annotated[int, "The newest publish that came of it."]


class HiddenWays(msgspec.Struct, frozen=True):
    """Hidden ways, those used last first."""

    vhost: str
    links: Annotated[int, "How many links were counted, the newest."]
    truncated: Annotated[bool, "Whether there are older ones."]
    ways: list[HiddenWay]


class TouchedService(msgspec.Struct, frozen=True):
    """A service that did something since: participants of one client's name, else of one user."""

    name: str
    verdict: Annotated[Verdict, "The strongest that any of its events has."]
    participants: int
    first: Annotated[
        int | None, "Its first event that was caused, or else may have been; of who acted, the act."
    ]
    first_at: Annotated[Microseconds | None, "When that was recorded."]


class TouchedQueue(msgspec.Struct, frozen=True):
    """A queue that handed over messages that these certainly led to."""

    name: str
    deliveries: Annotated[int, "How many of those that were caused came from it."]
    first: Annotated[int, "The first of them."]
    first_at: Annotated[Microseconds, "When that was recorded."]


class Touched(NamedTuple):
    """Counts of the events since some: those that they caused, may have influenced, or did not.

    ``items`` are a page of one verdict, by id; ``heavy`` is that of `app.stored.reading.EventList`.
    """

    as_of: Annotated[int, "The newest event that was looked at."]
    since: Annotated[int, "How many events came after the first of them."]
    caused: Annotated[int, "To which messages, links and what the broker did lead."]
    may_have: Annotated[int, "Which happened after one of them, and no more is known."]
    unknown: Annotated[
        int, "Which happened after none of them, and after a delivery whose publish was not seen."
    ]
    caused_truncated: Annotated[
        bool, "More were caused than could be followed; they are among the others."
    ] = False
    services: Annotated[
        Sequence[TouchedService], "Who did something since, what was touched first; at most 1000."
    ] = ()
    queues: Annotated[
        Sequence[TouchedQueue],
        "Those that what was caused was handed over from, by the first; at most 1000.",
    ] = ()
    all_heard_at: Annotated[
        Microseconds | None,
        "From when on all of them may have heard of it, so that nothing can be ruled out by the "
        "clocks; `null` where some never did.",
    ] = None
    items: Annotated[Sequence[Event], INNER] = ()
    next: Annotated[int | None, "Where it is truncated: `after` for more."] = None
    heavy: Annotated[Mapping[int, int], INNER] = {}

    @property
    def cannot_have(self) -> int:
        """Events after none of them: not influenced by any, if the answer is complete and
        sound.
        """
        return self.since - self.caused - self.may_have - self.unknown

    @property
    def truncated(self) -> bool:
        """Tell whether there are more than `items`."""
        return self.next is not None
