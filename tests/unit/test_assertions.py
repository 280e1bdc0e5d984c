"""The language of assertions, and what each comes to, held against a judge that tries all ways."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app import assertion_files
from app.assertion_files import MOST_VALUES, parse
from model.assertions import judging
from model.assertions.assertion import (
    Acknowledged,
    Assertion,
    AtMost,
    Basis,
    InvalidAssertionError,
    LeadsTo,
    NeverConcurrent,
    Precedence,
    Requirement,
    TypePattern,
)
from model.assertions.judging import AssertionVerdict, Causation, judge
from model.assertions.language import MOST_ASSERTIONS, from_json, to_json, yaml_item
from model.conversations.assembly import conversation_of
from model.conversations.conversation import Conversation
from model.happened import Cause, ConversationEvent
from model.words import EventType, Match

FILE = """\
assertions:
  - name: invoice-in-time
    every: order.new            # message type
    leads_to: invoice
    within: 30s
  - name: ship-approved
    every: ship
    after: approve
    evidence: may_have
  - name: no-refund-race
    never_concurrent: [refund, capture]
    per: body.order
  - {name: no-storm, no: "*", causes_more_than: 100}
  - {name: handled, every: order.new, acknowledged_within: 2min}
"""
ORDER, INVOICE, SHIP, APPROVE = map(TypePattern, ("order.new", "invoice", "ship", "approve"))
SECOND = 1_000_000
ODD = ("order: new", "yes", "#1", "a'b\"c", "12", "1.0", "- x", "é\u2028", "*", "Null")


def in_a_file(assertions: Iterable[Assertion]) -> str:
    return "assertions:\n" + "".join(map(yaml_item, assertions))


def test_a_file_is_read_and_written_again() -> None:
    read = parse(FILE)
    assert read == [
        Assertion("invoice-in-time", LeadsTo(ORDER, INVOICE, 30 * SECOND)),
        Assertion("ship-approved", Precedence(SHIP, APPROVE, Basis.may_have)),
        Assertion(
            "no-refund-race",
            NeverConcurrent((TypePattern("refund"), TypePattern("capture")), "body.order"),
        ),
        Assertion("no-storm", AtMost(TypePattern("*"), 100)),
        Assertion("handled", Acknowledged(ORDER, 120 * SECOND)),
    ]
    assert parse(in_a_file(read)) == read
    assert [from_json(to_json(each)) for each in read] == read
    odd = [Assertion("a", Precedence(TypePattern(name), ORDER)) for name in ODD]
    for one in odd:
        assert parse(in_a_file([one])) == [one]
    assert to_json(read[0]) == {
        "name": "invoice-in-time",
        "every": "order.new",
        "leads_to": "invoice",
        "within": "30s",
    }


def test_a_file_may_be_the_list_alone_and_names_are_texts() -> None:
    [read] = parse("[{name: a, every: yes, leads_to: 2026-01-01}]")
    assert read.requirement == LeadsTo(TypePattern("yes"), TypePattern("2026-01-01"))


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [("500ms", 500_000), ("1.5 s", 1_500_000), ("5min", 300 * SECOND), ("2h", 7_200 * SECOND)],
)
def test_times(text: str, microseconds: int) -> None:
    [read] = parse(f"- {{name: a, every: b, leads_to: c, within: {text}}}")
    assert isinstance(read.requirement, LeadsTo)
    assert read.requirement.limit == microseconds
    assert from_json(to_json(read)) == read


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1, column 1: there are no assertions in it"),
        ("assertions: []", "line 1, column 13: there are no assertions in it"),
        ("a: [", "line 2, column 1: this is not YAML"),
        ("just text", "line 1, column 1: expected a list of assertions"),
        ("asserts: []", "line 1, column 1: expected `assertions:`, not `asserts`"),
        ("assertions: []\nassertions: []", "line 2, column 1: `assertions` stands there twice"),
        ("- text", "line 1, column 3: expected an assertion"),
        ("- [a, b]", "line 1, column 3: expected an assertion"),
        ("- name: a", "line 1, column 3: expected one of leads_to, after"),
        ("- {name: a, every: b, leads_to: c, after: d}", "not several"),
        ("- name: a\n  leads_to: c", "line 1, column 3: `every` is missing"),
        ("- every: a\n  leads_to: c", "line 1, column 3: `name` is missing"),
        ("- {name: a, every: b, leads_to: c, evry: d}", "column 36: `evry` is not known here"),
        ("- name: a\n  name: b\n  no: c", "line 2, column 3: `name` stands there twice"),
        ("- {name: ' ', every: b, leads_to: c}", "line 1, column 10: a name has 1 to 100 letters"),
        ("- {name: a, every: [b], leads_to: c}", "line 1, column 20: expected a message type"),
        ("- {name: a, every: '', leads_to: c}", "column 20: expected a message type"),
        ("- {name: a, every: b, leads_to: c, within: soon}", "expected a time such as 500ms"),
        ("- {name: a, every: b, leads_to: c, within: 30}", "expected a time such as 500ms"),
        ("- {name: a, every: b, leads_to: c, within: 0s}", "more than nothing, and at most 366d"),
        ("- {name: a, every: b, leads_to: c, within: 400d}", "more than nothing, and at most 366d"),
        (
            "- {name: a, every: b, leads_to: c, within: " + "9" * 400 + "s}",
            "more than nothing, and at most 366d",
        ),
        ("- {name: a, every: b, acknowledged_within: soon}", "expected a time such as 500ms"),
        ("- {name: a, every: b, after: c, evidence: sure}", "expected caused or may_have"),
        ("- {name: a, never_concurrent: [b]}", "expected a list of two message types"),
        ("- {name: a, never_concurrent: {b: c}}", "expected a list of two message types"),
        ("- {name: a, never_concurrent: [b, c], per: colour}", "per: expected conversation"),
        ("- {name: a, never_concurrent: [b, c], per: body.}", "per: expected conversation"),
        ("- {name: a, no: b, causes_more_than: many}", "expected a number of messages"),
        ("- {name: a, no: b, causes_more_than: -1}", "expected a number of messages"),
        (
            "- {name: a, no: b, causes_more_than: 1}\n- {name: a, no: c, causes_more_than: 1}",
            "line 2, column 3: there are two assertions of the name a",
        ),
        ("- [[[[[[a]]]]]]", "not something nested"),
        ("x" * 300_000, "at most 262,144 bytes"),
        ("- &a {name: a, every: b, leads_to: c}\n- *a", "line 2, column 3: aliases are not read"),
        ("- &a {name: a}\n- {<<: *a, no: b}", "line 2, column 8: aliases are not read"),
        ("&a [*a, *a]", "line 1, column 5: aliases are not read: write out what `*a` stands for"),
        ("- {{a: b}: c}", "line 1, column 4: expected a key, not something nested"),
        ("- ? [a]\n  : b", "line 1, column 5: expected a key, not something nested"),
        ("- {<<: {name: a}, no: b, causes_more_than: 1}", "column 4: `<<` is not known here"),
        ("- !!python/object/apply:os.system [x]", "line 1, column 3: expected an assertion"),
        ("# %TAG\n%TAG !a! tag:a\n--- []", "line 2, column 1: directives are not read"),
        ("--- [a]\n--- [b]", "line 2, column 1: there is another document"),
        ("- {name: a, every: 0x" + "f" * 5_000 + ", leads_to: c}", "column 20: expected a message"),
        (b"- \xff", "this is not YAML"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text: str | bytes, said: str) -> None:
    with pytest.raises(InvalidAssertionError) as raised:
        parse(text)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        "{" * 200_000,
        "- " * 100_000,
        "[" + "a," * 130_000 + "]",
        "? a\n" * 60_000,
        "".join(f"- &a{number} x\n" for number in range(20_000)),
    ],
)
def test_a_file_is_read_no_further_than_assertions_can_go(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = 0
    get = assertion_files._Loader.get_event

    def counted(self: object) -> object:
        nonlocal read
        read += 1
        return get(self)

    monkeypatch.setattr(assertion_files._Loader, "get_event", counted)
    with pytest.raises(InvalidAssertionError, match=r"nested|more in it than"):
        parse(text)
    assert read <= 2 * MOST_VALUES


def test_the_largest_file_that_may_be_is_read() -> None:
    one = "- {{name: a{}, every: order, leads_to: ship, within: 30s}}\n"
    assert len(parse("".join(map(one.format, range(MOST_ASSERTIONS))))) == MOST_ASSERTIONS


def test_an_error_quotes_little_of_what_is_long() -> None:
    with pytest.raises(InvalidAssertionError) as raised:
        parse("- {name: a, every: b, leads_to: c, within: " + "x" * 200_000 + "}")
    assert len(str(raised.value)) < 600


async def test_a_file_is_read_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def noted(text: str | bytes) -> list[Assertion]:
        threads.append(threading.current_thread())
        return parse(text)

    monkeypatch.setattr(assertion_files, "parse", noted)
    assert len(await assertion_files.read(FILE.encode())) == 5
    assert threads != [threading.current_thread()]


@pytest.mark.parametrize("value", [None, 5, [], {"name": "a"}, {"name": "a", "no": True}])
def test_json_that_is_no_assertion_is_refused(value: object) -> None:
    with pytest.raises(InvalidAssertionError):
        from_json(value)


@pytest.mark.parametrize(
    ("pattern", "message_type", "fits"),
    [
        ("order.new", "order.new", True),
        ("order.new", "orderXnew", False),
        ("order.*", "order.new.eu", True),
        ("*", "", True),
        ("*.new", "order.news", False),
        ("*a*b*", "xaxbx", True),
        ("*a*b*", "xbxax", False),
        ("ab*ba", "aba", False),
        ("ab*ba", "abba", True),
        ("*b*b", "ab", False),
        ("**", "", True),
        ("a*", "a\nb", True),
        # Each way of parting the text among the stars would take longer than anybody waits.
        ("*a" * 140 + "*b", "a" * 10_000, False),
    ],
)
def test_patterns(pattern: str, message_type: str, fits: bool) -> None:
    assert TypePattern(pattern).fits(message_type) is fits


def _event(
    event_id: int, seconds: float, message_type: str = "", cause: int | None = None
) -> ConversationEvent:
    is_publish = cause is None
    return ConversationEvent(
        id=event_id,
        type=EventType.published if is_publish else EventType.received,
        match=Match.none if is_publish else Match.routed,
        cause=cause,
        participant=1,
        name="shop",
        recorded_at=int(seconds * SECOND),
        exchange="",
        routing_keys=("q",),
        queue=None if is_publish else "q",
        routed_queues=("q",) if is_publish else (),
        redelivered=False,
        message_type=message_type,
    )


def _conversation(*, truncated: bool = False) -> Conversation:
    """An order that led to its approval after 1 s, and through it to its invoice after 20 s."""
    events = [
        _event(1, 0, "order.new"),
        _event(2, 0.5, cause=1),
        _event(3, 1, "approve"),
        _event(4, 2, cause=3),
        _event(5, 20, "invoice"),
        _event(6, 21, cause=5),
    ]
    causes = {3: [Cause(2, "own", "parent")], 5: [Cause(4, "own", "parent")]}
    return conversation_of(events[0], events, causes, truncated=truncated)


LONG_AFTER = 1_000 * SECOND


@pytest.mark.parametrize(
    ("assertion", "through", "expected", "certain"),
    [
        ("every: order.new, leads_to: invoice, within: 30s", LONG_AFTER, [(1, "holds")], True),
        ("every: order.new, leads_to: invoice, within: 5s", LONG_AFTER, [(1, "violated")], False),
        ("every: order.new, leads_to: ship, within: 5s", LONG_AFTER, [(1, "violated")], False),
        ("every: order.new, leads_to: ship, within: 30s", 22 * SECOND, [(1, "unknown")], False),
        ("every: order.new, leads_to: ship", LONG_AFTER, [(1, "unknown")], False),
        ("every: invoice, leads_to: order.new", LONG_AFTER, [(5, "unknown")], False),
        ("every: order.new, leads_to: invoice", LONG_AFTER, [(1, "holds")], True),
        ("every: ship, leads_to: order.new", LONG_AFTER, [], True),
        ("every: invoice, after: approve", LONG_AFTER, [(6, "holds")], True),
        ("every: invoice, after: order.*", LONG_AFTER, [(6, "holds")], True),
        ("every: approve, after: invoice", LONG_AFTER, [(4, "violated")], False),
        ("no: order.new, causes_more_than: 2", LONG_AFTER, [(1, "holds")], False),
        ("no: order.new, causes_more_than: 1", LONG_AFTER, [(1, "violated")], True),
        ('no: "*", causes_more_than: 1', LONG_AFTER, [(1, "violated"), (3, "holds")], None),
    ],
)
def test_verdicts(
    assertion: str, through: int, expected: list[tuple[int, str]], certain: bool | None
) -> None:
    [read] = parse(f"- {{name: a, {assertion}}}")
    found = judge(read, Causation(_conversation()), read_until=through)
    assert [(each.event, each.verdict.value) for each in found][: len(expected)] == expected
    if certain is None:
        return
    for unsure in (
        judge(read, Causation(_conversation(truncated=True)), read_until=through),
        judge(read, Causation(_conversation()), read_until=through, has_gap=True),
    ):
        kept = [each.verdict for each in unsure]
        assert kept == [each.verdict if certain else AssertionVerdict.unknown for each in found]


def test_what_is_found_says_what_it_rests_on() -> None:
    [in_time] = judge(
        Assertion("a", LeadsTo(ORDER, INVOICE, 30 * SECOND)),
        Causation(_conversation()),
        read_until=LONG_AFTER,
    )
    assert (in_time.sentence, in_time.witnesses) == ("order.new led to invoice in 20.0 s", (5,))
    [late] = judge(
        Assertion("a", LeadsTo(ORDER, INVOICE, 5 * SECOND)),
        Causation(_conversation()),
        read_until=LONG_AFTER,
    )
    assert late.sentence == "order.new led to invoice only after 20.0 s, not within 5.0 s"


def _joined(count: int, causes: Callable[[int], Iterable[int]]) -> Conversation:
    """Messages by number, each caused by the deliveries of some before it."""
    events, named = [], {}
    for number in range(count):
        publish = 2 * number + 1
        events += [_event(publish, number, "step"), _event(publish + 1, number, cause=publish)]
        found = [Cause(2 * each + 2, "own", "parent") for each in causes(number)]
        if found:
            named[publish] = found
    return conversation_of(events[0], events, named)


def _lines_run(conversation: Conversation, asserted: Iterable[Assertion]) -> int:
    """How many lines of judging it takes to judge a conversation by some assertions."""
    lines = 0

    def count(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        nonlocal lines
        if frame.f_code.co_filename != judging.__file__:
            return None
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        causation = Causation(conversation)
        for each in asserted:
            judge(each, causation, read_until=LONG_AFTER)
    finally:
        sys.settrace(before)
    return lines


_SHAPES: dict[str, Callable[[int], Iterable[int]]] = {
    "in a row": lambda number: [number - 1] if number else [],
    "all because of one": lambda number: [0] if number else [],
    "each because of two": lambda number: range(max(0, number - 2), number),
}
_COSTLY: dict[str, Requirement] = {
    "leads_to": LeadsTo(TypePattern("*"), TypePattern("*"), SECOND),
    "leads_to nothing": LeadsTo(TypePattern("*"), TypePattern("none"), SECOND),
    "after": Precedence(TypePattern("*"), TypePattern("none")),
    "at most": AtMost(TypePattern("*"), 10),
}


@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize("kind", _COSTLY)
def test_judging_costs_as_much_as_there_are_messages(shape: str, kind: str) -> None:
    assertion = Assertion("a", _COSTLY[kind])
    few, many = (_joined(count, _SHAPES[shape]) for count in (250, 1_000))
    # Four times as many; of storms one message is searched for in halves: that is a little more.
    assert _lines_run(many, [assertion]) <= 6 * _lines_run(few, [assertion])


def test_what_led_to_what_is_made_out_once_for_all_assertions() -> None:
    messages = _joined(200, _SHAPES["in a row"])
    calm = [Assertion(str(number), AtMost(SHIP, 1)) for number in range(100)]  # of no message here
    assert _lines_run(messages, calm) <= 2 * _lines_run(messages, calm[:1])


def test_what_needs_clocks_is_not_judged_without() -> None:
    assertion = Assertion("a", NeverConcurrent((SHIP, APPROVE)))
    with pytest.raises(ValueError, match="judged by clocks"):
        judge(assertion, Causation(_conversation()), read_until=0)


NAMES = ("order", "approve", "ship")


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
        recorded_at=at,
        exchange="",
        routing_keys=("q",),
        queue=None if is_publish else "q",
        routed_queues=("q",) if is_publish else (),
        redelivered=False,
        message_type=message_type,
    )


def expected(
    what: LeadsTo | Precedence | AtMost, said: Told, through: int
) -> dict[int, AssertionVerdict]:
    """The verdict for each event that is spoken of, from the definition."""
    found: dict[int, AssertionVerdict] = {}
    numbers = range(len(said.types))
    of = what.subject
    for a in (each for each in numbers if of.fits(said.types[each])):
        publish = said.publishes[a]
        after = [b for b in numbers if b > a and said.leads(a, b)]
        if isinstance(what, AtMost):
            found[publish] = verdict(len(after) <= what.causes_more_than)
        elif isinstance(what, Precedence):
            before = [b for b in numbers if b < a and said.leads(b, a)]
            holds = any(what.precursor.fits(said.types[b]) for b in before)
            found |= dict.fromkeys(said.deliveries[a], verdict(holds))
        else:
            times = [
                said.times[said.publishes[b]] for b in after if what.leads_to.fits(said.types[b])
            ]
            end = None if what.limit is None else said.times[publish] + what.limit
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
    st.builds(Precedence, patterns, patterns),
    st.builds(AtMost, patterns, st.integers(0, 4)),
)
by_clocks = st.one_of(
    st.builds(Precedence, patterns, patterns, st.just(Basis.may_have)),
    st.builds(
        NeverConcurrent, st.tuples(patterns, patterns), st.sampled_from(("conversation", "body.a"))
    ),
)


@given(told(), by_links, st.integers(0, 60))
def test_each_message_is_judged_as_the_definition_says(
    said: Told, what: LeadsTo | Precedence | AtMost, later: int
) -> None:
    through = max(said.times.values()) + later * SECOND
    found = judge(Assertion("a", what), Causation(conversation(said)), read_until=through)
    assert {each.event: each.verdict for each in found} == expected(what, said, through)
    assert len({each.event for each in found}) == len(found)


@given(told(), by_links, st.data())
def test_what_is_lost_makes_no_answer_false(
    said: Told, what: LeadsTo | Precedence | AtMost, data: st.DataObject
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
        judge(
            Assertion("a", what), Causation(conversation(part, truncated=True)), read_until=through
        ),
        judge(
            Assertion("a", what), Causation(conversation(part)), read_until=through, has_gap=True
        ),
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


@given(told(), st.builds(Precedence, patterns, patterns), st.integers(0, 5))
@example(THREE, Precedence(TypePattern("approve"), TypePattern("order")), 1)
def test_a_lost_publish_leaves_its_past_open(said: Told, what: Precedence, lost: int) -> None:
    """Where a publish is not stored, what led to it is not known: nor of what it led to."""
    if lost >= len(said.types) or not said.deliveries[lost]:
        return
    whole = expected(what, said, 0)
    full = conversation(said)
    events = [each.record for each in full.messages]
    events += [
        each.record for one in full.messages for copy in one.copies for each in copy.deliveries
    ]
    gone = said.publishes[lost]
    left = sorted((each for each in events if each.id != gone), key=lambda each: each.id)
    causes = {
        each.record.id: each.led_by
        for each in full.messages
        if each.record.id != gone and each.led_by
    }
    seen = conversation_of(left[0], left, causes)
    for each in judge(Assertion("a", what), Causation(seen), read_until=0):
        if each.event in whole:
            assert each.verdict in (whole[each.event], AssertionVerdict.unknown)


@given(st.one_of(by_links, by_clocks))
def test_what_is_written_is_read_again(
    what: LeadsTo | Precedence | AtMost | NeverConcurrent,
) -> None:
    assertion = Assertion("a", what)
    assert from_json(to_json(assertion)) == assertion
    assert parse(in_a_file([assertion])) == [assertion]
