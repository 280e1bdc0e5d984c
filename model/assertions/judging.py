"""What an assertion comes to in one conversation, by messages and links alone.

A message leads to all that is published because of its deliveries, directly or not; that is its
future here, and its past is what led to it in the same way. This is the lower bound of DESIGN's
three answers: what is found did happen because of it, while something that names no cause may have
been missed. So `holds` is certain where it rests on something that was found, and `violated` says
that no message or link shows it. Where a part of the conversation was not read, or its time is not
over yet, the answer is `unknown`. What needs clocks is judged elsewhere (`needs_clocks`).
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from model.assertions.assertion import After, Assertion, AtMost, Evidence, LeadsTo, NeverConcurrent
from model.conversations import Conversation, Message, spoken


class Verdict(enum.StrEnum):
    """Whether an assertion holds."""

    holds = "holds"
    violated = "violated"
    unknown = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """What an assertion comes to for one message: for the event, with the ``others`` that show it.

    ``by_absence``: it rests on something not being there.
    """

    verdict: Verdict
    event: int
    sentence: str
    others: tuple[int, ...] = ()
    by_absence: bool = False


def needs_clocks(assertion: Assertion) -> bool:
    """Whether messages and links do not suffice to judge it."""
    what = assertion.what
    return isinstance(what, NeverConcurrent) or (
        isinstance(what, After) and what.evidence is Evidence.may_have
    )


def judge(
    assertion: Assertion,
    conversation: Conversation,
    *,
    through: int,
    has_gap: bool = False,
    open_at: Collection[int] = (),
) -> list[Finding]:
    """What an assertion comes to for each message of a conversation that it speaks of.

    ``through``: all that was recorded before then (µs) has been read. ``has_gap``: some of it may
    not have been recorded, so what is missing proves nothing. ``open_at``: publishes that name a
    cause which was not read, as one that retention has removed.
    """
    if needs_clocks(assertion):
        raise ValueError(f"{assertion.name} is judged by clocks")
    ways = _Ways(conversation, open_at)
    is_whole = not (conversation.truncated or has_gap)
    found = _JUDGES[type(assertion.what)](assertion.what, ways, through)
    return [_weighed(each, is_whole=is_whole) for each in found]


def _weighed(finding: Finding, *, is_whole: bool) -> Finding:
    """What is certain of a finding: what was not read, or recorded, might have shown another."""
    if is_whole or not finding.by_absence or finding.verdict is Verdict.unknown:
        return finding
    said = f"{finding.sentence}, but something may be missing"
    return replace(finding, verdict=Verdict.unknown, sentence=said)


class _Ways:
    """What led to what in a conversation, from message to message."""

    def __init__(self, conversation: Conversation, open_at: Collection[int]) -> None:
        self._open_at = frozenset(open_at)
        self.messages = {each.it.id: each for each in conversation.messages}
        message_of = {each: each for each in self.messages}
        for each in conversation.messages:
            for copy in each.copies:
                for delivery in copy.deliveries:
                    message_of[delivery.it.id] = each.it.id
        self.message_of = message_of
        self._after: defaultdict[int, set[int]] = defaultdict(set)
        self._causes: dict[int, set[int]] = {}
        for each in conversation.messages:
            named = {message_of.get(cause.event, cause.event) for cause in each.causes}
            self._causes[each.it.id] = named & self.messages.keys()
            for cause in self._causes[each.it.id]:
                self._after[cause].add(each.it.id)

    def future(self, message: int) -> list[Message]:
        """The messages that one led to, in order."""
        return self._reached(message, self._after)

    def past(self, message: int) -> list[Message]:
        """The messages that led to one, in order."""
        return self._reached(message, self._causes)

    def is_open(self, message: Message) -> bool:
        """Whether something that was not read led to a message, or may have.

        What led to an unseen publish is not known, nor what a cause is that was not read.
        """
        return (
            message.unseen
            or message.is_elsewhere
            or message.it.id in self._open_at
            or any(cause.event not in self.message_of for cause in message.causes)
        )

    def _reached(self, start: int, steps: Any) -> list[Message]:
        reached: set[int] = set()
        left = [start]
        while left:
            at = left.pop()
            new = steps.get(at, set()) - reached
            reached |= new
            left += new
        reached.discard(start)
        return [self.messages[each] for each in sorted(reached)]


def _judge_leads_to(what: LeadsTo, ways: _Ways, through: int) -> Iterator[Finding]:
    for message in ways.messages.values():
        if message.unseen or not what.every.fits(message.it.message_type):
            continue
        effects = [
            each for each in ways.future(message.it.id) if what.leads_to.fits(each.it.message_type)
        ]
        yield _led(what, message, effects, through)


def _led(what: LeadsTo, message: Message, effects: list[Message], through: int) -> Finding:
    of, event = message.it.message_type, message.it.id
    first = min(effects, key=lambda each: each.it.at, default=None)
    if first is not None:
        took = first.it.at - message.it.at
        if what.within is None or took <= what.within:
            said = f"{of} led to {first.it.message_type} in {spoken(took)}"
            return Finding(Verdict.holds, event, said, (first.it.id,))
        said = f"{of} led to {first.it.message_type} only after {spoken(took)}"
        said = f"{said}, not within {spoken(what.within)}"
        return Finding(Verdict.violated, event, said, (first.it.id,), by_absence=True)
    if what.within is None:
        # It may still come: nothing that was recorded can rule that out.
        said = f"{of} has not led to {what.leads_to} yet, and no time is set in which it should"
        return Finding(Verdict.unknown, event, said, by_absence=True)
    if through <= message.it.at + what.within:  # what comes then is in time
        return Finding(Verdict.unknown, event, f"{of} has not led to {what.leads_to} yet")
    said = f"{of} led to no {what.leads_to} within {spoken(what.within)}"
    return Finding(Verdict.violated, event, said, by_absence=True)


def _judge_after(what: After, ways: _Ways, through: int) -> Iterator[Finding]:
    del through  # a past is complete
    for message in ways.messages.values():
        if not what.every.fits(message.it.message_type):
            continue
        past = ways.past(message.it.id)
        before = [each for each in past if what.after.fits(each.it.message_type)]
        is_open = any(map(ways.is_open, (message, *past)))
        handed = [each.it.id for copy in message.copies for each in copy.deliveries]
        for delivery in handed or ([message.it.id] if message.unseen else []):
            yield _preceded(what, message, delivery, before, is_open=is_open)


def _preceded(
    what: After, message: Message, delivery: int, before: Collection[Message], *, is_open: bool
) -> Finding:
    of = message.it.message_type
    if before:
        shown = min(each.it.id for each in before)
        said = f"this delivery of {of} has {what.after} in its past"
        return Finding(Verdict.holds, delivery, said, (shown,))
    said = f"no message or link leads from {what.after} to this delivery of {of}"
    verdict = Verdict.unknown if is_open else Verdict.violated
    return Finding(verdict, delivery, said, by_absence=True)


def _judge_at_most(what: AtMost, ways: _Ways, through: int) -> Iterator[Finding]:
    del through  # more may come: then it is judged again
    for message in ways.messages.values():
        if message.unseen or not what.no.fits(message.it.message_type):
            continue
        caused = ways.future(message.it.id)
        said = f"{message.it.message_type} caused {len(caused):,} messages"
        if len(caused) > what.causes_more_than:
            last = caused[what.causes_more_than].it.id
            said = f"{said}, more than {what.causes_more_than:,}"
            yield Finding(Verdict.violated, message.it.id, said, (last,))
        else:
            yield Finding(Verdict.holds, message.it.id, said, by_absence=True)


_JUDGES: dict[type, Callable[[Any, _Ways, int], Iterator[Finding]]] = {
    LeadsTo: _judge_leads_to,
    After: _judge_after,
    AtMost: _judge_at_most,
}
