"""Rules of links that change while a trace runs: from then on, and after a crash just the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from app.stored.capture import HeldRule, RuleState, list_rules
from app.tracker import Bounds, Policy, Publish, Record, RestorePoint, StampedEvent, Tracker
from app.tracker.events import Edge
from app.tracker.links import (
    BUILT_IN,
    Origin,
    Rule,
    RuleError,
    Rules,
    TraceRule,
    check_own,
    merge_rules,
    of_all,
)
from app.tracker.links.memory import LinkCount
from app.tracker.links.origins import LONGEST_RULE, rule_as_text, rule_from_text
from app.tracker.links.rules import MOST_RULES
from model.words import WITHOUT_RULE
from tests.unit.test_linker import NAMED, causes, deliver, publish, runs, stamped
from tests.unit.test_tracker import Store

NONE, ALL = Rules(()), Rules(BUILT_IN)
OTHERS = Rules([rule for rule in BUILT_IN if rule.name != NAMED])


def own(name: str, header: str = "a") -> Rule:
    return Rule.from_json(
        {"name": name, "kind": "conversation", "child": f"$message.header#/{header}"}
    )


def test_a_message_that_came_before_can_be_named_once_it_is_handed_over() -> None:
    tracker = Tracker(Policy.channel, Bounds(), rules=NONE)
    sent = stamped([publish("a", "q", id="1")], tracker)
    tracker.take_up(ALL)
    late = stamped([deliver("b", "q", "1"), publish("b", names="1")], tracker)
    assert causes(late[1], sent + late) == [1]


def test_what_a_new_rule_does_not_find_may_be_from_before_it() -> None:
    tracker = Tracker(Policy.channel, Bounds(named_events=3), rules=NONE)
    stamped([publish("a", id="1")], tracker)
    tracker.take_up(ALL)
    stamped([publish("b", names="1")], tracker)
    assert tracker.totals().links[NAMED] == LinkCount(early=1)
    stamped([publish("c"), publish("c"), publish("c", names="1")], tracker)
    assert tracker.totals().links[NAMED] == LinkCount(early=1, unseen=1), "not for ever"


def test_rules_of_the_first_event_are_not_young() -> None:
    tracker = Tracker(Policy.channel, Bounds(), rules=NONE)
    tracker.take_up(ALL)
    stamped([publish("b", names="1")], tracker)
    assert tracker.totals().links[NAMED] == LinkCount(unseen=1)


def test_rules_that_look_into_bodies_are_young_when_these_are_read_again() -> None:
    body = Rule.from_json(
        {
            "name": "body",
            "kind": "parent",
            "child": "$message.payload#/cause",
            "parent": "$message.payload#/id",
        }
    )
    rules = Rules([*BUILT_IN, body])
    tracker = Tracker(Policy.channel, Bounds(), rules=rules.for_cut_bodies())
    names = replace(publish("b", names="1"), body=b'{"cause": 1}')
    stamped([names], tracker)
    assert tracker.totals().links == {NAMED: LinkCount(unseen=1)}
    left = RestorePoint(tracker.checkpoint().state, [], [], [], [])
    for again in (rules.for_cut_bodies(), rules):
        tracker = Tracker(Policy.channel, Bounds(), left, rules=again)
        left = RestorePoint(tracker.checkpoint().state, [], [], [], [])
    stamped([replace(names, channel=deliver("c", "q").channel)], tracker)
    assert tracker.totals().links == {NAMED: LinkCount(unseen=2), "body": LinkCount(early=1)}


def test_what_was_counted_goes_with_the_rule() -> None:
    tracker = Tracker(Policy.channel, Bounds(), rules=ALL)
    stamped([publish("b", names="1")], tracker)
    tracker.take_up(Rules([*BUILT_IN, own("x")]))
    assert tracker.totals().links == {NAMED: LinkCount(unseen=1)}
    tracker.take_up(OTHERS)
    assert tracker.totals().links == {}


def test_what_waits_is_read_again() -> None:
    tracker = Tracker(Policy.channel, Bounds(reorder_window=1_000), rules=ALL)
    assert tracker.apply(publish("b", names="1"), 1) == []
    tracker.take_up(OTHERS)
    assert tracker.apply(publish("b"), 2) == []
    tracker.take_up(ALL)
    events = tracker.apply(publish("b/2", id="1"), 3)
    assert [type(event.record) for event in events] == [Publish] * 3
    assert causes(events[1], events) == [0]


def test_a_virtual_host_s_own_rules_come_last_or_in_the_place_of_their_namesake() -> None:
    base = of_all([*BUILT_IN[:2], own("of-the-file")])
    assert [each.origin for each in base] == [Origin.built_in, Origin.built_in, Origin.file]
    mine = own(BUILT_IN[1].name)
    rules = merge_rules(base, [own("z"), mine, own("a")])
    names = [each.rule.name for each in rules]
    assert names == [BUILT_IN[0].name, BUILT_IN[1].name, "of-the-file", "z", "a"]
    assert rules[1] == TraceRule(mine, Origin.own)


def test_what_a_file_brings_too_many_of_does_not_push_a_trace_over_the_bound() -> None:
    base = of_all([own(f"r{number}") for number in range(MOST_RULES)])
    rules = merge_rules(base, [own("one-more"), own("r3", "b")])
    assert len(rules) == MOST_RULES
    assert rules[3] == TraceRule(own("r3", "b"), Origin.own)


@pytest.mark.parametrize(
    ("rules", "wrong"),
    [
        ([own("x"), own("x")], "'x' is there twice"),
        ([own(f"r{number}") for number in range(151)], "so this one has at most 150"),
        ([replace(own("r"), name=f"r{number}") for number in range(10_000)], "at most 200"),
        (
            [
                Rule.from_json(
                    {
                        "name": "long",
                        "kind": "conversation",
                        "child": "$message.header#/a",
                        "where": [{"has": [f"$message.header#/{'x' * 480}"] * 20}],
                    }
                )
            ],
            f"rule 'long' has 10088 bytes, and at most {LONGEST_RULE}",
        ),
    ],
)
def test_rules_that_cannot_be_set_are_refused(rules: list[Rule], wrong: str) -> None:
    base = of_all([own(f"base{number}") for number in range(50)])
    with pytest.raises(RuleError, match=wrong):
        check_own(rules, base)


def test_a_namesake_takes_no_room() -> None:
    base = of_all([own(f"r{number}") for number in range(MOST_RULES)])
    check_own([own("r1", "b")], base)
    with pytest.raises(RuleError, match="at most 0"):
        check_own([own("other")], base)


def test_rules_are_stored_as_text() -> None:
    for rule in BUILT_IN:
        assert rule_from_text(rule_as_text(rule)) == rule
    with pytest.raises(RuleError):
        rule_from_text("{")


def test_a_list_shows_what_holds_what_is_to_and_what_is_to_no_more() -> None:
    a, b, c = (TraceRule(own(name), Origin.own) for name in "abc")
    changed = TraceRule(own("b", "other"), Origin.own)
    found = list_rules([a, changed, c], [HeldRule(a, 7), HeldRule(b, 8)])
    assert [(each.of_trace, each.state, each.from_event_id) for each in found] == [
        (a, RuleState.holds, 7),
        (changed, RuleState.set, None),
        (c, RuleState.set, None),
        (b, RuleState.removed, 8),
    ]


def test_own_rules_change_nothing_about_which_headers_events_are_found_by() -> None:
    found_by = Rules([own("x", "tenant")], indexed=["n"]).indexed
    rules = Rules([own("x", "other")], found_by=found_by)
    assert rules.indexed == found_by == {"tenant": False, "n": False}


def test_of_a_body_that_is_cut_nothing_is_read() -> None:
    body = b'{"causationid": "1", "id": "2", "x": "'
    properties = {"content_type": "application/cloudevents+json", "message_id": "7"}
    whole = Publish(deliver("a", "q").channel, "x", ("k",), (), properties, body + b'"}')
    cut = Publish(whole.channel, "x", ("k",), (), properties, body)
    same = Rule.from_json(
        {
            "name": "again",
            "kind": "forward",
            "child": "$message.property#/message_id",
            "parent": "$message.property#/message_id",
            "same_body": True,
        }
    )
    rules = Rules([*BUILT_IN, same])
    plain = Rules(rule for rule in BUILT_IN if rule.name == NAMED)
    assert rules.read(whole).causes
    names = rules.for_cut_bodies().read(cut)
    assert names.ids == plain.for_cut_bodies().read(cut).ids
    assert rules.message_key(whole) in rules.read(whole).ids
    assert rules.message_key(cut) not in names.ids
    assert (names.causes, names.conversations) == ((), ())
    assert rules.read(whole).causes, "the rules themselves are as they were"


def said(events: list[StampedEvent]) -> list[object]:
    """What is stored of events, with ids for references."""
    return [
        (
            str(event.stamp),
            event.lamport,
            event.names,
            sorted((edge.cause.id or 0, edge.rule, edge.kind) for edge in event.edges),
        )
        for event in events
    ]


def links_of(event: StampedEvent) -> list[Edge]:
    return [edge for edge in event.edges if edge.rule not in WITHOUT_RULE]


@pytest.mark.parametrize("window", [0, 3])
@given(
    records=runs(),
    at=st.integers(0, 40),
    crashes=st.sets(st.integers(0, 40), max_size=4),
    before=st.sampled_from([NONE, OTHERS, ALL]),
    after=st.sampled_from([NONE, OTHERS, ALL]),
)
def test_rules_taken_up_hold_the_same_with_crashes_and_without(
    window: int, records: list[Record], at: int, crashes: set[int], before: Rules, after: Rules
) -> None:
    bounds = Bounds(named_events=10, reorder_window=window)

    def told(crashes: set[int]) -> tuple[list[StampedEvent], Tracker, Store]:
        store, tracker, rules = Store(), Tracker(Policy.channel, bounds, rules=before), before
        for position, record in enumerate([*records, None]):
            if position == at:  # a batch's border; what is stored with it is as of its end
                tracker.take_up(after)
                rules = after
            now = position if record else position + 10
            events = tracker.apply(record, now) if record else [*tracker.close_overdue(now)]
            store.append(events, tracker.checkpoint())
            if position in crashes:
                store.restored.named_events = store.restored.named_events[-10:]
                held = [each.cause for each in store.restored.copies]
                held += [each.cause for each in store.restored.handovers]
                for cause in held:  # which are read from the database, in fact
                    cause.names = None
                tracker = Tracker(Policy.channel, bounds, store.restored, rules=rules)
        return store.events, tracker, store

    whole, tracker, _ = told(set())
    broken, other, _ = told(crashes)
    assert said(broken) == said(whole)
    assert other.totals().links == tracker.totals().links


@given(records=runs(), at=st.integers(0, 40))
def test_what_came_before_is_not_read_again(records: list[Record], at: int) -> None:
    tracker = Tracker(Policy.channel, Bounds(), rules=NONE)
    early = stamped(records[:at], tracker)
    tracker.take_up(ALL)
    late = stamped(records[at:], tracker)
    assert not any(links_of(event) for event in early)
    # What makes two messages one is asked by no rule alone, and so read from the start.
    assert all(event.names.ids in ((), (NONE.message_key(event.record),)) for event in early)
    found = {id(event.reference) for event in late}
    # Of a message that was handed over since, its publish may be the cause.
    found |= {id(event.cause) for event in late}
    assert all(id(edge.cause) in found for event in late for edge in links_of(event))
