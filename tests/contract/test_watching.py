"""What is judged as events come is what all of them together come to."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from sqlalchemy import text

from app.store import Store
from app.store.watch import watching
from app.stored.assertions import AssertionScope, subject_of
from app.stored.reading import EventFilter
from app.tracker import Channel, Deliver, Policy, Publish, Record
from app.watch import judging
from app.watch.judging import HELD, UNKNOWN, EventOutcome, Judges
from app.watch.waiting import SettledPoint, Wait
from model.assertions.judging import AssertionVerdict, Causation, Judgement, WatchedEvent, judge
from model.assertions.language import from_json
from model.conversations.assembly import conversation_of
from model.conversations.conversation import Conversation
from model.event import ALL_LARGE
from model.happened import Cause, conversation_event
from tests.contract.outbox import HANDLER, PUBLISHER, RULE, START, tell, tracker_by

PAGES = 7
FAR = START + 10**12
TYPES = "abc"
ASSERTIONS: list[dict[str, Any]] = [
    {"name": "in-time", "every": "a", "leads_to": "b", "within": "5s"},
    {"name": "soon", "every": "*", "leads_to": "c", "within": "1s"},
    {"name": "preceded", "every": "b", "after": "a"},
    {"name": "preceded-by-any", "every": "*", "after": "c*"},
    {"name": "calm", "no": "a", "causes_more_than": 2},
    {"name": "all-calm", "no": "*", "causes_more_than": 4},
    {"name": "still", "no": "b", "causes_more_than": 0},
]


def records(seed: int, count: int = 60) -> list[Record]:
    """Messages that name an earlier one or none, and deliveries of some of them, some twice."""
    chance, published, told = random.Random(seed), list[Publish](), list[Record]()
    for number in range(count):
        if published and chance.random() < 0.4:
            one = published[chance.randrange(len(published))]
            seen = any(isinstance(each, Deliver) and each.body == one.body for each in told)
            told.append(Deliver(HANDLER, "", ("q",), "q", seen, one.properties, one.body))
            continue
        headers = {}
        if published and chance.random() < 0.7:
            headers = {RULE: chance.choice(published[-6:]).properties["message_id"]}
        properties = {
            "message_id": f"m{number}",
            "type": chance.choice(TYPES),
            "headers": headers,
        }
        body = f"body {number}".encode()
        published.append(Publish(PUBLISHER, "", ("q",), ("q",), properties, body))
        told.append(published[-1])
    return told


async def whole(store: Store) -> Conversation:
    """All that is stored, as if it were one conversation."""
    events = (await store.events.find(EventFilter(), after=0, limit=500, large=ALL_LARGE)).items
    known = {each.id: conversation_event(each) for each in events}
    named = await store.causality.edge_causes([*known])
    causes = {
        effect: tuple(Cause(link.cause, link.rule, link.kind.name) for link in found)
        for effect, found in named.items()
    }
    return conversation_of(next(iter(known.values())), known.values(), causes)


async def read(store: Store, trace_id: int) -> list[WatchedEvent]:
    """All events, a page at a time."""
    found: list[WatchedEvent] = []
    after = 0
    while True:
        page = await store.watching.page(trace_id, after, PAGES)
        found += page.events
        after = page.through
        if len(page.events) < PAGES:
            return found


def judges_of(store: Store) -> Judges:
    return Judges(store, timer=lambda: 0.0)  # all at once


async def judged(store: Store, trace_id: int, subject: AssertionScope) -> dict[int, EventOutcome]:
    """What comes of each event, once all was known to be stored at each of them."""
    judges = judges_of(store)
    seen = await read(store, trace_id)
    proofs = [SettledPoint(each.recorded_at, each.id) for each in seen]
    proofs.append(SettledPoint(FAR, seen[-1].id))
    waits = [
        Wait(each.id, each.recorded_at, each.recorded_at + subject.within)
        for each in seen
        if subject.picks(each)
    ]
    outcomes = await judges.judge(trace_id, subject, waits, proofs)
    return {wait.id: outcome for wait, outcome in zip(waits, outcomes, strict=True)}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("said", ASSERTIONS, ids=lambda said: said["name"])
async def test_each_event_comes_to_what_the_conversation_says(
    store: Store, said: dict[str, Any], seed: int
) -> None:
    trace = await store.traces.create("/", Policy.channel)
    await tell(store, trace.id, tracker_by(Policy.channel), records(seed))
    subject = subject_of(msgspec.json.encode(said).decode())
    assert subject is not None
    outcomes = await judged(store, trace.id, subject)
    findings = judge(from_json(said), Causation(await whole(store)), read_until=FAR)
    expected = {each.event: each for each in findings}
    assert expected
    assert {each.verdict for each in findings} <= {
        AssertionVerdict.holds,
        AssertionVerdict.violated,
    }
    violated = {new.event for each in outcomes.values() for new in each.violations}
    assert violated == {each for each, found in expected.items() if _is_violated(found)}
    if "causes_more_than" not in said:
        assert outcomes.keys() == expected.keys()
        assert {key for key, each in outcomes.items() if each == HELD} == (
            expected.keys() - violated
        )
        said_live = {new.sentence for each in outcomes.values() for new in each.violations}
        assert said_live == {f"event {each}: {expected[each].sentence}" for each in violated}


def _is_violated(finding: Judgement) -> bool:
    return finding.verdict is AssertionVerdict.violated


async def test_the_events_that_are_read_say_types_and_messages(store: Store) -> None:
    trace = await store.traces.create("/", Policy.channel)
    await tell(store, trace.id, tracker_by(Policy.channel), records(1))
    events = (await store.events.find(EventFilter(), after=0, limit=500, large=ALL_LARGE)).items
    expected = [
        (each.id, each.recorded_at, conversation_event(each).message_type, each.cause)
        for each in events
    ]
    found = await read(store, trace.id)
    assert [
        (each.id, each.recorded_at, each.message_type, each.message) for each in found
    ] == expected
    assert (await store.watching.page(trace.id, found[-1].id, PAGES)).through == found[-1].id


async def test_a_gap_makes_unknown_what_is_not_seen(store: Store) -> None:
    trace = await store.traces.create("/", Policy.channel)
    ids = await tell(store, trace.id, tracker_by(Policy.channel), records(1))
    subject = subject_of(msgspec.json.encode(ASSERTIONS[0]).decode())
    assert subject is not None
    before = await judged(store, trace.id, subject)
    await store.gaps.open(trace.id, after_event_id=ids[0], since=1, reason="lost")
    after = await judged(store, trace.id, subject)
    assert any(each.violations for each in before.values())
    assert not any(each.violations for each in after.values())
    assert [each for each, is_now in after.items() if is_now == HELD] == [
        each for each, was in before.items() if was == HELD
    ]


@pytest.mark.parametrize("name", ["in-time", "calm"])
@pytest.mark.parametrize(
    "sign",
    [
        "UPDATE events SET doubtful = (1 = 1) WHERE trace_id = :trace AND type = 1 AND :last > 0",
        "INSERT INTO edges (trace_id, effect_id, cause_id, rule, kind, way)"
        " SELECT trace_id, :last, id, 'equal', 3, 0 FROM events WHERE trace_id = :trace"
        " AND type = 0 AND id < :last",
    ],
    ids=["doubtful", "equal"],
)
async def test_what_messages_may_have_led_to_without_a_sign_is_unknown(
    store: Store, name: str, sign: str
) -> None:
    trace = await store.traces.create("/", Policy.channel)
    last = said("last", message("last", "x"))
    ids = await tell(store, trace.id, tracker_by(Policy.channel), [*records(1), *last])
    subject = subject_to(next(each for each in ASSERTIONS if each["name"] == name))
    before = await judged(store, trace.id, subject)
    parameters = {"trace": trace.id, "last": ids[-1]}
    await store._database.write(lambda one: one.execute(text(sign), parameters))
    after = await judged(store, trace.id, subject)
    verdicts = (AssertionVerdict.holds, AssertionVerdict.violated)
    by_absence, shown = verdicts[:: 1 if name == "calm" else -1]
    for each, was in before.items():
        assert (after[each].verdict is shown) is (was.verdict is shown)
        assert was.verdict is by_absence or after[each].verdict is not by_absence
    unknown = [each for each in after if after[each] == UNKNOWN and before[each] != UNKNOWN]
    assert any(before[each].verdict is by_absence for each in unknown)
    assert sign.startswith("UPDATE") or by_absence not in {each.verdict for each in after.values()}


RACING = {"name": "r", "never_concurrent": ["refund", "capture"], "per": "conversation"}
OTHER = msgspec.structs.replace(HANDLER, number=9)


@pytest.mark.parametrize("unseen_first", [False, True])
async def test_of_what_is_behind_an_unseen_publish_nobody_knows_whether_it_is_concurrent(
    store: Store, unseen_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "MOST_SECONDS", 1e9)  # all of them at once
    trace = await store.traces.create("/", Policy.channel)
    root, handed = said("x", message("x", "x"))
    again = msgspec.structs.replace(handed, channel=OTHER, queue="r")
    refund = msgspec.structs.replace(
        said("f", message("f", "refund", "x"))[0], channel=HANDLER, routed_queues=()
    )
    capture = msgspec.structs.replace(
        said("c", message("c", "capture", "x"))[0], channel=OTHER, routed_queues=()
    )
    unseen = msgspec.structs.replace(said("u", message("u", "x"))[1], channel=OTHER)
    giver = Channel("rabbit@one", "10.0.0.9:1 -> 10.0.0.1:5672", 1, "giver")
    root = msgspec.structs.replace(root, channel=giver, routed_queues=("q", "r"))
    told = [root, handed, again, refund, *[unseen] * unseen_first, capture]
    ids = await tell(store, trace.id, tracker_by(Policy.channel), told)
    outcome = (await judged(store, trace.id, subject_to(RACING)))[ids[-1]]
    assert (outcome == UNKNOWN, bool(outcome.violations)) == (unseen_first, not unseen_first)


def said(body: str, properties: dict[str, Any]) -> tuple[Publish, Deliver]:
    """A publish, and a delivery of it."""
    return (
        Publish(PUBLISHER, "", ("q",), ("q",), properties, body.encode()),
        Deliver(HANDLER, "", ("q",), "q", False, properties, body.encode()),
    )


def message(name: str, message_type: str, *causes: str) -> dict[str, Any]:
    headers = dict(zip((RULE, "cause_id"), causes, strict=False))
    return {"message_id": name, "type": message_type, "headers": headers}


def subject_to(said: dict[str, Any]) -> AssertionScope:
    subject = subject_of(msgspec.json.encode(said).decode())
    assert subject is not None
    return subject


AFTER = {"name": "a", "every": "b", "after": "a"}
CALM = {"name": "c", "no": "a", "causes_more_than": 1}


async def test_a_gap_before_a_past_makes_it_unknown(store: Store) -> None:
    """What led to a message that names nothing may have been lost long before."""
    trace = await store.traces.create("/", Policy.channel)
    tracker = tracker_by(Policy.channel)
    ids = await tell(store, trace.id, tracker, said("x", message("x", "x")))
    gap = await store.gaps.open(trace.id, after_event_id=ids[0], since=1, reason="lost")
    await store.gaps.close(gap, before_event_id=ids[1], until=2)
    await tell(store, trace.id, tracker, said("b", message("b", "b", "lost")))
    [outcome] = (await judged(store, trace.id, subject_to(AFTER))).values()
    assert outcome == UNKNOWN


async def test_a_past_that_retention_has_removed_is_unknown(store: Store) -> None:
    trace = await store.traces.create("/", Policy.channel)
    records = [*said("a", message("a", "a")), *said("x", message("x", "x", "a"))]
    records += said("b", message("b", "b", "x"))
    tracker = tracker_by(Policy.channel)
    await tell(store, trace.id, tracker, records)
    before = await judged(store, trace.id, subject_to(AFTER))
    assert [each == HELD for each in before.values()] == [True]
    plan = await store.retention.plan(trace.id, keep_events=2)
    assert plan is not None
    tracker.forget_before(plan.before_id)
    await store.retention.prune(plan, tracker.checkpoint())
    [outcome] = (await judged(store, trace.id, subject_to(AFTER))).values()
    assert outcome == UNKNOWN


async def test_a_past_with_an_unseen_publish_anywhere_is_unknown(store: Store) -> None:
    """Also where the first of the past is a publish."""
    trace = await store.traces.create("/", Policy.channel)
    unseen = said("u", message("u", "x"))[1]
    records = [*said("x", message("x", "x")), unseen, *said("b", message("b", "b", "u"))]
    await tell(store, trace.id, tracker_by(Policy.channel), records)
    [outcome] = (await judged(store, trace.id, subject_to(AFTER))).values()
    assert outcome == UNKNOWN


async def test_how_many_a_message_caused_is_unknown_beside_a_gap(store: Store) -> None:
    trace = await store.traces.create("/", Policy.channel)
    records = [*said("a", message("a", "a")), *said("b", message("b", "b", "a"))]
    ids = await tell(store, trace.id, tracker_by(Policy.channel), records)
    before = await judged(store, trace.id, subject_to(CALM))
    assert before[ids[2]] == HELD
    gap = await store.gaps.open(trace.id, after_event_id=ids[1], since=1, reason="lost")
    await store.gaps.close(gap, before_event_id=ids[2], until=2)
    after = await judged(store, trace.id, subject_to(CALM))
    assert after[ids[2]] == UNKNOWN


async def test_a_message_with_more_deliveries_than_are_followed_is_not_called_calm(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "MOST_REACHED", 5)
    trace = await store.traces.create("/", Policy.channel)
    published, delivered = said("a", message("a", "a"))
    records = [published, delivered, *[msgspec.structs.replace(delivered, redelivered=True)] * 6]
    for name in "bcd":
        records += said(name, message(name, "b", "a"))
    await tell(store, trace.id, tracker_by(Policy.channel), records)
    outcomes = await judged(store, trace.id, subject_to(CALM))
    assert outcomes
    assert not any(each == HELD for each in outcomes.values())


async def test_a_single_message_that_nothing_caused_is_neither_calm_nor_a_storm(
    store: Store,
) -> None:
    trace = await store.traces.create("/", Policy.channel)
    await tell(store, trace.id, tracker_by(Policy.channel), said("x", message("x", "x")))
    [outcome] = (await judged(store, trace.id, subject_to(CALM))).values()
    assert outcome == EventOutcome()
