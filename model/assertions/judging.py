"""Judging an assertion in one conversation, by messages and links alone.

A message leads to all that is published because of its deliveries, directly or not; that is its
future here, and its past is what led to it in the same way. This is the lower bound of DESIGN's
three answers: what is found did happen because of it, while something that names no cause may have
been missed. So `holds` is certain where it rests on something that was found, and `violated` says
that no message or link shows it. Where a part of the conversation was not read, or its time is not
over yet, the answer is `unknown`. What needs clocks is judged elsewhere (`needs_clocks`).

What led to a message has a smaller id (`model.slack`), so that a future and a past are summed up in
one pass over the messages: an assertion costs as much as there are messages and causes, however
long the ways between them are.
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
    After,
    Assertion,
    AtMost,
    Basis,
    LeadsTo,
    NeverConcurrent,
    TypePattern,
)
from model.conversations import Conversation, Message, spoken
from model.happened import ConversationEvent
from model.times import CLOCKS_DIFFER
from model.words import Disposition


class AssertionVerdict(enum.StrEnum):
    """The verdict on an assertion."""

    holds = "holds"
    violated = "violated"
    unknown = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """The finding of an assertion for one message: for the event, with the ``others`` that show it.

    ``by_absence``: it rests on something not being there.
    """

    verdict: AssertionVerdict
    event: int
    sentence: str
    others: tuple[int, ...] = ()
    by_absence: bool = False


class WatchedEvent(NamedTuple):
    """An event as it is judged while events come: its id, its time (µs), its message's type.

    ``message`` is the publish of one that was received; None where that was not seen.
    """

    id: int
    at: int
    is_publish: bool
    message_type: str
    message: int | None = None


def needs_clocks(assertion: Assertion) -> bool:
    """Tell whether messages and links do not suffice to judge it."""
    what = assertion.what
    return isinstance(what, NeverConcurrent) or (
        isinstance(what, After) and what.evidence is Basis.may_have
    )


def judge(
    assertion: Assertion, ways: Causation, *, through: int, has_gap: bool = False
) -> list[Finding]:
    """The findings of an assertion for each message of a conversation that it speaks of, in order.

    ``through``: all that was recorded before then (µs) has been read. ``has_gap``: some of it may
    not have been recorded, so what is missing proves nothing.
    """
    if needs_clocks(assertion):
        raise ValueError(f"{assertion.name} is judged by clocks")
    is_whole = not (ways.truncated or has_gap)
    found = _JUDGES[type(assertion.what)](assertion.what, ways, through)
    return [weighed(each, is_whole=is_whole) for each in found]


def weighed(finding: Finding, *, is_whole: bool) -> Finding:
    """The certain part of a finding: what was not read, or recorded, might have shown another."""
    if is_whole or not finding.by_absence or finding.verdict is AssertionVerdict.unknown:
        return finding
    said = f"{finding.sentence}, but something may be missing"
    return replace(finding, verdict=AssertionVerdict.unknown, sentence=said)


class Causation:
    """Causation in a conversation, from message to message; for any number of assertions.

    ``open_at``: publishes that name a cause which was not read, as one that retention has removed.
    """

    def __init__(self, conversation: Conversation, open_at: Collection[int] = ()) -> None:
        self.truncated = conversation.truncated
        self.messages = {each.it.id: each for each in conversation.messages}
        self._open_at = frozenset(open_at)
        self._message_of = {each: each for each in self.messages}
        for each in conversation.messages:
            for copy in each.copies:
                for delivery in copy.deliveries:
                    self._message_of[delivery.it.id] = each.it.id
        self._causes = {each.it.id: self._causes_of(each) for each in conversation.messages}

    def of(self, pattern: TypePattern) -> list[Message]:
        """The messages of a type, in order."""
        found = [some for name, some in self._of_type.items() if pattern.fits(name)]
        return sorted(chain.from_iterable(found), key=lambda each: each.it.id)

    def first_after(self, pattern: TypePattern) -> dict[int, tuple[int, int]]:
        """By message: when (µs) the first message of a type came that it led to, and which it is.

        Those that led to none are left out.
        """
        fitting = {each.it.id for each in self.of(pattern)}
        first: dict[int, tuple[int, int]] = {}
        for event in reversed(self._order):
            found = [first[event]] if event in first else []
            if event in fitting:
                found.append((self.messages[event].it.at, event))
            if found:
                for cause in self._causes[event]:
                    first[cause] = min(*found, first.get(cause, found[0]))
        return first

    def first_before(self, pattern: TypePattern) -> dict[int, int]:
        """By message: the first message of a type that led to it, if any."""
        fitting = {each.it.id for each in self.of(pattern)}
        first: dict[int, int] = {}
        for event in self._order:
            causes = self._causes[event]
            found = [first[each] for each in causes if each in first]
            found += [each for each in causes if each in fitting]
            if found:
                first[event] = min(found)
        return first

    @cached_property
    def open(self) -> frozenset[int]:
        """The messages to which something that was not read led, or may have."""
        found: set[int] = set()
        for event in self._order:
            if self._is_open(self.messages[event]) or not found.isdisjoint(self._causes[event]):
                found.add(event)
        return frozenset(found)

    def count_after(self, message: int) -> int:
        """The number of messages that one led to."""
        return self._futures[message].bit_count()

    def after(self, message: int, number: int) -> int:
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
        """By message what it led to: a bit for each in the order of all.

        No pass counts what is reached on several ways but once. A conversation has some 10,000
        messages at most, so that a set of them takes about a kilobyte.
        """
        futures = dict.fromkeys(self._order, 0)
        for number, event in reversed([*enumerate(self._order)]):
            led = futures[event] | 1 << number
            for cause in self._causes[event]:
                futures[cause] |= led
        return futures

    @cached_property
    def _order(self) -> list[int]:
        return sorted(self.messages)

    @cached_property
    def _of_type(self) -> dict[str, list[Message]]:
        found: defaultdict[str, list[Message]] = defaultdict(list)
        for each in self.messages.values():
            found[each.it.message_type].append(each)
        return found

    def _causes_of(self, message: Message) -> list[int]:
        named = {self._message_of.get(cause.event) for cause in message.led_by}
        return [each for each in named if each is not None and each < message.it.id]

    def _is_open(self, message: Message) -> bool:
        """Tell whether something unknown led to it: an unseen publish, or a cause not read."""
        return (
            message.unseen
            or message.elsewhere is not None
            or message.it.id in self._open_at
            or any(cause.event not in self._message_of for cause in message.led_by)
        )


def _judge_leads_to(what: LeadsTo, ways: Causation, through: int) -> Iterator[Finding]:
    first = ways.first_after(what.leads_to)
    for message in ways.of(what.every):
        if not message.unseen:
            found = first.get(message.it.id)
            effect = None if found is None else ways.messages[found[1]].it
            yield led(what, message.it, effect, through)


def led(
    what: LeadsTo,
    publish: ConversationEvent | WatchedEvent,
    first: ConversationEvent | WatchedEvent | None,
    through: int,
) -> Finding:
    """The finding for a publish, by the ``first`` of those that it should lead to."""
    of, event = publish.message_type, publish.id
    if first is not None:
        took = first.at - publish.at
        if what.within is None or took <= what.within:
            said = f"{of} led to {first.message_type} in {spoken(took)}"
            return Finding(AssertionVerdict.holds, event, said, (first.id,))
        said = f"{of} led to {first.message_type} only after {spoken(took)}"
        said = f"{said}, not within {spoken(what.within)}"
        return Finding(AssertionVerdict.violated, event, said, (first.id,), by_absence=True)
    if what.within is None:
        # It may still come: nothing that was recorded can rule that out.
        said = f"{of} has not led to {what.leads_to} yet, and no time is set in which it should"
        return Finding(AssertionVerdict.unknown, event, said, by_absence=True)
    if through <= publish.at + what.within:  # what comes then is in time
        return Finding(AssertionVerdict.unknown, event, f"{of} has not led to {what.leads_to} yet")
    said = f"{of} led to no {what.leads_to} within {spoken(what.within)}"
    return Finding(AssertionVerdict.violated, event, said, by_absence=True)


def _judge_after(what: After, ways: Causation, through: int) -> Iterator[Finding]:
    del through  # a past is complete
    first = ways.first_before(what.after)
    for message in ways.of(what.every):
        before, is_open = first.get(message.it.id), message.it.id in ways.open
        handed = [each.it.id for copy in message.copies for each in copy.deliveries]
        for delivery in handed or ([message.it.id] if message.unseen else []):
            of = message.it.message_type
            yield preceded(what, of, delivery, before, is_open=is_open)


def preceded(what: After, of: str, delivery: int, before: int | None, *, is_open: bool) -> Finding:
    """The finding for a delivery of a message of a type, by the event ``before`` it, if any."""
    if before is not None:
        said = f"this delivery of {of} has {what.after} in its past"
        return Finding(AssertionVerdict.holds, delivery, said, (before,))
    said = f"no message or link leads from {what.after} to this delivery of {of}"
    verdict = AssertionVerdict.unknown if is_open else AssertionVerdict.violated
    return Finding(verdict, delivery, said, by_absence=True)


def _judge_at_most(what: AtMost, ways: Causation, through: int) -> Iterator[Finding]:
    del through  # more may come: then it is judged again
    most = what.causes_more_than
    for message in ways.of(what.no):
        if message.unseen:
            continue
        event = message.it.id
        count = ways.count_after(event)
        said = f"{message.it.message_type} caused {count:,} messages"
        if count > most:
            said = f"{said}, more than {most:,}"
            yield Finding(AssertionVerdict.violated, event, said, (ways.after(event, most),))
        else:
            yield Finding(AssertionVerdict.holds, event, said, by_absence=True)


def _judge_acknowledged(what: Acknowledged, ways: Causation, through: int) -> Iterator[Finding]:
    for message in ways.of(what.every):
        if message.unseen:
            continue
        verdict, said = settled(what, message, through)
        by_absence = verdict is AssertionVerdict.violated
        said = f"{message.it.message_type} {said}"
        yield Finding(verdict, message.it.id, said, by_absence=by_absence)


def settled(what: Acknowledged, message: Message, through: int) -> tuple[AssertionVerdict, str]:
    """Judge whether a message was acknowledged in time, and say so behind its type.

    ``through``: all that was recorded before then (µs) is known.
    """
    at = message.it.at
    copies = {
        copy.queue: [
            CopySettlement(each.queue, each.it.settlement, each.it.settled_at, each.it.name)
            for each in copy.deliveries
        ]
        for copy in message.copies
    }
    verdict, why = acknowledged(copies, message.it.routed_queues, at, at + what.within)
    if verdict is AssertionVerdict.holds:
        return verdict, f"was acknowledged within {spoken(what.within)}"
    if verdict is AssertionVerdict.violated and through <= at + what.within:
        return AssertionVerdict.unknown, f"is not acknowledged yet: {why}"
    return verdict, f"was not acknowledged within {spoken(what.within)}: {why}"


class CopySettlement(NamedTuple):
    """What became of a delivery from a queue, when (µs), and to whom it was handed."""

    queue: str | None
    settlement: Disposition | None
    at: int | None
    holder: str


def acknowledged(
    copies: Mapping[str, Sequence[CopySettlement]], routed: Collection[str], since: int, due: int
) -> tuple[AssertionVerdict, str]:
    """Judge whether a message that came at ``since`` was acknowledged until ``due`` (µs).

    ``copies`` are the deliveries of each queue's copy, dead letters too, which count where none is
    from the queue itself. Of a queue that it was not ``routed`` to they are of nobody knows which
    copy. Also returns why not.
    """
    if not copies:
        return AssertionVerdict.violated, "it reached no queue"
    found = (_acknowledged(queue, its, since, due) for queue, its in copies.items())
    verdict, why = min(found, key=lambda each: _WORST_FIRST.index(each[0]))
    if verdict is AssertionVerdict.violated and not copies.keys() <= {*routed}:
        return AssertionVerdict.unknown, why
    return verdict, why


def _acknowledged(
    queue: str, deliveries: Sequence[CopySettlement], since: int, due: int
) -> tuple[AssertionVerdict, str]:
    if not deliveries:
        return AssertionVerdict.violated, f"nobody was handed it from {queue}"
    deliveries = [each for each in deliveries if each.queue == queue] or deliveries
    last = deliveries[-1]
    times = [each.at for each in deliveries if each.settlement in _ACKNOWLEDGED and each.at]
    # Settlements have the time of the broker's clock, messages that at which they reached us: a
    # trace that lags may have a message come after it was settled.
    if not times and any(each.settlement is None for each in deliveries):
        return AssertionVerdict.unknown, f"what became of it from {queue} is not known"
    if times and since - CLOCKS_DIFFER <= min(times) <= due:
        return AssertionVerdict.holds, ""
    if times and (min(times) <= due + CLOCKS_DIFFER):
        return AssertionVerdict.unknown, f"how long it took from {queue} is not known"
    if times:
        late = spoken(min(times) - since)
        return AssertionVerdict.violated, f"acknowledged from {queue} only after {late}"
    return AssertionVerdict.violated, f"{_DONE[last.settlement].format(last.holder)} from {queue}"


_WORST_FIRST = (AssertionVerdict.violated, AssertionVerdict.unknown, AssertionVerdict.holds)
_ACKNOWLEDGED = (Disposition.acknowledged, Disposition.auto)
_DONE: Mapping[Disposition | None, str] = {
    Disposition.in_hand: "{} has it in hand",
    Disposition.rejected: "{} rejected it",
    Disposition.returned: "{} gave it back",
}

_JUDGES: dict[type, Callable[[Any, Causation, int], Iterator[Finding]]] = {
    LeadsTo: _judge_leads_to,
    After: _judge_after,
    AtMost: _judge_at_most,
    Acknowledged: _judge_acknowledged,
}
