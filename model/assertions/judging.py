"""Judging an assertion in one conversation, by messages and links alone.

A message leads to all that is published because of its deliveries, directly or not: its future; its
past is what led to it in the same way. That is a lower bound: an event that names no cause may be
missing from both. So `holds` is certain where it rests on an event, and `violated` says that no
message or link shows otherwise. Where a part of the conversation was not read, or its time is not
over yet, the verdict is `unknown`. Assertions that need clocks are judged by
`spark_jobs` (`needs_clocks`).

A cause has a smaller id than its effect (`model.slack`), so one pass over the messages sums up all
futures or pasts: the cost is the number of messages and causes, however long the paths.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from model.assertions.assertion import (
    Acknowledged,
    Assertion,
    AtMost,
    Basis,
    LeadsTo,
    NeverConcurrent,
    Precedence,
    TypePattern,
)
from model.conversations.conversation import Conversation
from model.conversations.messages import Message
from model.conversations.sentences import duration_words
from model.happened import ConversationEvent
from model.times import CLOCKS_DIFFER
from model.words import Disposition


class AssertionVerdict(enum.StrEnum):
    """The verdict on an assertion."""

    holds = "holds"
    violated = "violated"
    unknown = "unknown"


@dataclass(frozen=True, slots=True)
class Judgement:
    """An assertion's verdict on one message, by its event, with the ``witnesses`` that show it.

    ``by_absence``: it rests on something that is not there.
    """

    verdict: AssertionVerdict
    event: int
    sentence: str
    witnesses: tuple[int, ...] = ()
    by_absence: bool = False


class WatchedEvent(NamedTuple):
    """An event judged as it comes, with its time (µs) and its message's type.

    ``message`` is the publish of a delivery; None where that was not seen. Thousands wait at once:
    an `Event` is made in 1.3 times the time, and takes 296 bytes, not 80.
    """

    id: int
    recorded_at: int
    is_publish: bool
    message_type: str
    message: int | None = None


def needs_clocks(assertion: Assertion) -> bool:
    """Tell whether messages and links do not suffice to judge an assertion."""
    condition = assertion.requirement
    return isinstance(condition, NeverConcurrent) or (
        isinstance(condition, Precedence) and condition.evidence is Basis.may_have
    )


def judge(
    assertion: Assertion, ways: Causation, *, read_until: int, has_gap: bool = False
) -> list[Judgement]:
    """The findings of an assertion for a conversation's messages that it speaks of, in order.

    ``read_until``: all that was recorded before then (µs) has been read. ``has_gap``: some of it
    may not have been recorded, so absence proves nothing.
    """
    if needs_clocks(assertion):
        raise ValueError(f"{assertion.name} is judged by clocks")
    is_whole = not (ways.truncated or has_gap)
    verdicts = _JUDGES[type(assertion.requirement)](assertion.requirement, ways, read_until)
    return [hedge(verdict, is_whole=is_whole) for verdict in verdicts]


def hedge(judgement: Judgement, *, is_whole: bool) -> Judgement:
    """The finding, or `unknown` where an event that was not read or recorded could change it."""
    if is_whole or not judgement.by_absence or judgement.verdict is AssertionVerdict.unknown:
        return judgement
    sentence = f"{judgement.sentence}, but something may be missing"
    return replace(judgement, verdict=AssertionVerdict.unknown, sentence=sentence)


class Causation:
    """Causation from message to message in a conversation, for any number of assertions.

    ``open_at``: publishes that name a cause which was not read, such as one that retention removed.
    """

    def __init__(self, conversation: Conversation, open_at: Collection[int] = ()) -> None:
        self.truncated = conversation.truncated
        self.messages = {message.record.id: message for message in conversation.messages}
        self._open_at = frozenset(open_at)
        self._message_of = {event: event for event in self.messages}
        for message in conversation.messages:
            for copy in message.copies:
                for delivery in copy.deliveries:
                    self._message_of[delivery.record.id] = message.record.id
        self._causes = {
            message.record.id: self._causes_of(message) for message in conversation.messages
        }

    def messages_of(self, pattern: TypePattern) -> list[Message]:
        """The messages of a type, in order."""
        groups = [messages for name, messages in self._of_type.items() if pattern.fits(name)]
        return sorted(chain.from_iterable(groups), key=lambda message: message.record.id)

    def first_after(self, pattern: TypePattern) -> dict[int, tuple[int, int]]:
        """By message, the first message of a type that it led to: its time (µs) and its id."""
        fitting = {message.record.id for message in self.messages_of(pattern)}
        first: dict[int, tuple[int, int]] = {}
        for event in reversed(self._order):
            candidates = [first[event]] if event in first else []
            if event in fitting:
                candidates.append((self.messages[event].record.recorded_at, event))
            if candidates:
                for cause in self._causes[event]:
                    first[cause] = min(*candidates, first.get(cause, candidates[0]))
        return first

    def first_before(self, pattern: TypePattern) -> dict[int, int]:
        """By message, the first message of a type that led to it."""
        fitting = {message.record.id for message in self.messages_of(pattern)}
        first: dict[int, int] = {}
        for event in self._order:
            causes = self._causes[event]
            candidates = [first[cause] for cause in causes if cause in first]
            candidates += [cause for cause in causes if cause in fitting]
            if candidates:
                first[event] = min(candidates)
        return first

    @cached_property
    def open(self) -> frozenset[int]:
        """The messages with an unknown event in their past."""
        messages: set[int] = set()
        for event in self._order:
            if self._is_open(self.messages[event]) or not messages.isdisjoint(self._causes[event]):
                messages.add(event)
        return frozenset(messages)

    def count_after(self, message: int) -> int:
        """The number of messages that one led to."""
        return self._futures[message].bit_count()

    def effect(self, message: int, number: int) -> int:
        """One of the messages that one led to, by its number in their order, from 0."""
        bits, place = self._futures[message], 0
        width = len(self._order)
        while width > 1:
            half = width // 2
            low = bits & ((1 << half) - 1)
            if (count := low.bit_count()) > number:
                bits, width = low, half
            else:
                bits, place, width, number = (
                    bits >> half,
                    place + half,
                    width - half,
                    number - count,
                )
        return self._order[place]

    @cached_property
    def _futures(self) -> dict[int, int]:
        """By message, its future: a bit for each message in the order of all.

        A set counts once a message that several paths reach. A conversation has some 10,000
        messages at most, so a set takes about a kilobyte.
        """
        futures = dict.fromkeys(self._order, 0)
        for number, event in reversed([*enumerate(self._order)]):
            future = futures[event] | 1 << number
            for cause in self._causes[event]:
                futures[cause] |= future
        return futures

    @cached_property
    def _order(self) -> list[int]:
        return sorted(self.messages)

    @cached_property
    def _of_type(self) -> dict[str, list[Message]]:
        by_type: defaultdict[str, list[Message]] = defaultdict(list)
        for message in self.messages.values():
            by_type[message.record.message_type].append(message)
        return by_type

    def _causes_of(self, message: Message) -> list[int]:
        causes = {self._message_of.get(cause.event) for cause in message.led_by}
        return [cause for cause in causes if cause is not None and cause < message.record.id]

    def _is_open(self, message: Message) -> bool:
        return (
            message.unseen
            or message.outer_cause is not None
            or message.record.id in self._open_at
            or any(cause.event not in self._message_of for cause in message.led_by)
        )


def _judge_leads_to(requirement: LeadsTo, ways: Causation, read_until: int) -> Iterator[Judgement]:
    first = ways.first_after(requirement.leads_to)
    for message in ways.messages_of(requirement.subject):
        if not message.unseen:
            effect_time = first.get(message.record.id)
            effect = None if effect_time is None else ways.messages[effect_time[1]].record
            yield judge_effect(requirement, message.record, effect, read_until)


def judge_effect(
    requirement: LeadsTo,
    publish: ConversationEvent | WatchedEvent,
    first: ConversationEvent | WatchedEvent | None,
    read_until: int,
) -> Judgement:
    """The finding for a publish, by the ``first`` of its effects of the type, if any."""
    cause, event = publish.message_type, publish.id
    if first is not None:
        took = first.recorded_at - publish.recorded_at
        if requirement.limit is None or took <= requirement.limit:
            sentence = f"{cause} led to {first.message_type} in {duration_words(took)}"
            return Judgement(AssertionVerdict.holds, event, sentence, (first.id,))
        sentence = f"{cause} led to {first.message_type} only after {duration_words(took)}"
        sentence = f"{sentence}, not within {duration_words(requirement.limit)}"
        return Judgement(AssertionVerdict.violated, event, sentence, (first.id,), by_absence=True)
    if requirement.limit is None:
        # It may still come.
        sentence = f"{cause} has not led to {requirement.leads_to} yet, and no time is set in"
        sentence += " which it should"
        return Judgement(AssertionVerdict.unknown, event, sentence, by_absence=True)
    if read_until <= publish.recorded_at + requirement.limit:  # an effect then is in time
        return Judgement(
            AssertionVerdict.unknown, event, f"{cause} has not led to {requirement.leads_to} yet"
        )
    sentence = (
        f"{cause} led to no {requirement.leads_to} within {duration_words(requirement.limit)}"
    )
    return Judgement(AssertionVerdict.violated, event, sentence, by_absence=True)


def _judge_after(requirement: Precedence, ways: Causation, read_until: int) -> Iterator[Judgement]:
    del read_until  # a past is complete
    first = ways.first_before(requirement.precursor)
    for message in ways.messages_of(requirement.subject):
        earlier, is_open = first.get(message.record.id), message.record.id in ways.open
        handed = [delivery.record.id for copy in message.copies for delivery in copy.deliveries]
        for delivery in handed or ([message.record.id] if message.unseen else []):
            message_type = message.record.message_type
            yield judge_precedence(requirement, message_type, delivery, earlier, is_open=is_open)


def judge_precedence(
    requirement: Precedence, message_type: str, delivery: int, earlier: int | None, *, is_open: bool
) -> Judgement:
    """The finding for a delivery of a message of a type, by the event ``earlier`` it, if any."""
    if earlier is not None:
        sentence = f"this delivery of {message_type} has {requirement.precursor} in its past"
        return Judgement(AssertionVerdict.holds, delivery, sentence, (earlier,))
    sentence = (
        f"no message or link leads from {requirement.precursor} to this delivery of {message_type}"
    )
    verdict = AssertionVerdict.unknown if is_open else AssertionVerdict.violated
    return Judgement(verdict, delivery, sentence, by_absence=True)


def _judge_at_most(requirement: AtMost, ways: Causation, read_until: int) -> Iterator[Judgement]:
    del read_until  # more may come: then it is judged again
    limit = requirement.causes_more_than
    for message in ways.messages_of(requirement.subject):
        if message.unseen:
            continue
        event = message.record.id
        count = ways.count_after(event)
        sentence = f"{message.record.message_type} caused {count:,} messages"
        if count > limit:
            sentence = f"{sentence}, more than {limit:,}"
            yield Judgement(
                AssertionVerdict.violated, event, sentence, (ways.effect(event, limit),)
            )
        else:
            yield Judgement(AssertionVerdict.holds, event, sentence, by_absence=True)


def _judge_acknowledged(
    requirement: Acknowledged, ways: Causation, read_until: int
) -> Iterator[Judgement]:
    for message in ways.messages_of(requirement.subject):
        if message.unseen:
            continue
        verdict, sentence = judge_settlement(requirement, message, read_until)
        by_absence = verdict is AssertionVerdict.violated
        sentence = f"{message.record.message_type} {sentence}"
        yield Judgement(verdict, message.record.id, sentence, by_absence=by_absence)


def judge_settlement(
    requirement: Acknowledged, message: Message, read_until: int
) -> tuple[AssertionVerdict, str]:
    """The verdict on whether a message was acknowledged in time, and the sentence behind its type.

    ``read_until``: all that was recorded before then (µs) is known.
    """
    published_at = message.record.recorded_at
    copies = {
        copy.queue: [
            CopySettlement(
                delivery.queue,
                delivery.record.settlement,
                delivery.record.settled_at,
                delivery.record.name,
            )
            for delivery in copy.deliveries
        ]
        for copy in message.copies
    }
    verdict, reason = judge_copies(
        copies, message.record.routed_queues, published_at, published_at + requirement.limit
    )
    if verdict is AssertionVerdict.holds:
        return verdict, f"was acknowledged within {duration_words(requirement.limit)}"
    if verdict is AssertionVerdict.violated and read_until <= published_at + requirement.limit:
        return AssertionVerdict.unknown, f"is not acknowledged yet: {reason}"
    return verdict, f"was not acknowledged within {duration_words(requirement.limit)}: {reason}"


class CopySettlement(NamedTuple):
    """The settlement of a delivery from a queue, its time (µs), and the consumer."""

    queue: str | None
    settlement: Disposition | None
    settled_at: int | None
    holder: str


def judge_copies(
    copies: Mapping[str, Sequence[CopySettlement]],
    routed: Collection[str],
    published_at: int,
    due: int,
) -> tuple[AssertionVerdict, str]:
    """The verdict on whether a message was acknowledged until ``due`` (µs), and the reason if not.

    ``copies`` are the deliveries of each queue's copy; dead letters count where none is from the
    queue itself. Deliveries from a queue outside ``routed`` may be of any copy.
    """
    if not copies:
        return AssertionVerdict.violated, "it reached no queue"
    verdicts = (
        _judge_copy(queue, deliveries, published_at, due) for queue, deliveries in copies.items()
    )
    verdict, reason = min(verdicts, key=lambda pair: _WORST_FIRST.index(pair[0]))
    if verdict is AssertionVerdict.violated and not copies.keys() <= {*routed}:
        return AssertionVerdict.unknown, reason
    return verdict, reason


def _judge_copy(
    queue: str, deliveries: Sequence[CopySettlement], published_at: int, due: int
) -> tuple[AssertionVerdict, str]:
    if not deliveries:
        return AssertionVerdict.violated, f"nobody was handed it from {queue}"
    deliveries = [delivery for delivery in deliveries if delivery.queue == queue] or deliveries
    last = deliveries[-1]
    times = [
        delivery.settled_at
        for delivery in deliveries
        if delivery.settlement in _ACKNOWLEDGED and delivery.settled_at
    ]
    # Settlements have the broker's time, messages that of their arrival: where the trace lags, a
    # message may come after its settlement.
    if not times and any(delivery.settlement is None for delivery in deliveries):
        return AssertionVerdict.unknown, f"what became of it from {queue} is not known"
    if times and published_at - CLOCKS_DIFFER <= min(times) <= due:
        return AssertionVerdict.holds, ""
    if times and (min(times) <= due + CLOCKS_DIFFER):
        return AssertionVerdict.unknown, f"how long it took from {queue} is not known"
    if times:
        late = duration_words(min(times) - published_at)
        return AssertionVerdict.violated, f"acknowledged from {queue} only after {late}"
    return (
        AssertionVerdict.violated,
        f"{_SETTLEMENT_WORDS[last.settlement].format(last.holder)} from {queue}",
    )


_WORST_FIRST = (AssertionVerdict.violated, AssertionVerdict.unknown, AssertionVerdict.holds)
_ACKNOWLEDGED = (Disposition.acknowledged, Disposition.auto)
_SETTLEMENT_WORDS: Mapping[Disposition | None, str] = {
    Disposition.in_hand: "{} has it in hand",
    Disposition.rejected: "{} rejected it",
    Disposition.returned: "{} gave it back",
    Disposition.channel_closed: "{} lost its channel with it in hand,",
}

_JUDGES: dict[type, Callable[[Any, Causation, int], Iterator[Judgement]]] = {
    LeadsTo: _judge_leads_to,
    Precedence: _judge_after,
    AtMost: _judge_at_most,
    Acknowledged: _judge_acknowledged,
}
