"""What is likely by rules that are not adopted is what is there once they are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from app.restamp.replay import Replay
from app.store import Store
from app.stored.capture import ParticipantSettings
from app.stored.likely import Overlay
from app.stored.proposals import digest_of, proposals_in
from app.traces.pipeline import PipelineSettings
from app.tracker import Policy
from app.tracker.links import Origin, Rule, Rules, TraceRule
from bench.applications import Application
from bench.stores import FIRST_TIME, STEP, record_all
from model.conversations.conversation import Conversation
from model.described import json_of
from model.words import Via
from spark_jobs.reports.look import look
from spark_jobs.spark.database import DatabaseAddress

ORDERS = 40
RULES: dict[str, dict[str, Any]] = {
    "causation": {
        "name": "found",
        "kind": "parent",
        "child": "$message.header#/x-because",
        "parent": "$message.property#/message_id",
        "sure": False,
    },
    "order-id": {"name": "found", "kind": "conversation", "child": "$message.payload#/order/id"},
    "saga": {"name": "found", "kind": "conversation", "child": "$message.payload#/order/id"},
}


async def stored(store: Store, vhost: str, name: str, rules: Sequence[Rule]) -> Application:
    application = Application(name, ORDERS)
    timed = ((FIRST_TIME + n * STEP, each) for n, each in zip(count(), application.records()))
    await record_all(store, vhost, timed, Policy.channel, Rules(rules))
    return application


async def likely(store: Store, trace_id: int, rule: Rule, first: int, last: int) -> Overlay:
    rules = ParticipantSettings("channel", (), (TraceRule(rule, Origin.own),))
    reading = Replay(
        store.restamps, trace_id, rules, lambda _: None, PipelineSettings(link_rules=())
    )
    overlay = Overlay(first, last)
    await reading.preview(overlay)
    return overlay


def told_of(one: Conversation, by: int = 0) -> list[Any]:
    """A conversation's messages with their causes and fates, as if their ids were smaller."""
    return [
        (
            each.record.id - by,
            [(cause.event - by, cause.rule, cause.kind) for cause in each.led_by],
            [[delivery.record.id - by for delivery in copy.deliveries] for copy in each.copies],
            each.outcome,
        )
        for each in one.messages
    ]


@pytest.mark.parametrize("name", RULES)
async def test_what_is_likely_is_what_is_there_once_the_rules_are_adopted(
    store: Store, name: str
) -> None:
    rule = Rule.from_json(RULES[name])
    application = await stored(store, "before", name, [])
    await stored(store, "adopted", name, [rule])
    size = 2 * len(application.messages)
    overlay = await likely(store, 1, rule, 1, size)
    told_more = 0
    for message in application.messages[::7]:
        for towards in (1, -1):
            by_rule = await store.causality.walk(
                message.event + size, towards, 1_000, via=Via.conversation
            )
            by_overlay = await store.causality.walk(
                message.event, towards, 1_000, via=Via.conversation, overlay=overlay
            )
            assert [each.id + size for each in by_overlay.items] == [
                each.id for each in by_rule.items
            ]
        told = await store.conversations.of_event(message.event, Via.conversation, overlay=overlay)
        there = await store.conversations.of_event(message.event + size, Via.conversation)
        assert told.root + size == there.root
        mine = told_of(told.conversation)
        assert mine == told_of(there.conversation, by=size)
        alone = await store.conversations.of_event(message.event, Via.conversation)
        told_more += len(mine) > len(alone.conversation.messages)
        last = by_overlay.items
        if towards == -1 and last:
            chain = await store.chains.find(
                last[-1].id, message.event, 1_000, via=Via.conversation, overlay=overlay
            )
            other = await store.chains.find(
                last[-1].id + size, message.event + size, 1_000, via=Via.conversation
            )
            assert [each.id + size for each in chain.items] == [each.id for each in other.items]
    assert told_more > 10


async def test_the_rule_is_found_in_every_store(store: Store, database_url: str) -> None:
    await stored(store, "before", "causation", [])
    address = DatabaseAddress.from_url(database_url)
    found = proposals_in(json_of(await asyncio.to_thread(look, address, "before", 50_000)))
    rule = found[0].rules[0]
    assert (rule["kind"], rule["child"]) == ("parent", RULES["causation"]["child"])


async def test_events_beyond_those_that_were_read_are_as_they_were(store: Store) -> None:
    rule = Rule.from_json(RULES["causation"])
    application = await stored(store, "before", "causation", [])
    half = len(application.messages)
    overlay = await likely(store, 1, rule, 1, half)
    assert overlay.last == half
    assert overlay.causes
    assert max(overlay.causes) <= half


async def test_of_what_a_key_says_where_it_belongs_nothing_is_suggested(store: Store) -> None:
    for name, rules in (("before", []), ("adopted", [Rule.from_json(RULES["order-id"])])):
        await stored(store, name, "order-id", rules)
    found = [
        len(await store.copies.alone_in_hand(trace, range(1, 20), 1, 10**6)) for trace in (1, 2)
    ]
    assert found[0] > 10
    assert found[1] == 0


async def test_what_was_found_is_kept_until_the_next_look(store: Store) -> None:
    application = await stored(store, "one", "causation", [Rule.from_json(RULES["causation"])])
    await store.traces.create("empty", "channel")
    one, empty = await store.proposals.coverage([2, 1])
    assert (one.vhost, one.publishes) == ("one", len(application.messages))
    assert 0 < one.named == one.reactions
    assert (one.coverage, one.is_due, one.looked_at, one.programs) == (1.0, False, None, 5)
    assert (empty.publishes, empty.coverage, empty.found) == (0, None, ())
    figures = {"publishes": 9, "ambiguity": 1.2, "chance": None, "agreement": 0.5, "linked": 4}
    each = {**figures, "kind": "parent", "rules": [RULES["causation"]], "examples": []}
    found = proposals_in({"reactions": 10, "proposals": [each]})
    for again in (found, [], found):
        await store.proposals.put(one, again)
        [seen] = await store.proposals.coverage([1])
        assert [*seen.found] == again
        assert (seen.looked_publishes, seen.looked_programs) == (one.publishes, one.programs)
    assert found[0].certainty == (
        "1.20 messages may be meant each, nothing further back to compare with, links agree in"
        " 50% of 4"
    )
    assert seen.open_proposals([]) == found
    assert seen.open_proposals([Rule.from_json({**RULES["causation"], "name": "mine"})]) == []


def test_of_what_was_in_hand_only_those_who_publish_most_are_proposed() -> None:
    hand = {
        "linked": 30,
        "agreement": 1.0,
        "examples": [{"publish": 2, "delivery": 1, "value": ""}],
    }
    hands = [
        {**hand, "participant": {"number": n, "name": "a"}, "publishes": n} for n in range(200)
    ]
    [one] = proposals_in({"reactions": 50, "proposals": [], "in_hand": hands})
    assert one.participants == [*range(199, 99, -1)]
    assert len(one.examples) == 10


def test_a_proposals_id_is_that_of_its_rules() -> None:
    one = RULES["causation"]
    assert digest_of([one]) == digest_of([dict(reversed(one.items()))])
    assert digest_of([one]) != digest_of([one | {"child": "$message.header#/other"}])
