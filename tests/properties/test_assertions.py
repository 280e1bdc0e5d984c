"""What an assertion comes to in one conversation, against a judge that tries every way."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from app.assertion_files import parse
from model.assertions.assertion import (
    After,
    Assertion,
    AtMost,
    Basis,
    LeadsTo,
    NeverConcurrent,
    TypePattern,
)
from model.assertions.judging import AssertionVerdict, Causation, judge
from model.assertions.language import from_json, to_json, to_yaml
from model.conversations import Conversation, conversation_of
from model.happened import Cause, ConversationEvent
from model.words import EventType, Match

NAMES = ("order", "approve", "ship")
SECOND = 1_000_000


@dataclass(frozen=True)
class Told:
    """Messages, each with the ids of its deliveries, and of the deliveries that it names."""

    types: tuple[str, ...]
    publishes: tuple[int, ...]
    deliveries: tuple[tuple[int, ...], ...]
    named: tuple[tuple[int, ...], ...]
    times: dict[int, int]

    def leads(self, a: int, b: int) -> bool:
        """Whether some way of messages leads from one to another: each next names the one before.

        Tries every subset of the messages between the two as a way.
        """
        between = range(a + 1, b)
        for chosen in range(2 ** len(between)):
            way = [a, *(each for bit, each in enumerate(between) if chosen >> bit & 1), b]
            if all(set(self.named[y]) & set(self.deliveries[x]) for x, y in pairwise(way)):
                return True
        return False


@st.composite
def told(draw: st.DrawFn) -> Told:
    """A few messages, of which each but the first names one or two deliveries before it."""
    ids = iter(range(1, 100))
    times: dict[int, int] = {}
    publishes: list[int] = []
    deliveries: list[tuple[int, ...]] = []
    named: list[tuple[int, ...]] = []
    at = 0

    def event() -> int:
        nonlocal at
        at += draw(st.integers(1, 10)) * SECOND
        times[new := next(ids)] = at
        return new

    types = tuple(draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6)))
    for _ in types:
        earlier = [each for some in deliveries for each in some]
        some = st.lists(st.sampled_from(earlier), min_size=1, max_size=2, unique=True)
        named.append(tuple(draw(some)) if earlier else ())
        publishes.append(event())
        least = 0 if earlier else 1
        deliveries.append(tuple(event() for _ in range(draw(st.integers(least, 2)))))
    return Told(types, tuple(publishes), tuple(deliveries), tuple(named), times)


def conversation(said: Told, *, truncated: bool = False) -> Conversation:
    events = []
    for name, publish, handed in zip(said.types, said.publishes, said.deliveries, strict=True):
        events.append(happened(publish, said.times[publish], name, None))
        events += [happened(each, said.times[each], name, publish) for each in handed]
    causes = {
        publish: [Cause(each, "own", "parent") for each in named]
        for publish, named in zip(said.publishes, said.named, strict=True)
        if named
    }
    return conversation_of(events[0], events, causes, truncated=truncated)


def happened(event: int, at: int, message_type: str, cause: int | None) -> ConversationEvent:
    is_publish = cause is None
    return ConversationEvent(
        id=event,
        type=EventType.published if is_publish else EventType.received,
        match=Match.none if is_publish else Match.routed,
        cause=cause,
        participant=1,
        name="shop",
        at=at,
        exchange="",
        routing_keys=("q",),
        queue=None if is_publish else "q",
        routed_queues=("q",) if is_publish else (),
        redelivered=False,
        message_type=message_type,
    )


def expected(
    what: LeadsTo | After | AtMost, said: Told, through: int
) -> dict[int, AssertionVerdict]:
    """The verdict for each event that is spoken of, from the definition."""
    found: dict[int, AssertionVerdict] = {}
    numbers = range(len(said.types))
    of = what.no if isinstance(what, AtMost) else what.every
    for a in (each for each in numbers if of.fits(said.types[each])):
        publish = said.publishes[a]
        after = [b for b in numbers if b > a and said.leads(a, b)]
        if isinstance(what, AtMost):
            found[publish] = verdict(len(after) <= what.causes_more_than)
        elif isinstance(what, After):
            before = [b for b in numbers if b < a and said.leads(b, a)]
            holds = any(what.after.fits(said.types[b]) for b in before)
            found |= dict.fromkeys(said.deliveries[a], verdict(holds))
        else:
            times = [
                said.times[said.publishes[b]] for b in after if what.leads_to.fits(said.types[b])
            ]
            end = None if what.within is None else said.times[publish] + what.within
            holds = any(end is None or each <= end for each in times)
            is_over = end is not None and through > end
            found[publish] = verdict(holds) if holds or is_over else AssertionVerdict.unknown
    return found


def verdict(holds: bool) -> AssertionVerdict:
    return AssertionVerdict.holds if holds else AssertionVerdict.violated


patterns = st.sampled_from((*NAMES, "*", "*r*", "none")).map(TypePattern)
times = st.none() | st.integers(1, 30).map(lambda seconds: seconds * SECOND)
by_links = st.one_of(
    st.builds(LeadsTo, patterns, patterns, times),
    st.builds(After, patterns, patterns),
    st.builds(AtMost, patterns, st.integers(0, 4)),
)
by_clocks = st.one_of(
    st.builds(After, patterns, patterns, st.just(Basis.may_have)),
    st.builds(
        NeverConcurrent, st.tuples(patterns, patterns), st.sampled_from(("conversation", "body.a"))
    ),
)


@given(told(), by_links, st.integers(0, 60))
def test_each_message_is_judged_as_the_definition_says(
    said: Told, what: LeadsTo | After | AtMost, later: int
) -> None:
    through = max(said.times.values()) + later * SECOND
    found = judge(Assertion("a", what), Causation(conversation(said)), through=through)
    assert {each.event: each.verdict for each in found} == expected(what, said, through)
    assert len({each.event for each in found}) == len(found)


@given(told(), by_links, st.data())
def test_what_is_lost_makes_no_answer_false(
    said: Told, what: LeadsTo | After | AtMost, data: st.DataObject
) -> None:
    """With the last messages lost, said to be so, an answer is that of all of them, or unknown."""
    through = max(said.times.values())
    whole = expected(what, said, through)
    kept = data.draw(st.integers(1, len(said.types)))
    part = Told(
        said.types[:kept],
        said.publishes[:kept],
        said.deliveries[:kept],
        said.named[:kept],
        said.times,
    )
    for found in (
        judge(Assertion("a", what), Causation(conversation(part, truncated=True)), through=through),
        judge(Assertion("a", what), Causation(conversation(part)), through=through, has_gap=True),
    ):
        for each in found:
            assert each.verdict in (whole[each.event], AssertionVerdict.unknown)


THREE = Told(
    ("order", "ship", "approve"),
    (1, 3, 5),
    ((2,), (4,), (6,)),
    ((), (2,), (4,)),
    {each: each * SECOND for each in range(1, 7)},
)


@given(told(), st.builds(After, patterns, patterns), st.integers(0, 5))
@example(THREE, After(TypePattern("approve"), TypePattern("order")), 1)
def test_a_lost_publish_leaves_its_past_open(said: Told, what: After, lost: int) -> None:
    """Where a publish is not stored, what led to it is not known: nor of what it led to."""
    if lost >= len(said.types) or not said.deliveries[lost]:
        return
    whole = expected(what, said, 0)
    full = conversation(said)
    events = [each.it for each in full.messages]
    events += [each.it for one in full.messages for copy in one.copies for each in copy.deliveries]
    gone = said.publishes[lost]
    left = sorted((each for each in events if each.id != gone), key=lambda each: each.id)
    causes = {
        each.it.id: each.led_by for each in full.messages if each.it.id != gone and each.led_by
    }
    seen = conversation_of(left[0], left, causes)
    for each in judge(Assertion("a", what), Causation(seen), through=0):
        if each.event in whole:
            assert each.verdict in (whole[each.event], AssertionVerdict.unknown)


@given(st.one_of(by_links, by_clocks))
def test_what_is_written_is_read_again(what: LeadsTo | After | AtMost | NeverConcurrent) -> None:
    assertion = Assertion("a", what)
    assert from_json(to_json(assertion)) == assertion
    assert parse(to_yaml([assertion])) == [assertion]
