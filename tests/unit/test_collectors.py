"""The plugin's collectors: what comes again is known, and what is missing is counted."""

from __future__ import annotations

from typing import Any

import msgspec

from app.broker.deliveries import Bundle
from app.traces.losses.audit import Ledger
from app.traces.losses.collectors import MOST_COLLECTORS, Collectors
from app.traces.losses.marks import Point


def bundle(number: int, first: int, records: int = 2, **head: Any) -> Bundle:
    return Bundle(
        **{"node": "a", "epoch": 1, "lost": 0} | head, number=number, first=first, records=records
    )


def take(collectors: Collectors, *bundles: Bundle) -> list[tuple[int, int]]:
    """(number, ordinal) of each record that is new."""
    new = []
    for each in bundles:
        ordinals = range(each.first, each.first + each.records) if each.records else [-1]
        new += [
            (each.number, ordinal)
            for ordinal in ordinals
            if collectors.take(each, ordinal, 10 * each.number, each.number)
        ]
    return new


def reasons(collectors: Collectors) -> list[str]:
    return [missing.reason for missing in collectors.take_missing()]


def stored(collectors: Collectors) -> Collectors:
    """The same after a restart."""
    ledger = Ledger.load(Ledger(collectors=collectors.dump()).dump())
    assert ledger is not None
    return Collectors(ledger.collectors)


def test_in_order_all_is_new_and_nothing_missing() -> None:
    collectors = Collectors()
    assert len(take(collectors, bundle(0, 0), bundle(1, 2), bundle(2, 4))) == 6
    assert reasons(collectors) == []


def test_what_comes_again_is_known_even_a_part_of_a_bundle() -> None:
    collectors = Collectors()
    take(collectors, bundle(0, 0))
    collectors.take(bundle(1, 2), 2, 0, 0)
    again = stored(collectors)
    assert take(again, bundle(0, 0), bundle(1, 2), bundle(2, 4)) == [(1, 3), (2, 4), (2, 5)]
    assert reasons(again) == []


def test_lost_bundles_are_a_hole_of_known_size_after_the_last_that_came() -> None:
    collectors = Collectors()
    take(collectors, bundle(3, 6))
    again = stored(collectors)
    take(again, bundle(6, 13))
    (missing,) = again.take_missing()
    assert missing.begins == Point(30, 3)
    assert missing.reason == (
        "5 records of the broker plugin on a never came: 0 that it could not keep, and 5 in 2 lost "
        "bundles"
    )


def test_what_the_collector_could_not_keep_is_told_apart() -> None:
    collectors = Collectors()
    take(collectors, bundle(0, 0), bundle(1, 9, lost=7))
    assert "7 records" in reasons(collectors)[0]
    take(collectors, bundle(3, 14, lost=1))
    assert "1 that it could not keep, and 2 in 1 lost bundles" in reasons(collectors)[0]


def test_one_that_begins_with_a_loss_says_so() -> None:
    collectors = Collectors()
    take(collectors, bundle(0, 3, lost=3))
    assert "3 records" in reasons(collectors)[0]


def test_a_trace_that_begins_late_misses_nothing() -> None:
    collectors = Collectors()
    assert len(take(collectors, bundle(17, 400))) == 2
    assert reasons(collectors) == []


def test_each_node_has_numbers_of_its_own() -> None:
    collectors = Collectors()
    take(collectors, bundle(0, 0), bundle(0, 0, node="b"), bundle(1, 2), bundle(1, 2, node="b"))
    assert reasons(collectors) == []
    take(collectors, bundle(3, 6, node="b"))
    assert "on b never came" in reasons(collectors)[0]


def test_a_killed_collector_is_told_of_once() -> None:
    collectors = Collectors()
    take(collectors, bundle(0, 0), bundle(1, 2))
    take(collectors, bundle(0, 0, epoch=2))
    (missing,) = collectors.take_missing()
    assert "on a ended without notice" in missing.reason
    assert missing.begins == Point(10, 1)
    take(collectors, bundle(1, 2, epoch=2), bundle(0, 0, epoch=2))
    assert reasons(stored(collectors)) == reasons(collectors) == []


def test_the_first_bundles_of_the_next_collector_may_be_missing_too() -> None:
    collectors = Collectors()
    take(collectors, bundle(0, 0), bundle(2, 11, epoch=2))
    ended, missing = reasons(collectors)
    assert "without notice" in ended
    assert "11 records" in missing


def test_one_that_ends_in_order_leaves_nothing_missing() -> None:
    collectors = Collectors()
    take(collectors, bundle(0, 0))
    assert take(collectors, bundle(1, 2, 0, end=True)) == []
    assert take(stored(collectors), bundle(0, 0), bundle(0, 0, epoch=2)) == [(0, 0), (0, 1)]
    take(collectors, bundle(0, 0, epoch=2))
    assert reasons(collectors) == []


def test_a_loss_at_the_end_is_counted() -> None:
    collectors = Collectors()
    take(collectors, bundle(0, 0), bundle(1, 6, 0, end=True, lost=4))
    assert "4 records" in reasons(collectors)[0]


def test_what_an_earlier_collector_sent_is_known_when_it_comes_again() -> None:
    collectors = Collectors()
    take(collectors, bundle(0, 0), bundle(0, 0, epoch=2))
    collectors.take_missing()
    again = stored(collectors)
    assert take(again, bundle(0, 0), bundle(0, 0, epoch=2), bundle(1, 2, epoch=2)) == [
        (1, 2),
        (1, 3),
    ]
    assert reasons(again) == []


def test_a_bundle_that_cannot_be_read_counts_with_all_its_records() -> None:
    collectors = Collectors()
    broken = bundle(0, 0, 5)
    assert collectors.take(broken, -1, 0, 0)
    again = stored(collectors)
    assert not again.take(msgspec.structs.replace(broken), -1, 0, 0)
    assert len(take(again, bundle(1, 5))) == 2
    assert reasons(again) == []


def test_a_new_queue_is_a_new_beginning() -> None:
    collectors = Collectors()
    take(collectors, bundle(0, 0))
    collectors.forget()
    take(collectors, bundle(9, 90))
    assert reasons(collectors) == []


def test_few_collectors_are_remembered() -> None:
    collectors = Collectors()
    for epoch in range(3 * MOST_COLLECTORS):
        take(collectors, bundle(0, 0, epoch=epoch))
    assert len(collectors.dump()) == MOST_COLLECTORS
