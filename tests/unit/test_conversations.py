"""What a conversation's events come to: outcomes, times, loops, a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from model.conversations.assembly import conversation_of
from model.conversations.clauses import Clause
from model.conversations.consumers import PublisherRecord, Silence
from model.conversations.conversation import Conversation
from model.conversations.deliveries import BrokerAct
from model.conversations.messages import MessageFailure, Outcome
from model.conversations.pace import Course, Handling, Pace
from model.conversations.sentences import clauses_of, duration_words
from model.conversations.states import Position, State
from model.deaths import Death, Loss
from model.error_queues import Forward
from model.gaps import Gap
from model.happened import Cause, ConversationEvent, sort_causes
from model.movers import mover_of
from model.sound import Evidence
from model.times import Microseconds
from model.words import BACK, Disposition, EventType, Match, Via
from tests.unit.test_pace import steady

SECOND = 1_000_000


def sent(
    number: int,
    at: float,
    *queues: str,
    type_: str = "order",
    forward: Forward | None = None,
    expiration: str | None = None,
    keys: tuple[str, ...] = (),
) -> ConversationEvent:
    return ConversationEvent(
        number,
        EventType.published,
        Match.none,
        None,
        1,
        "shop",
        round(at * SECOND),
        "",
        (type_,),
        None,
        queues,
        False,
        type_,
        forward=forward,
        expiration=expiration,
        keys=keys,
    )


def got(
    number: int,
    at: float,
    cause: int | None,
    queue: str,
    match: Match = Match.routed,
    *deaths: Death,
) -> ConversationEvent:
    return ConversationEvent(
        number,
        EventType.received,
        match,
        cause,
        2,
        "billing",
        round(at * SECOND),
        "",
        ("order",),
        queue,
        (),
        match is Match.redelivered,
        "order",
        deaths,
    )


def told(*events: ConversationEvent, causes: dict[int, int] | None = None) -> Conversation:
    named = {each: (Cause(cause, "r", "parent"),) for each, cause in (causes or {}).items()}
    return conversation_of(events[0], events, named)


@pytest.mark.parametrize(
    ("unnamed", "via", "outcome"),
    [
        (2, Via.links, Outcome.open),  # before it was handed the message: it may be at work
        (3, Via.links, Outcome.open),
        (3, Via.conversation, Outcome.open),
        (3, Via.any, Outcome.done),  # where all that may be of it is there
    ],
)
def test_what_a_consumer_publishes_without_naming_a_cause_may_go_on_what_it_was_handed(
    unnamed: int, via: Via, outcome: Outcome
) -> None:
    events = sent(1, 0, "work"), got(2, 1, 1, "work")
    publishers = {
        1: PublisherRecord(9, Evidence(5, 0)),
        2: PublisherRecord(unnamed, Evidence(4, 1)),
    }
    answer = conversation_of(events[0], events, {}, via=via, publishers=publishers)
    assert answer.outcome is outcome
    said = "billing has published since, perhaps for it"
    remedy = "to know, have messages carry their cause's id or a key"
    is_said = outcome is Outcome.open and unnamed == 3
    assert answer.sentence.endswith(f"{said}: {remedy}") is is_said
    assert ((said, remedy) in [(each.text, each.remedy) for each in answer.clauses]) is is_said
    assert [(each.name, each.coverage) for each in answer.participants] == [
        ("shop", 0.0),
        ("billing", 0.25),
    ]


@pytest.mark.parametrize(
    ("newest", "since", "named", "via", "outcome"),
    [
        ((9,), 0, {}, Via.links, Outcome.unknown),
        ((9,), 0, {}, Via.conversation, Outcome.unknown),
        ((9, 4), 0, {4: 3}, Via.links, Outcome.done),  # it names what came of the message
        ((9, 4), 0, {4: 1}, Via.links, Outcome.done),
        ((2,), 0, {}, Via.links, Outcome.open),  # before it was handed the message: it may yet
        ((), 0, {}, Via.links, Outcome.open),
        ((), 4, {}, Via.links, Outcome.unknown),  # there may be some before what was looked at
        ((9,), 0, {}, Via.any, Outcome.done),
    ],
)
def test_who_names_only_one_of_several_messages_may_have_gone_on_with_the_others(
    newest: tuple[int, ...], since: int, named: dict[int, int], via: Via, outcome: Outcome
) -> None:
    events = [sent(1, 0, "work"), got(3, 1, 1, "work")]
    events += [sent(each, 2)._replace(participant=2, routed_queues=("x",)) for each in named]
    events += [got(each + 1, 3, each, "x")._replace(participant=3) for each in named]
    causes = {each: (Cause(cause, "r", "parent"),) for each, cause in named.items()}
    publishers = {2: PublisherRecord(0, Evidence(4, 4), newest=newest, cutoff=since)}
    answer = conversation_of(events[0], events, causes, via=via, publishers=publishers)
    assert answer.outcome is outcome
    said = "billing has published since, but only for other messages"
    assert answer.sentence.endswith(said) is (outcome is Outcome.unknown)
    yet = "billing has published nothing since it was handed a message here, but still may"
    assert answer.sentence.endswith(yet) is (outcome is Outcome.open)
    silence = Silence(("billing", "mail"))
    _, both = clauses_of(events[0], (), answer.counts, 1, silence=silence)
    assert (both.about, both.names) == ("silent", ("billing", "mail"))
    assert both.text == "billing and mail have published since, but only for other messages"


@pytest.mark.parametrize(
    ("last_at", "asker", "outcome"),
    [
        (9, 2, Outcome.done),
        (6, 2, Outcome.unknown),  # before the reply: it may go on after it
        (9, 4, Outcome.unknown),  # by another
    ],
)
def test_who_publishes_after_a_reply_for_what_made_it_ask_goes_on_with_the_reply(
    last_at: int, asker: int, outcome: Outcome
) -> None:
    """Billing (2) is handed an order (3), asks the bank (3), is answered, and tells the shop."""
    last = sent(last_at, 6)._replace(participant=asker, routed_queues=("told",))
    events = [
        sent(1, 0, "work"),
        got(2, 1, 1, "work"),
        sent(3, 2, "bank")._replace(participant=2),
        got(4, 3, 3, "bank")._replace(participant=3),
        sent(7, 4, "answers")._replace(participant=3),
        got(8, 5, 7, "answers"),
        last,
        got(10, 7, last_at, "told")._replace(participant=1),
    ]
    causes = {
        3: (Cause(2, "r", "parent"),),
        7: (Cause(4, "r", "reply"),),
        last_at: (Cause(2, "r", "parent"),),
    }
    publishers = {2: PublisherRecord(0, Evidence(4, 4), newest=(12, 9, 6, 3))}
    answer = conversation_of(events[0], events, causes, publishers=publishers)
    assert answer.outcome is outcome


@pytest.mark.parametrize(("last", "outcome"), [(9, Outcome.done), (5, Outcome.unknown)])
def test_what_names_the_first_attempt_after_a_later_one_goes_on_with_it(
    last: int, outcome: Outcome
) -> None:
    """Celery's retry has the first attempt's id, and so does the parent of what it publishes."""
    events = [
        sent(1, 0, "work"),
        got(2, 1, 1, "work"),
        sent(6, 2, "work")._replace(participant=2),
        got(7, 3, 6, "work"),
        sent(last, 4, "told")._replace(participant=2),
        got(10, 5, last, "told")._replace(participant=1),
    ]
    causes = {6: (Cause(2, "r", "forward"),), last: (Cause(1, "r", "parent"),)}
    publishers = {2: PublisherRecord(0, Evidence(4, 4), newest=(12, 9, 6, 5))}
    answer = conversation_of(events[0], events, causes, publishers=publishers)
    assert answer.outcome is outcome


@pytest.mark.parametrize(
    ("kind", "outcome"), [("parent", Outcome.done), ("in_hand", Outcome.unknown)]
)
@pytest.mark.parametrize("is_after", [False, True])
def test_a_suggestion_makes_no_conversation_done(
    kind: str, outcome: Outcome, is_after: bool
) -> None:
    events = [sent(1, 0, "work", "more"), got(3, 1, 1, "work")]
    events += [sent(4, 2, "x")._replace(participant=2), got(5, 3, 4, "x")._replace(participant=3)]
    causes = {4: (Cause(3, "r", kind),)}
    publishers = {2: PublisherRecord(0, Evidence(4, 4), newest=(4,))}
    events.append(got(6, 3, 1, "more")._replace(participant=3))
    if is_after:  # it names what is of the conversation by a suggestion alone
        events.append(sent(7, 4, "y")._replace(participant=3))
        events.append(got(8, 5, 7, "y")._replace(participant=4))
        causes[7] = (Cause(5, "r", "parent"),)
        publishers = {3: PublisherRecord(0, Evidence(4, 4), newest=(7,))}
    answer = conversation_of(events[0], events, causes, via=Via.conversation, publishers=publishers)
    assert answer.outcome is outcome
    how = answer.messages[1].how
    assert how is not None
    assert how.kind == kind


def test_a_consumer_that_has_never_published_for_what_it_was_handed_is_not_waited_for() -> None:
    events = sent(1, 0, "work"), got(2, 1, 1, "work")
    answer = conversation_of(events[0], events, {}, publishers={2: PublisherRecord()})
    assert answer.outcome is Outcome.done


def test_for_a_consumer_that_may_be_a_half_of_a_program_another_may_have_published() -> None:
    events = sent(1, 0, "work"), got(2, 1, 1, "work")
    publishers = {2: PublisherRecord(may_be_half=True)}
    answer = conversation_of(events[0], events, {}, publishers=publishers)
    assert answer.outcome is Outcome.unknown
    assert "only receives, and may publish by another connection" in answer.sentence
    # Where it is known what came of the message, nothing else is looked for.
    events = *events, sent(3, 2, "x")
    causes = {3: (Cause(2, "r", "parent"),)}
    answer = conversation_of(events[0], events, causes, publishers=publishers)
    assert "by another connection" not in answer.sentence


@pytest.mark.parametrize(
    ("ends", "now", "outcome"),
    [
        ((), 75.4, Outcome.open),  # it may gather such messages, or have all of them in work
        ((), 75.6, Outcome.done),
        ((4,), 20, Outcome.done),  # of its kind others are as old
        ((), None, Outcome.done),
    ],
)
def test_who_never_published_is_waited_for_unless_others_of_the_kind_were(
    ends: tuple[int, ...], now: float | None, outcome: Outcome
) -> None:
    events = [sent(1, 0, "work"), got(2, 0.1, 1, "work"), sent(3, 0.3, "x")._replace(participant=2)]
    events.append(got(4, 0.5, 3, "x")._replace(participant=3))
    moment = None if now is None else round(now * SECOND)
    context = {"dead_ends": ends, "now": moment, "causes": {3: (Cause(2, "r", "parent"),)}}
    publishers = {2: PublisherRecord(0, Evidence(1, 1), newest=(3,)), 3: PublisherRecord()}
    answer = conversation_of(events[0], events, publishers=publishers, **context)
    assert answer.outcome is outcome


QUICK_STEPS = [Handling(n * 10_000, n * 10_000 + SECOND // 5) for n in range(1, 101)]
QUICK = steady(100, took=SECOND // 5, every=SECOND // 100, until=6 * SECOND // 5)
STILL = steady(100, took=2 * SECOND, every=SECOND, until=2 * SECOND)
SLOW = steady(100, took=2 * SECOND, every=SECOND, until=15 * SECOND)


@pytest.mark.parametrize(
    ("pace", "now", "outcome"),
    [
        (None, 10.2, Outcome.open),
        (None, 10.4, Outcome.done),
        (QUICK, 1.2, Outcome.done),
        (steady(7, took=1, every=1), 1.2, Outcome.open),  # too few to say
        (SLOW, 15, Outcome.done),
        (STILL, 15, Outcome.open),
    ],
)
def test_who_published_just_now_may_publish_more_for_the_same_message(
    pace: Pace | None, now: float, outcome: Outcome
) -> None:
    events = [sent(1, 0, "work"), got(2, 0.1, 1, "work"), sent(3, 0.3, "x")._replace(participant=2)]
    events.append(got(4, 0.5, 3, "x")._replace(participant=3))
    publishers = {2: PublisherRecord(0, Evidence(1, 1), newest=(3,))}
    answer = conversation_of(
        events[0],
        events,
        {3: (Cause(2, "r", "parent"),)},
        publishers=publishers,
        paces={2: pace} if pace else {},
        now=round(now * SECOND),
    )
    assert answer.outcome is outcome
    assert ("just now" in answer.sentence) is (outcome is Outcome.open)


@pytest.mark.parametrize("slow_at", [None, 0.2])
def test_who_is_slow_with_what_comes_by_another_way_is_not_waited_for(
    slow_at: float | None,
) -> None:
    """Unless that is in the conversation, too: it may publish for it."""
    events = [sent(1, 0, "work"), got(2, 0.1, 1, "work"), sent(5, 0.3, "x")._replace(participant=2)]
    events.append(got(6, 0.5, 5, "x")._replace(participant=3))
    if slow_at is not None:
        events += [sent(3, 0, "slow"), got(4, slow_at, 3, "slow")]
    quick, slow = (
        Course(name, events[1].exchange, events[1].routing_keys) for name in ("work", "slow")
    )
    steps = {quick: QUICK_STEPS, slow: [Handling(0, 5 * SECOND)] * 20}
    every = [step for own in steps.values() for step in own]
    pace = Pace(every, [step.published_at for step in QUICK_STEPS], steps)
    causes = {5: (Cause(2, "r", "parent"), Cause(4, "r", "parent"))}
    context = {"causes": causes, "paces": {2: pace}, "now": round(1.2 * SECOND)}
    publishers = {2: PublisherRecord(0, Evidence(1, 1), newest=(5,))}
    answer = conversation_of(events[0], events, publishers=publishers, **context)
    assert ("just now" in answer.sentence) is (slow_at is not None)


@pytest.mark.parametrize(
    ("via", "keys", "unexplained", "ends", "now", "outcome"),
    [
        (Via.conversation, ("k",), 1, (2,), 11.1, Outcome.done),
        (Via.conversation, ("k",), 1, (2,), 10.9, Outcome.open),  # it may be at it still
        # Something came of others like it: it may be slow.
        (Via.conversation, ("k",), 1, (), 11.1, Outcome.unknown),
        # By a new key, it may have gone on with it.
        (Via.conversation, ("k",), 4, (2,), 11.1, Outcome.unknown),
        (Via.conversation, (), 1, (2,), 11.1, Outcome.unknown),
        (Via.links, (), 1, (2,), 11.1, Outcome.done),
        (Via.links, (), 1, (), 11.1, Outcome.unknown),
    ],
)
def test_who_says_to_what_it_reacts_since_goes_on_with_that_alone(
    via: Via,
    keys: tuple[str, ...],
    unexplained: int,
    ends: tuple[int, ...],
    now: float,
    outcome: Outcome,
) -> None:
    events = sent(1, 0, "work", keys=keys), got(2, 1, 1, "work")
    record = PublisherRecord(0, Evidence(4, 4), newest=(9, 8, 4), unexplained=unexplained)
    context = {"publishers": {2: record}, "dead_ends": ends, "now": round(now * SECOND)}
    assert conversation_of(events[0], events, {}, via=via, **context).outcome is outcome


@pytest.mark.parametrize(("via", "is_shown"), [(Via.links, True), (Via.conversation, False)])
def test_where_messages_have_keys_silence_along_links_points_to_them(
    via: Via, is_shown: bool
) -> None:
    events = sent(1, 0, "work", keys=("k",)), got(2, 1, 1, "work")
    publishers = {2: PublisherRecord(0, Evidence(4, 4), newest=(9,))}
    answer = conversation_of(events[0], events, {}, via=via, publishers=publishers)
    assert answer.outcome is Outcome.unknown
    assert answer.sentence.endswith("group them by conversation to see more") is is_shown


@pytest.mark.parametrize(
    ("record", "state"),
    [
        (PublisherRecord(4, Evidence(4, 0)), State.unknown),  # its publish since names no cause
        (PublisherRecord(0, Evidence(4, 4)), State.in_work),  # it publishes for others, and may yet
    ],
)
def test_an_order_is_in_work_where_somebody_may_be_at_it(
    record: PublisherRecord, state: State
) -> None:
    events = sent(1, 0, "work"), got(2, 1, 1, "work")
    answer = conversation_of(events[0], events, {}, publishers={2: record})
    assert (answer.outcome, answer.state) == (Outcome.open, state)


def test_who_only_begins_conversations_is_not_waited_for() -> None:
    events = sent(1, 0, "work"), got(2, 1, 1, "work")
    publishers = {2: PublisherRecord(0, Evidence(4, 0), only_begins=True)}
    assert conversation_of(events[0], events, {}, publishers=publishers).outcome is Outcome.done


def test_who_only_begins_conversations_is_not_waited_for_at_a_dead_end() -> None:
    events = sent(1, 0, "work", keys=("k",)), got(2, 1, 1, "work")
    for only_begins, outcome in ((True, Outcome.done), (False, Outcome.open)):
        record = PublisherRecord(0, Evidence(4, 0), only_begins=only_begins)
        parts = {"publishers": {2: record}, "dead_ends": [2], "now": 2 * SECOND}
        answer = conversation_of(events[0], events, {}, via=Via.conversation, **parts)
        assert answer.outcome is outcome


def test_what_was_given_back_is_not_gone_on_with() -> None:
    again = got(4, 2, 1, "work", Match.redelivered)._replace(participant=3)
    events = sent(1, 0, "work"), got(3, 1, 1, "work"), again
    causes = {4: (Cause(3, None, "returned"),)}
    publishers = {2: PublisherRecord(0, Evidence(4, 4), newest=(9,))}
    answer = conversation_of(events[0], events, causes, publishers=publishers)
    assert answer.outcome is Outcome.done
    # Nor has whoever was handed it then gone on with it.
    publishers[3] = publishers[2]
    answer = conversation_of(events[0], events, causes, publishers=publishers)
    assert answer.outcome is Outcome.unknown


@pytest.mark.parametrize(
    ("settlement", "newest", "outcome"),
    [
        (Disposition.rejected, (), Outcome.unknown),  # it may be a dead letter that waits
        (Disposition.rejected, (9,), Outcome.unknown),
        (Disposition.acknowledged, (), Outcome.open),
        (Disposition.returned, (), Outcome.waiting),  # it is in its queue again
        (Disposition.channel_closed, (9,), Outcome.waiting),
    ],
)
def test_what_was_rejected_is_not_gone_on_with(
    settlement: Disposition, newest: tuple[int, ...], outcome: Outcome
) -> None:
    events = sent(1, 0, "work"), got(3, 1, 1, "work")._replace(settlement=settlement)
    publishers = {2: PublisherRecord(0, Evidence(4, 4), newest=newest)}
    answer = conversation_of(events[0], events, {}, publishers=publishers)
    assert answer.outcome is outcome
    assert ("still may" in answer.sentence) is (outcome is Outcome.open)


@pytest.mark.parametrize("settlement", BACK)
def test_who_has_it_no_more_is_not_waited_for_and_what_it_published_before_is(
    settlement: Disposition,
) -> None:
    order, first = sent(1, 0, "work"), got(3, 1, 1, "work")._replace(settlement=settlement)
    again = got(5, 2, 1, "work", Match.redelivered)._replace(participant=3, name="mail")
    again = again._replace(settlement=Disposition.acknowledged)
    events = order, first, again
    publishers = {2: PublisherRecord(0, Evidence(4, 4), newest=(9,)), 3: PublisherRecord()}
    answer = conversation_of(order, events, {}, publishers=publishers)
    assert (answer.outcome, answer.state) == (Outcome.done, State.retried)
    publishers[2] = PublisherRecord(4, Evidence(4, 3), newest=(9, 4))  # before it was back
    answer = conversation_of(order, events, {}, publishers=publishers)
    assert answer.outcome is Outcome.open
    assert "billing has published since, perhaps for it" in answer.sentence


@pytest.mark.parametrize("settlement", [Disposition.rejected, *BACK, Disposition.acknowledged])
def test_a_dead_letter_that_its_consumer_did_not_take_has_not_ended(
    settlement: Disposition,
) -> None:
    """As of a queue for delays: it came back to where it was rejected, and is rejected again."""
    rejected, expired = Death("work", "rejected", 1), Death("delays", "expired", 1)
    first = got(3, 1, 1, "work")._replace(settlement=Disposition.rejected)
    again = got(4, 9, 1, "work", Match.dead_lettered, expired, rejected)
    events = sent(1, 0, "work"), first, again._replace(settlement=settlement)
    has_ended = settlement is Disposition.acknowledged
    assert told(*events).outcome is (Outcome.done if has_ended else Outcome.unknown)


def test_what_may_come_back_as_a_dead_letter_has_not_ended() -> None:
    events = sent(1, 0, "work"), got(3, 1, 1, "work"), got(4, 2, 1, "work", Match.redelivered)
    for returning, outcome in (({3}, Outcome.done), ({4}, Outcome.unknown)):
        assert conversation_of(events[0], events, {}, returning=returning).outcome is outcome


@pytest.mark.parametrize("settlement", BACK)
def test_what_is_back_in_its_queue_has_not_ended(settlement: Disposition) -> None:
    """However long ago, and whatever its consumer does else: it waits since it came back."""
    back = {"settlement": settlement, "settled_at": 4 * SECOND}
    order, first = sent(1, 0, "work"), got(3, 1, 1, "work")._replace(**back)
    later = 3600 * SECOND
    answer = conversation_of(order, [order, first], {}, now=later)
    assert (answer.outcome, answer.state) == (Outcome.waiting, State.waiting)
    assert answer.position == Position("work", None, Microseconds(4 * SECOND), 1, "order")
    assert (answer.counts.waiting, answer.messages[0].outcome) == (1, Outcome.waiting)
    assert answer.sentence.endswith("1 was back in work, and not handed over again")
    assert "not handed over yet" not in answer.sentence
    again = got(5, 2, 1, "work", Match.redelivered)
    answer = conversation_of(order, [order, first, again._replace(**back)], {}, now=later)
    assert answer.position == Position("work", None, Microseconds(4 * SECOND), 2, "order")
    again = again._replace(settlement=Disposition.acknowledged)
    answer = conversation_of(order, [order, first, again], {}, now=later)
    assert (answer.outcome, answer.state) == (Outcome.done, State.retried)
    dead = got(5, 2, 1, "dead", Match.dead_lettered)._replace(deaths=(Death("work", "expired", 1),))
    answer = conversation_of(order, [order, first, dead], {}, now=later)
    assert answer.state is State.failed


@pytest.mark.parametrize(
    ("noticed_at", "state", "remark"),
    [
        (5, State.unknown, "was back in its queue, and left it by 1970-01-01 00:00:05 UTC"),
        (3, State.waiting, "back in its queue, not handed over again"),  # before it came back
    ],
)
def test_what_came_back_does_not_wait_once_it_is_known_to_have_left_its_queue(
    noticed_at: int, state: State, remark: str
) -> None:
    order, delivery = sent(1, 0, "work"), got(3, 1, 1, "work")
    delivery = delivery._replace(settlement=Disposition.returned, settled_at=4 * SECOND)
    losses = {1: {"work": Loss(Microseconds(noticed_at * SECOND), "returned")}}
    answer = conversation_of(order, [order, delivery], {}, losses=losses)
    assert (answer.state, answer.messages[0].failure) == (state, None)
    assert (answer.messages[0].copies[0].remark or "").startswith(remark)


def test_of_what_came_back_and_whose_publish_is_not_stored_nobody_knows_the_next_delivery() -> None:
    delivery = got(3, 1, 1, "work")._replace(cause=None, settlement=Disposition.returned)
    assert conversation_of(delivery, [delivery], {}).state is State.unknown


def test_a_settlement_says_how_long_a_message_was_in_hand_beside_what_was_published() -> None:
    def settled(event: ConversationEvent, how: Disposition, at: float | None) -> ConversationEvent:
        micros = None if at is None else round(at * SECOND)
        return event._replace(settlement=how, settled_at=micros)

    first = settled(got(2, 1, 1, "work"), Disposition.acknowledged, 3.5)
    events = sent(1, 0, "work", "log"), first, sent(3, 2, "log")._replace(participant=2)
    logged = settled(got(4, 4, 3, "log"), Disposition.in_hand, None)
    taken = settled(got(5, 4, 1, "log"), Disposition.auto, 4)
    answer = told(*events, logged, taken, causes={3: 2})
    [[billed], [took]] = [copy.deliveries for copy in answer.messages[0].copies]
    assert (billed.handled, billed.handled_until) == (SECOND, "published")
    assert (billed.settlement, billed.settled_after) == (Disposition.acknowledged, 2.5 * SECOND)
    assert (took.settlement, took.settled_after) == (Disposition.auto, None)
    assert [each.outcome for each in answer.messages] == [Outcome.done, Outcome.open]
    assert answer.outcome is Outcome.open
    assert answer.sentence.endswith("so far. 1 is in the hands of billing")
    early = settled(got(2, 1, 1, "work"), Disposition.rejected, 0.5)  # the service was behind
    [copy] = told(sent(1, 0, "work"), early).messages[0].copies
    assert copy.deliveries[0].settled_after is None


def test_what_spans_tell_is_said_beside_what_messages_name() -> None:
    events = sent(1, 0, "work"), got(2, 1, 1, "work")
    publishers = {2: PublisherRecord(3, Evidence(4, 1, spanned=2))}
    answer = conversation_of(events[0], events, {}, via=Via.links, publishers=publishers)
    assert [each.coverage_by_spans for each in answer.participants] == [None, 0.5]


def test_nothing_is_said_to_have_come_of_a_message_that_no_other_names() -> None:
    events = sent(1, 0, "work"), got(2, 1, 1, "work")
    for via, said in (
        (Via.links, "order: no other message names it as its cause"),
        (Via.conversation, "order: no other message names it as its cause or shares its keys"),
        (Via.any, "order: no other message can have come of it"),
    ):
        assert conversation_of(events[0], events, {}, via=via).sentence == said


def test_of_what_may_be_influenced_no_sentence_says_that_it_came_of_it() -> None:
    events = sent(1, 0, "work"), got(2, 1, 1, "work"), sent(3, 2, "more")
    answer = conversation_of(events[0], events, {}, via=Via.any)
    assert answer.sentence.startswith("order may have influenced 1 more message so far. ")


REJECTED = Death("work", "rejected", 1)
EXPIRED = Death("delay", "expired", 1)


@pytest.mark.parametrize(
    ("events", "outcome", "failure"),
    [
        ((sent(1, 0, "work"), got(2, 1, 1, "work")), Outcome.done, None),
        ((sent(1, 0, "work"),), Outcome.waiting, None),
        ((sent(1, 0),), Outcome.failed, MessageFailure("unroutable")),
        (
            (
                sent(1, 0, "work"),
                got(2, 1, 1, "work"),
                got(3, 2, 1, "dead", Match.dead_lettered, REJECTED),
            ),
            Outcome.failed,
            MessageFailure("died", "work", "rejected"),
        ),
        (  # it was tried again, and never died since
            (
                sent(1, 0, "work"),
                got(2, 1, 1, "work"),
                got(3, 2, 1, "work", Match.dead_lettered, Death("retry", "expired", 1), REJECTED),
            ),
            Outcome.done,
            None,
        ),
        (  # put off by a queue for delays
            (sent(1, 0, "delay"), got(2, 9, 1, "work", Match.dead_lettered, EXPIRED)),
            Outcome.done,
            None,
        ),
        (
            (
                sent(1, 0, "work"),
                *(got(n, n, 1, "work", Match.redelivered) for n in range(2, 5)),
            ),
            Outcome.failed,
            MessageFailure("came_back", "work"),
        ),
    ],
)
def test_what_became_of_a_message(
    events: tuple[ConversationEvent, ...], outcome: Outcome, failure: MessageFailure | None
) -> None:
    answer = told(*events)
    assert (answer.outcome, answer.messages[0].failure) == (outcome, failure)


AGAIN = [got(n, n, 1, "work", Match.redelivered) for n in (2, 3, 4)]
ACKNOWLEDGED = AGAIN[-1]._replace(settlement=Disposition.acknowledged)
ANSWER = sent(5, 5, "mail")._replace(participant=2, name="billing")
IN_HAND = AGAIN[0]._replace(settlement=Disposition.in_hand)


@pytest.mark.parametrize(
    ("events", "causes", "state", "position"),
    [
        ((sent(1, 0, "work"), got(2, 1, 1, "work")), {}, State.finished, None),
        ((sent(1, 0, "work"), got(2, 1, 1, "work"), AGAIN[1]), {}, State.retried, None),
        # Handed over again and again: known to be dealt with, or not.
        ((sent(1, 0, "work"), *AGAIN), {}, State.failed, None),
        ((sent(1, 0, "work"), *AGAIN[:2], ACKNOWLEDGED), {}, State.retried, None),
        (
            (sent(1, 0, "work"), *AGAIN, ANSWER, got(6, 6, 5, "mail")),
            {5: 4},
            State.retried,
            None,
        ),
        # The message is named, not which of its deliveries; by somebody else it is no end.
        ((sent(1, 0, "work"), *AGAIN, ANSWER, got(6, 6, 5, "mail")), {5: 1}, State.retried, None),
        (
            (sent(1, 0, "work"), *AGAIN, sent(5, 5, "mail"), got(6, 6, 5, "mail")),
            {5: 1},
            State.failed,
            None,
        ),
        (
            (sent(1, 0, "work"), *AGAIN, ANSWER),
            {5: 4},
            State.waiting,
            Position("mail", None, Microseconds(5 * SECOND), type="order"),
        ),
        # The oldest that waits; who holds one counts before who was handed the last.
        (
            (sent(1, 0, "work", "mail"), got(2, 1, 1, "work"), sent(3, 2, "late")),
            {3: 2},
            State.waiting,
            Position("mail", None, Microseconds(0), type="order"),
        ),
        (
            (sent(1, 0, "work"), IN_HAND, sent(3, 3, "mail"), got(4, 4, 3, "mail")),
            {3: 2},
            State.in_work,
            Position(None, "billing", Microseconds(2 * SECOND)),
        ),
        ((sent(1, 0),), {}, State.failed, None),
    ],
)
def test_a_state_says_what_was_retried_and_where_the_others_are(
    events: tuple[ConversationEvent, ...],
    causes: dict[int, int],
    state: State,
    position: Position | None,
) -> None:
    answer = told(*events, causes=causes)
    assert (answer.state, answer.position) == (state, position)


def test_a_message_in_an_error_queue_is_the_failure_of_the_one_it_was() -> None:
    forward = Forward("work", "System.Exception: no")
    events = (sent(1, 0, "work"), got(2, 1, 1, "work"), sent(3, 2, "error", forward=forward))
    answer = conversation_of(events[0], events, {3: (Cause(2, "forward", "forward"),)})
    first, second = answer.messages
    assert first.failure == MessageFailure("error_queue", "work", None, "System.Exception: no")
    assert (second.failure, second.outcome) == (None, Outcome.waiting)
    assert answer.outcome is Outcome.failed
    assert "1 went to an error queue" in answer.sentence


def test_what_was_put_aside_and_comes_back_where_it_failed_is_tried_again() -> None:
    forward = Forward("work", "Error: no")
    put_aside = sent(3, 2, "later", forward=forward)
    events = (sent(1, 0, "work"), got(2, 1, 1, "work"), put_aside)
    back = got(4, 9, 3, "work", Match.dead_lettered)
    causes = {3: (Cause(2, "forward", "forward"),)}
    assert conversation_of(events[0], (*events, back), causes).messages[0].failure is None
    elsewhere = got(4, 9, 3, "other", Match.dead_lettered)
    assert conversation_of(events[0], (*events, elsewhere), causes).messages[0].failure


def test_where_a_message_failed_that_nothing_names_is_not_known() -> None:
    events = (sent(3, 2, "error", forward=Forward(None, "Error: no")), got(4, 3, 3, "error"))
    answer = conversation_of(events[0], events, {})
    assert answer.messages[0].failure == MessageFailure("error_queue", None, None, "Error: no")


def test_a_copy_that_nobody_got_says_what_may_have_become_of_it() -> None:
    [copy] = told(sent(1, 0, "work", expiration="60000")).messages[0].copies
    assert copy.state == "waiting"
    assert "has expired (after 60000 ms)" in (copy.remark or "")


def test_times_are_since_what_an_event_waited_for() -> None:
    events = (
        sent(1, 0, "work"),
        got(2, 1, 1, "work"),
        got(3, 4, 1, "work", Match.redelivered),
        sent(4, 4.5, "next", type_="next"),
        got(5, 6, 4, "next"),
        sent(6, 5, "aside", type_="aside"),
        got(7, 5.5, 6, "aside"),
    )
    answer = told(*events, causes={4: 3, 6: 3})
    [copy] = answer.messages[0].copies
    first, again = copy.deliveries
    assert (first.queued, again.queued) == (1 * SECOND, 3 * SECOND)
    assert (again.handled, again.handled_until) == (1 * SECOND, "published")
    assert (first.handled, again.leads_to) == (None, (4, 6))
    assert answer.critical_path == (1, 2, 3, 4, 5)
    slack = {each.record.id: each.slack for each in answer.messages}
    assert slack == {1: 0, 4: 0, 6: SECOND // 2}
    assert answer.amplification == (2, 1)
    assert answer.sentence == "order led to 2 more messages in 6.0 s"
    exact = conversation_of(events[0], events, {}, spans={3: 7})
    assert exact.messages[0].copies[0].deliveries[1].handled_until == "span"


def test_a_type_in_its_own_past_is_a_loop_and_a_message_again_is_not() -> None:
    events = (
        sent(1, 0, "q"),
        got(2, 1, 1, "q"),
        sent(3, 2, "q", type_="other"),
        got(4, 3, 3, "q"),
        sent(5, 4, "q"),
    )
    answer = told(*events, causes={3: 2, 5: 4})
    assert [(loop.type, loop.events) for loop in answer.loops] == [("order", (1, 5))]
    again = (sent(1, 0, "q"), got(2, 1, 1, "q"), sent(3, 2, "q"))
    retried = conversation_of(again[0], again, {3: (Cause(2, "celery-retry", "forward"),)})
    assert retried.loops == ()


def test_one_type_in_two_branches_is_no_loop() -> None:
    events = (
        sent(1, 0, "q", type_="first"),
        got(2, 1, 1, "q"),
        sent(3, 2, "q"),
        sent(4, 3, "q"),
    )
    assert told(*events, causes={3: 2, 4: 2}).loops == ()


def test_keys_are_what_messages_share() -> None:
    events = (sent(1, 0, "q", keys=("a", "b")), sent(2, 1, "q", keys=("b",)))
    assert told(*events).keys == ("b",)
    assert told(events[0]).keys == ("a", "b")


def test_a_delivery_stands_for_a_publish_that_was_not_seen() -> None:
    answer = told(got(1, 0, None, "work", Match.unmatched), sent(2, 1, "next"), causes={2: 1})
    unseen, led_to = answer.messages
    assert (unseen.unseen, unseen.failure, unseen.outcome) == (True, None, Outcome.done)
    assert led_to.led_by[0] == Cause(1, "r", "parent")
    assert unseen.copies[0].deliveries[0].handled == 1 * SECOND


def test_links_count_before_what_has_no_rule() -> None:
    causes = [Cause(1, None, "any"), Cause(5, "b", "parent"), Cause(2, "z", "reply")]
    assert [each.event for each in sort_causes(causes)] == [2, 5, 1]


@pytest.mark.parametrize(
    ("microseconds", "said"),
    [
        (0, "under 1 ms"),
        (-5, "under 1 ms"),
        (350_000, "350 ms"),
        (2_103_000, "2.1 s"),
        (61_000_000, "1 min 1 s"),
        (3_720_000_000, "1 h 2 min"),
    ],
)
def test_durations_are_for_people(microseconds: int, said: str) -> None:
    assert duration_words(microseconds) == said


def test_a_dead_letter_waits_for_who_rejected_it_whoever_was_handed_another_copy_since() -> None:
    events = (
        sent(1, 0, "work"),
        got(2, 1, 1, "work"),
        got(3, 4, 1, "work", Match.redelivered),
        got(4, 9, 1, "dead", Match.dead_lettered, REJECTED),
    )
    acts = {3: (Cause(2, None, "returned"),), 4: (Cause(2, None, "rejected"),)}
    answer = conversation_of(events[0], events, acts)
    [copy] = answer.messages[0].copies
    assert [each.queued for each in copy.deliveries] == [1 * SECOND, 3 * SECOND, 8 * SECOND]
    assert [each.acts for each in copy.deliveries] == [
        (),
        (BrokerAct(2, "returned"),),
        (BrokerAct(2, "rejected"),),
    ]
    assert answer.critical_path == (1, 2, 4)


def test_a_copy_that_was_pushed_out_waits_for_the_publish_that_was_one_too_many() -> None:
    full = Death("work", "maxlen", 1)
    events = (
        sent(1, 0, "work"),
        sent(2, 5, "work"),
        got(3, 6, 1, "dead", Match.dead_lettered, full),
    )
    causes = {2: (Cause(1, "r", "parent"),), 3: (Cause(2, None, "overflow"),)}
    answer = conversation_of(events[0], events, causes)
    [dead] = answer.messages[0].copies[0].deliveries
    assert (dead.acts, dead.queued) == ((BrokerAct(2, "overflow"),), 6 * SECOND)
    assert answer.critical_path == (1, 2, 3)


def test_a_copy_that_was_put_off_after_a_rejection_failed_by_the_rejection() -> None:
    late = Death("retry", "expired", 1)
    events = (
        sent(1, 0, "work"),
        got(2, 1, 1, "work"),
        got(3, 9, 1, "parked", Match.dead_lettered, late, REJECTED),
    )
    assert told(*events).messages[0].failure == MessageFailure("died", "work", "rejected")


def test_what_was_published_to_a_queue_and_came_out_of_another_was_moved_there() -> None:
    answer = told(sent(1, 0, "src"), got(2, 1, 1, "dst"))
    [copy] = answer.messages[0].copies
    assert (copy.queue, copy.state, copy.remark) == ("src", "handed_over", None)
    assert (answer.outcome, answer.counts.waiting) == (Outcome.done, 0)


def test_what_an_exchange_may_keep_may_wait_too_where_it_came_out_of_another_queue() -> None:
    publish = sent(1, 0, "src", "other")._replace(exchange="shop")
    events = publish, got(2, 1, 1, "dst"), got(3, 2, 1, "other")
    losses = {1: {"src": Loss(Microseconds(0), "not_there")}}
    for known in ({}, losses):
        answer = conversation_of(publish, events, {}, losses=known)
        copy = answer.messages[0].copies[0]
        remark = "waits, or was moved and handed over from dst"
        assert (copy.queue, copy.state, copy.remark) == ("src", "handed_over", remark)
        assert (answer.outcome, answer.messages[0].failure) == (Outcome.unknown, None)


@pytest.mark.parametrize(
    ("after", "before", "more", "outcome"),
    [
        (1, 2, {}, Outcome.unknown),
        (2, 3, {}, Outcome.unknown),  # what its last delivery led to
        (2, 3, {"declared": True, "quarantined": 1}, Outcome.unknown),
        (0, None, {}, Outcome.unknown),
        (1, 2, {"declared": True}, Outcome.done),  # left out by choice
        (0, 1, {}, Outcome.done),
        (3, 4, {}, Outcome.done),
    ],
)
def test_a_conversation_that_a_gap_spans_is_not_known_to_be_done(
    after: int, before: int | None, more: dict[str, Any], outcome: Outcome
) -> None:
    gap = Gap(1, after, before, Microseconds(0), None, "lost", **more)
    events = sent(1, 0, "work"), got(2, 1, 1, "work")
    answer = conversation_of(events[0], events, {}, gaps=[gap])
    assert answer.outcome is outcome
    lacks = answer.sentence.endswith(". Some of it may be missing: the record has a gap then")
    assert lacks is (outcome is Outcome.unknown)


def test_what_failed_or_waits_does_so_across_a_gap_too() -> None:
    gap = Gap(1, 1, None, Microseconds(0), None, "lost")
    for publish, outcome in (
        (sent(1, 0, "work"), Outcome.waiting),
        (sent(1, 0), Outcome.failed),
    ):
        assert conversation_of(publish, [publish], {}, gaps=[gap]).outcome is outcome


def test_what_a_shovel_takes_elsewhere_is_not_done_and_it_owes_no_answer() -> None:
    taken = got(2, 1, 1, "a")._replace(mover="shovel s", name="Shovel s (none@one)")
    noisy = {2: PublisherRecord(9, Evidence(9), newest=(9,), cutoff=5)}
    left = conversation_of(sent(1, 0, "a"), [sent(1, 0, "a"), taken], {}, publishers=noisy)
    assert (left.outcome, left.crossing_events()) == (Outcome.unknown, [2])
    assert left.sentence == ("order: no other message names it as its cause. 1 left by shovel s")
    events = [sent(1, 0, "a"), taken, sent(3, 2)._replace(mover="shovel s", routed_queues=("b",))]
    events.append(got(4, 3, 3, "b"))
    here = conversation_of(
        events[0], events, {3: (Cause(2, "forward-moved", "forward"),)}, publishers=noisy
    )
    assert here.crossing_events() == []
    assert "left by" not in here.sentence


@pytest.mark.parametrize(
    ("name", "connection", "queue", "headers", "expected"),
    [
        (
            "Federation link (upstream: a (b), policy: p) (u@h)",
            "x",
            "q",
            {},
            "federation link a (b",
        ),
        ("Federation link (upstream: up) (none@one) #2", "x", None, {}, "federation link up"),
        ("Shovel Move from src (none@one)", "x", "q", {}, "shovel Move from src"),
        ("Shovel s", "x", "q", {}, "shovel s"),
        ("Shoveller (u@h)", "x", "q", {}, None),
        ("u@h", "x", "federation: news -> one:down:news", {}, "a federation link"),
        ("none@one", "<one.1.2.3>", None, {"x-received-from": []}, "a federation link"),
        ("u@h", "x", None, {"x-received-from": []}, None),
        ("u@h", "<one.1.2.3>", "q", {"x-received-from": []}, None),
    ],
)
def test_movers_are_known_by_their_names_else_by_what_they_write(
    name: str, connection: str, queue: str | None, headers: dict[str, Any], expected: str | None
) -> None:
    assert mover_of(name, connection, queue, {"headers": headers}) == expected


@pytest.mark.parametrize(
    ("keys", "settlement", "basis"),
    [
        (("order-1", "order-1"), None, "by its key"),
        (("order-1", "order-2"), None, "by links"),
        ((), None, "by links"),
        (("order-1", "order-1"), Disposition.acknowledged, "settled"),
    ],
)
def test_what_is_done_says_by_what(
    keys: tuple[str, ...], settlement: Disposition | None, basis: str
) -> None:
    first, second = sent(1, 0, "work"), sent(3, 2, "x")._replace(participant=2)
    if keys:
        first, second = (
            event._replace(keys=(key,)) for event, key in zip((first, second), keys, strict=True)
        )
    handed = [got(2, 1, 1, "work"), got(4, 3, 3, "x")._replace(participant=3)]
    events = [first, second, *(each._replace(settlement=settlement) for each in handed)]
    answer = told(*events, causes={3: 2})
    assert (answer.outcome, answer.done_by) == (Outcome.done, basis)
    assert told(sent(1, 0, "work")).done_by is None


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ((sent(1, 0, "work"), got(2, 1, 1, "work")), None),
        ((sent(1, 0),), "order reached no queue"),
        (
            (
                sent(1, 0, "work"),
                got(2, 1, 1, "work"),
                got(3, 2, 1, "dead", Match.dead_lettered, REJECTED),
            ),
            "order rejected by billing in queue work; it went to queue dead",
        ),
        (
            (
                sent(1, 0, "work"),
                got(3, 2, 1, "dead", Match.dead_lettered, Death("work", "maxlen", 1)),
            ),
            "order died in work: the queue was full; it went to queue dead",
        ),
        (
            (
                sent(1, 0, "work"),
                *(got(n, n, 1, "work", Match.redelivered) for n in (2, 3, 4)),
            ),
            "order came back to work again and again, last handed to billing",
        ),
    ],
)
def test_a_failure_is_told_with_who_had_the_message_last_and_where_it_went(
    events: tuple[ConversationEvent, ...], said: str | None
) -> None:
    assert told(*events).messages[0].failure_sentence == said


def test_clauses_say_what_happened_where_and_by_whom_whatever_the_names_look_like() -> None:
    queue = "work. 2 were lost; it went to queue x"
    letter = got(4, 9, 1, "dead", Match.dead_lettered, Death(queue, "rejected", 1))
    answer = told(sent(1, 0, queue), got(2, 1, 1, queue), letter)
    [first] = answer.messages
    died = Clause("died", f"died in {queue}", 1, (queue,))
    assert answer.clauses[1:] == (died,)
    assert answer.sentence == f"{answer.clauses[0].text}. 1 died in {queue}"
    text = f"order rejected by billing in queue {queue}"
    assert first.failure_clauses == [
        Clause("rejected", text, None, (queue,), ("billing",), 2),
        Clause("went_on", "it went to queue dead", None, ("dead",)),
    ]
    assert first.failure_sentence == f"{text}; it went to queue dead"


def test_who_rejected_a_message_and_not_who_had_it_afterwards_is_named() -> None:
    last = got(3, 2, 1, "work", Match.redelivered)._replace(name="mail")
    letter = got(4, 9, 1, "dead", Match.dead_lettered, REJECTED)
    events = (sent(1, 0, "work"), got(2, 1, 1, "work"), last, letter)
    answer = conversation_of(events[0], events, {4: (Cause(2, None, "rejected"),)})
    assert answer.messages[0].failure_sentence == (
        "order rejected by billing in queue work; it went to queue dead"
    )
