"""The fault drill's judge on histories made by hand: it must be able to find each fault.

Three clients hand something on: a publishes 1, b receives it and publishes 2, c receives that and
publishes 3. Beside that a publishes 4, which nobody receives.
"""

from __future__ import annotations

import pytest

from drills.clocks import Clock
from drills.faults.history import History, Key
from drills.faults.judge import Held, Verdict, judged
from drills.faults.rows import FAULTS
from drills.faults.rows.killing import AT_A_TIME, killing
from drills.faults.runner import HEAD, Result, chosen, report
from itc import Stamp, pack
from model.gaps import Gap
from model.words import EventType

PAIRS = 200
INTERVALS = {"a": "0", "b": "10", "c": "11"}


def published(number: int) -> Key:
    return Key(EventType.published, str(number))


def received(number: int) -> Key:
    return Key(EventType.received, str(number), "queue", "there")


def gap(after: int, before: int | None) -> Gap:
    return Gap(1, after, before, 0, None if before is None else 1, "something was off")


class Story:
    """What the clients did, and what is stored of it; a test then damages what is stored."""

    def __init__(self) -> None:
        self.history = History()
        self.held: list[Held] = []
        self._clocks: dict[str, Clock] = {who: {} for who in INTERVALS}
        self._stamps = {who: Stamp.of_interval(path) for who, path in INTERVALS.items()}

    def happens(self, who: str, key: Key, *, after: str = "", is_matched: bool = True) -> None:
        """Somebody acts, having heard of all that ``after`` did; unless matched, unknown to us."""
        clock = self._clocks[who]
        for other, count in self._clocks[after].items() if after else ():
            clock[other] = max(count, clock.get(other, 0))
        clock[who] = clock.get(who, 0) + 1
        self.history.note(key, who, clock)
        if after and is_matched:
            self._stamps[who] = self._stamps[who].join(self._stamps[after].peek())
        self._stamps[who] = self._stamps[who].event()
        self.store(key, who)

    def store(self, key: Key, who: str) -> None:
        clock = pack(self._stamps[who])
        self.held.append(Held(len(self.held) + 1, key, clock, INTERVALS[who]))

    def lose(self, key: Key) -> None:
        self.held = [each for each in self.held if each.key != key]

    def judged(self, *gaps: Gap) -> Verdict:
        return judged(self.history, self.held, gaps, pairs=PAIRS)


def told(*, is_matched: bool = True) -> Story:
    story = Story()
    story.happens("a", published(1))
    story.happens("b", received(1), after="a", is_matched=is_matched)
    story.happens("b", published(2))
    story.happens("c", received(2), after="b")
    story.happens("c", published(3))
    story.happens("a", published(4))
    return story


def test_a_record_that_has_everything_is_right() -> None:
    verdict = told().judged()
    assert (verdict.events, verdict.lost, verdict.wrong, verdict.errors) == (6, 0, 0, 0)


def test_an_event_that_is_not_stored_is_lost() -> None:
    story = told()
    story.lose(published(2))
    verdict = story.judged()
    assert (verdict.lost, verdict.lost_outside, verdict.errors) == (1, [published(2)], 1)


@pytest.mark.parametrize("around", [gap(2, 4), gap(0, None), gap(1, 3), gap(3, 5)])
def test_what_is_lost_in_a_gap_is_excused(around: Gap) -> None:
    story = told()
    story.lose(published(2))  # between events 2 and 4
    verdict = story.judged(around)
    assert (verdict.lost, verdict.lost_outside, verdict.errors) == (1, [], 0)


@pytest.mark.parametrize("elsewhere", [gap(0, 2), gap(4, 6), gap(5, None)])
def test_a_gap_elsewhere_excuses_nothing(elsewhere: Gap) -> None:
    story = told()
    story.lose(published(2))
    assert story.judged(elsewhere).lost_outside == [published(2)]


def test_a_loss_is_where_its_effects_and_causes_are_not_where_its_client_went_on() -> None:
    """Nothing of b's is stored after it; c's delivery says when it must have been."""
    story = told()
    story.lose(published(2))
    story.lose(received(1))  # between events 1 and 4
    assert story.judged(gap(4, None)).lost_outside == [received(1), published(2)]
    assert story.judged(gap(1, 4)).lost_outside == []


def test_the_last_event_of_all_can_be_lost() -> None:
    story = told()
    story.lose(published(4))
    assert story.judged().lost_outside == [published(4)]


def test_a_publish_that_the_broker_never_confirmed_need_not_be_stored() -> None:
    story = told()
    story.lose(published(4))
    story.history.unsure.add(published(4))
    assert story.judged().errors == 0


def test_an_event_that_is_stored_twice_is_doubled_even_in_a_gap() -> None:
    story = told()
    story.store(received(2), "c")
    verdict = story.judged(gap(0, None))
    assert (verdict.doubled, verdict.lost, verdict.errors) == ([received(2)], 0, 1)


def test_a_delivery_that_its_client_never_saw_is_neither_doubled_nor_strange() -> None:
    story = told()
    story.store(received(3), "c")
    assert story.judged().errors == 0


def test_an_event_of_no_client_is_strange() -> None:
    story = told()
    story.store(published(9), "c")
    assert story.judged().strange == [published(9)]


def test_a_delivery_that_does_not_know_its_publish_is_wrong() -> None:
    verdict = told(is_matched=False).judged()
    assert verdict.lost == 0
    found = {(each.a.key, each.b.key, each.stored, each.true) for each in verdict.wrong_outside}
    assert (published(1), received(1), "concurrent", "before") in found
    assert verdict.errors == len(verdict.wrong_outside) > 0


def test_a_wrong_pair_is_excused_only_by_a_gap_between_the_two() -> None:
    story = told(is_matched=False)
    verdict = story.judged(gap(1, 2))
    assert verdict.wrong > 0
    assert verdict.wrong_outside == []
    assert story.judged(gap(5, None)).wrong_outside != []


def test_order_that_is_not_there_is_wrong_too() -> None:
    """Event 6 is stamped as if a had heard of what c published."""
    story = told()
    heard = Stamp.of_interval(INTERVALS["a"]).join(story.held[4].stamp.peek())
    heard = heard.join(story.held[5].stamp.peek()).event()
    story.held[-1] = story.held[-1]._replace(clock=pack(heard))
    found = {(each.stored, each.true) for each in story.judged().wrong_outside}
    assert ("before", "concurrent") in found


def test_nothing_stored_at_all_is_all_lost() -> None:
    story = told()
    story.held = []
    verdict = story.judged()
    assert (verdict.events, len(verdict.lost_outside)) == (0, 6)


def test_how_much_lies_in_gaps_is_counted() -> None:
    assert told().judged(gap(2, 5)).in_gaps == 2
    assert told().judged(gap(2, None)).in_gaps == 4


def test_the_table_of_results_counts_each_kind_of_error() -> None:
    story = told(is_matched=False)
    story.lose(published(4))
    story.store(received(2), "c")
    verdict = story.judged()
    result = Result("fault", "sqlite")
    result.add(verdict, ["it took too long"], [])
    assert result.errors == 1 + 1 + len(verdict.wrong_outside) + 1
    head, rule, line = report([result]).splitlines()
    assert [cell.strip() for cell in head.strip("|").split("|")] == list(HEAD)
    assert rule.count("---") == len(HEAD)
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert dict(zip(HEAD, cells, strict=True)) == {
        "fault": "fault",
        "store": "sqlite",
        "trials": "1",
        "events": "6",
        "lost": "1",
        "lost outside gaps": "1",
        "doubled": "1",
        "wrong outside gaps": str(len(verdict.wrong_outside)),
        "gaps": "0",
        "else": "1",
        "seconds": "0",
    }


def test_rows_are_chosen_by_name_store_and_length() -> None:
    everything = chosen(FAULTS.values())
    assert {fault.name for fault, _ in everything} == FAULTS.keys()
    assert chosen(FAULTS.values(), ["tracing"]) == [(FAULTS["tracing"], "sqlite")]
    assert {store for _, store in chosen(FAULTS.values(), store="postgres")} == {"postgres"}
    short = chosen(FAULTS.values(), short=True)
    assert {store for _, store in short} == {"sqlite", "postgres"}
    assert len(short) < 10


def test_kills_are_spread_over_both_stores() -> None:
    rows = killing(4 * AT_A_TIME)
    assert [row.stores for row in rows] == [("sqlite",), ("postgres",)] * 2
