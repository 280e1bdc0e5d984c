"""The judge of what the broker does, on logs made by hand: it must tell sure from possible."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from drills.acts.asking import Asked, Sightings
from drills.acts.judge import Judge
from drills.acts.log import Act, ActKind, Log
from drills.acts.topology import (
    DEAD,
    DIRECT,
    KEPT,
    DeadLetters,
    Layout,
    QueueBinding,
    QueueRules,
    drawn,
)
from drills.acts.verdict import Comparison, RoundResult


def topology() -> Layout:
    made = Layout()
    parked = DeadLetters("", "parked")
    for rules in (
        QueueRules("parked"),
        QueueRules("audit"),
        QueueRules("plain"),
        QueueRules("work", parked),
        QueueRules("both", DeadLetters(DEAD)),
        QueueRules("wait", DeadLetters(DEAD), ttl=10),
        QueueRules("short", parked, longest=1),
        QueueRules("two", parked, longest=2),
        QueueRules("delay0", DeadLetters("", "delay1"), ttl=10),
        QueueRules("delay1", DeadLetters("", "delay2"), ttl=10),
        QueueRules("delay2", DeadLetters("", "plain"), ttl=10),
        QueueRules("tried", DeadLetters("", "retry")),
        QueueRules("retry", DeadLetters("", "tried"), ttl=10),
        QueueRules("history"),
        QueueRules("timed", parked, limit=2, timeout=1_000),
    ):
        made.add(rules)
    made.bindings += [QueueBinding(DEAD, "", "parked"), QueueBinding(DEAD, "", "audit")]
    made.bindings += [QueueBinding(DIRECT, "a", "plain"), QueueBinding(DIRECT, "b", "audit")]
    made.unbound = ["history"]
    return made


@dataclass
class LogStory:
    """A log, written one act after the other."""

    log: Log = field(default_factory=Log)

    def publish(self, program: str, body: str, queue: str, *, is_replay: bool = False) -> Act:
        act = self.log.publish(program, body, "", queue, is_replay=is_replay)
        self.log.confirm(act)
        return act

    def get(self, program: str, body: str, queue: str, *, again: bool = False) -> Act:
        return self.log.delivery(program, body, queue, redelivered=again, asked=self.log.now)

    def pushed(self, program: str, body: str, queue: str, *, again: bool = False) -> Act:
        return self.log.delivery(program, body, queue, redelivered=again)

    def purge(self, program: str, queue: str) -> None:
        self.log.confirm(self.log.purge(program, queue))

    @property
    def truth(self) -> Judge:
        truth = Judge(topology(), self.log)
        assert truth.unexplained == []
        return truth

    def said(self, a: Act, b: Act) -> str:
        """The verdict on an act and a later one."""
        truth = self.truth
        if truth.is_sure(a.number, b.number):
            assert truth.is_possible(a.number, b.number)
            return "sure"
        return "possible" if truth.is_possible(a.number, b.number) else "impossible"


def steps(told: LogStory) -> set[tuple[int, int, str]]:
    return {(step.source, step.target, step.situation) for step in told.truth.steps}


def test_a_publish_influences_what_its_receiver_publishes_and_nobody_else() -> None:
    told = LogStory()
    sent = told.publish("anna", "1", "plain")
    other = told.publish("carl", "2", "plain")
    got = told.get("ben", "1", "plain")
    answer = told.publish("ben", "3", "plain")
    assert [told.said(sent, each) for each in (other, got, answer)] == [
        "impossible",
        "sure",
        "sure",
    ]
    assert told.said(other, answer) == "impossible"
    assert steps(told) == {(sent.number, got.number, "message")}


def test_what_was_published_while_a_pushed_delivery_came_did_not_lead_to_it() -> None:
    told = LogStory()
    told.publish("anna", "1", "plain")
    own = told.publish("ben", "2", "plain")
    pushed = told.pushed("ben", "1", "plain")
    after = told.publish("ben", "3", "plain")
    assert (told.said(own, pushed), told.said(pushed, after)) == ("possible", "sure")


@pytest.mark.parametrize("kind", [ActKind.give_back, ActKind.die])
def test_who_gives_a_copy_back_influences_its_next_delivery(kind: ActKind) -> None:
    told = LogStory()
    told.publish("anna", "1", "plain")
    first = told.get("ben", "1", "plain")
    meanwhile = told.publish("ben", "2", "plain")
    told.log.part(kind, first)
    too_late = told.publish("ben", "3", "plain")
    second = told.get("carl", "1", "plain", again=True)
    said = [told.said(each, second) for each in (first, meanwhile, too_late)]
    assert said == ["sure", "sure", "impossible"]


def test_a_copy_that_was_held_too_long_is_handed_over_again_whatever_its_holder_says() -> None:
    """On RabbitMQ 4.3; what its holder does until it is told so may have had a part in it."""
    told = LogStory()
    told.publish("anna", "1", "timed")
    first = told.pushed("ben", "1", "timed")
    meanwhile = told.publish("ben", "2", "plain")
    second = told.pushed("carl", "1", "timed", again=True)
    told.log.part(ActKind.time_out, first)
    told.log.part(ActKind.acknowledge, second)
    third = told.pushed("dora", "1", "timed", again=True)
    assert [told.said(each, second) for each in (first, meanwhile)] == ["sure", "possible"]
    assert [told.said(each, third) for each in (first, second)] == ["sure", "sure"]
    told.log.part(ActKind.reject, third)
    letter = told.get("emil", "1", "parked")
    assert [told.said(each, letter) for each in (first, third)] == ["sure", "sure"]


def test_who_rejects_influences_the_dead_letter() -> None:
    told = LogStory()
    sent = told.publish("anna", "1", "work")
    got = told.get("ben", "1", "work")
    told.log.part(ActKind.reject, got)
    too_late = told.publish("ben", "2", "plain")
    letter = told.get("carl", "1", "parked")
    said = [told.said(each, letter) for each in (sent, got, too_late)]
    assert said == ["sure", "sure", "impossible"]
    assert (got.number, letter.number, "rejected") in steps(told)


def test_a_dead_letter_in_two_queues_has_one_rejecter() -> None:
    told = LogStory()
    told.publish("anna", "1", "both")
    got = told.get("ben", "1", "both")
    told.log.part(ActKind.reject, got)
    letters = [told.get("carl", "1", queue) for queue in ("parked", "audit")]
    assert [told.said(got, each) for each in letters] == ["sure", "sure"]
    assert told.said(letters[0], told.publish("dora", "2", "plain")) == "impossible"


def test_each_round_of_a_retry_has_the_rejecters_before_it() -> None:
    told = LogStory()
    told.publish("anna", "1", "tried")
    rejecters = []
    for name in ("ben", "carl", "dora"):
        got = told.get(name, "1", "tried")
        assert [told.said(each, got) for each in rejecters] == ["sure"] * len(rejecters)
        told.log.part(ActKind.reject, got)
        rejecters.append(got)


def test_a_message_goes_through_delays_in_silence() -> None:
    told = LogStory()
    sent = told.publish("anna", "1", "delay0")
    got = told.get("ben", "1", "plain")
    assert steps(told) == {(sent.number, got.number, "3 or more in silence")}


def test_an_expired_message_is_in_both_queues() -> None:
    told = LogStory()
    sent = told.publish("anna", "1", "wait")
    other = told.publish("carl", "2", "wait")
    letters = [told.get("ben", "1", "parked"), told.get("dora", "1", "audit")]
    assert [told.said(sent, each) for each in letters] == ["sure", "sure"]
    assert [told.said(other, each) for each in letters] == ["impossible", "impossible"]


def test_the_publish_that_makes_a_queue_too_long_pushes_the_first_one_out() -> None:
    told = LogStory()
    told.publish("anna", "1", "short")
    pusher = told.publish("ben", "2", "short")
    too_late = told.publish("carl", "3", "short")
    letter = told.get("dora", "1", "parked")
    second = told.get("emil", "2", "parked")
    assert (told.said(pusher, letter), told.said(too_late, letter)) == ("sure", "impossible")
    assert told.said(too_late, second) == "sure"
    assert (pusher.number, letter.number, "overflow") in steps(told)


def test_as_many_push_as_the_queue_may_be_long() -> None:
    told = LogStory()
    told.publish("anna", "1", "two")
    pushers = [told.publish(name, name, "two") for name in ("ben", "carl", "dora")]
    letter = told.get("emil", "1", "parked")
    assert [told.said(each, letter) for each in pushers] == ["sure", "sure", "impossible"]


def test_of_two_publishes_at_once_either_may_have_pushed() -> None:
    told = LogStory()
    told.publish("anna", "1", "short")
    one = told.log.publish("ben", "2", "", "short")
    other = told.log.publish("carl", "3", "", "short")
    told.log.confirm(one)
    told.log.confirm(other)
    letter = told.get("dora", "1", "parked")
    assert [told.said(each, letter) for each in (one, other)] == ["possible", "possible"]


def test_a_delivery_of_equal_messages_may_be_of_either() -> None:
    told = LogStory()
    one = told.publish("anna", "same", "plain")
    other = told.publish("ben", "same", "plain")
    got = told.get("carl", "same", "plain")
    assert [told.said(each, got) for each in (one, other)] == ["possible", "possible"]


def test_what_led_to_both_of_equal_messages_is_sure() -> None:
    told = LogStory()
    root = told.publish("dora", "1", "plain")
    for name in ("anna", "ben"):
        again = name == "ben"
        got = told.get(name, "1", "plain", again=again)
        told.publish(name, "same", "plain")
        told.log.part(ActKind.give_back, got)
    got = told.get("carl", "same", "plain")
    assert told.said(root, got) == "sure"


def test_what_was_purged_is_not_handed_over() -> None:
    told = LogStory()
    gone = told.publish("anna", "same", "plain")
    told.purge("dora", "plain")
    sent = told.publish("ben", "same", "plain")
    got = told.get("carl", "same", "plain")
    assert (told.said(gone, got), told.said(sent, got)) == ("impossible", "sure")


def test_a_purge_spares_what_was_in_hand() -> None:
    told = LogStory()
    first = told.publish("anna", "same", "plain")
    held = told.get("dora", "same", "plain")
    told.purge("emil", "plain")
    told.log.part(ActKind.give_back, held)
    told.publish("ben", "same", "plain")
    got = told.get("carl", "same", "plain", again=True)
    assert told.said(first, got) == "sure"
    assert told.said(held, got) == "sure"


def test_a_replayed_dead_letter_is_the_replays_and_has_its_own_rejecter() -> None:
    told = LogStory()
    told.publish("anna", "1", "work")
    first = told.get("ben", "1", "work")
    told.log.part(ActKind.reject, first)
    letter = told.get("carl", "1", "parked")
    replay = told.publish("carl", "1", "work", is_replay=True)
    told.log.part(ActKind.acknowledge, letter)
    second = told.get("dora", "1", "work")
    told.log.part(ActKind.reject, second)
    again = told.get("emil", "1", "parked")
    assert [told.said(each, again) for each in (first, replay, second)] == ["sure"] * 3
    assert {
        (replay.number, again.number, "replayed"),
        (second.number, again.number, "rejected"),
    } <= (steps(told))


def test_who_left_may_have_been_handed_what_it_never_saw() -> None:
    told = LogStory()
    told.publish("anna", "1", "plain")
    known = told.publish("ben", "2", "parked")
    told.log.leave("ben", "plain")
    got = told.get("carl", "1", "plain", again=True)
    assert told.said(known, got) == "sure"
    assert (known.number, got.number, "returned unseen, its holder meanwhile") in steps(told)


def test_of_two_that_left_either_may_have_been_handed_it() -> None:
    told = LogStory()
    told.publish("anna", "1", "plain")
    known = [told.publish(name, name, "parked") for name in ("ben", "carl")]
    for name in ("ben", "carl"):
        told.log.leave(name, "plain")
    got = told.get("dora", "1", "plain", again=True)
    assert [told.said(each, got) for each in known] == ["possible", "possible"]


def test_a_delivery_that_no_copy_explains_is_the_judges_own_error() -> None:
    told = LogStory()
    told.publish("anna", "1", "plain")
    got = told.get("ben", "1", "audit")
    assert Judge(topology(), told.log).unexplained == [got]


@pytest.mark.parametrize("is_43", [False, True])
def test_each_drawn_topology_has_every_situation(is_43: bool) -> None:
    for seed in range(20):
        made = drawn(random.Random(seed), is_43=is_43)
        queues = made.queues.values()
        assert sum(each.ttl is not None for each in queues) >= 5
        assert {each.longest for each in queues} > {None}
        assert any(each.limit for each in queues)
        assert set(made.taken_from) <= set(made.queues)
        arguments = {name for each in queues for name in each.arguments}
        assert ({"x-consumer-timeout", "x-delayed-retry-type"} <= arguments) is is_43
        for rules in queues:
            if rules.dead_letters and rules.dead_letters.exchange == "":
                assert rules.dead_letters.key in made.queues


def test_a_dead_letter_may_keep_the_flag_of_the_queue_where_it_died() -> None:
    """On RabbitMQ 4; on 3.x it comes without."""
    told = LogStory()
    told.publish("anna", "1", "work")
    for name, kind in (("ben", ActKind.give_back), ("carl", ActKind.reject)):
        told.log.part(kind, told.get(name, "1", "work", again=name == "carl"))
    letter = told.get("dora", "1", "parked", again=True)
    assert told.said(told.log.acts[1], letter) == "sure"


def test_a_copied_key_takes_a_message_to_another_queue() -> None:
    told = LogStory()
    sent = told.log.publish("anna", "1", DIRECT, "a", copied=("b",))
    told.log.confirm(sent)
    both = [told.get("ben", "1", queue) for queue in ("plain", "audit")]
    assert [told.said(sent, each) for each in both] == ["sure", "sure"]


def test_an_exchange_that_keeps_messages_hands_them_over_later() -> None:
    told = LogStory()
    sent = told.log.publish("anna", "1", KEPT, "")
    told.log.confirm(sent)
    told.log.bind("ben", "history")
    got = told.get("carl", "1", "history")
    assert steps(told) == {(sent.number, got.number, "kept message")}


class ForgedAnswers(Asked):
    """The answers of a service that relates two acts as the test has it, and knows no cause."""

    def __init__(self, log: Log, before: set[tuple[int, int]]) -> None:
        self.caused = {act.number: set() for act in log.acts}
        self._before = before

    def relation(self, a: int, b: int) -> str:
        return "before" if (a, b) in self._before else "concurrent"

    async def ask_causes(self, numbers: Iterable[int]) -> None:
        pass

    async def comparison(self, a: int, b: int) -> dict[str, Any]:
        return {"answer": "unknown", "relation": self.relation(a, b), "path": None}

    async def sample(self, count: int, draw: random.Random) -> tuple[Counter[str], int]:
        return Counter(), 0


async def judged(told: LogStory, before: set[tuple[int, int]], *, is_exact: bool) -> RoundResult:
    seen = Sightings(told.log, [])
    seen.missing.clear()
    for act in told.log.acts:
        act.clock = {act.program: act.number + 1}
        seen.event_of[act.number] = cast("Any", SimpleNamespace(id=act.number + 1))
    answers = ForgedAnswers(told.log, before)
    comparison = Comparison(told.log, told.truth, seen, answers, is_exact=is_exact)
    return await comparison.judge(random.Random(1))


def test_who_names_an_act_outside_the_broker_comes_after_it() -> None:
    told = LogStory()
    sent = told.publish("anna", "1", "plain")
    got = told.get("ben", "1", "plain")
    told.log.part(ActKind.acknowledge, got)
    naming = told.log.publish("carl", "2", "", "plain", causes=(got.number,))
    assert [told.said(act, naming) for act in (sent, got)] == ["sure", "sure"]
    assert told.said(told.publish("dora", "3", "plain"), naming) == "impossible"


@pytest.mark.parametrize(
    ("forged", "inexact"),
    [([], 0), ([(0, 1)], 1), ([(1, 3)], 1), ([(0, 3)], 1), ([(0, 2), (0, 3)], 2)],
)
async def test_clocks_that_say_more_or_less_than_is_true_are_wrong_where_all_is_known(
    forged: list[tuple[int, int]], inexact: int
) -> None:
    """Each forged pair is related otherwise than it is."""
    told = LogStory()
    told.publish("anna", "1", "plain")
    told.publish("carl", "2", "audit")
    told.get("ben", "1", "plain")
    told.publish("ben", "3", "plain")
    true = {(0, 2), (0, 3), (2, 3)}
    outcome = await judged(told, true ^ set(forged), is_exact=True)
    assert (outcome.inexact, outcome.wrong) == (inexact, inexact)
    assert (await judged(told, true ^ set(forged), is_exact=False)).inexact == 0
