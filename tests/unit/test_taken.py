"""Patterns of exchanges and queues against a plain reference of what topic exchanges do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tracker.taken import ALL, LONGEST, MOST_PATTERNS, Takes, covers, make_selection

words = st.sampled_from(["a", "b", "", "#", "*", "ab"])
patterns = st.lists(words, min_size=1, max_size=8).map(".".join)
names = st.lists(st.sampled_from(["a", "b", "", "ab"]), min_size=1, max_size=8).map(".".join)


def reference(pattern: list[str], name: list[str]) -> bool:
    """As the words are read one by one, with every choice tried."""
    if not pattern:
        return not name
    first, *rest = pattern
    if first == "#":
        return any(reference(rest, name[left:]) for left in range(len(name) + 1))
    return bool(name) and first in ("*", name[0]) and reference(rest, name[1:])


@given(patterns, names)
def test_a_pattern_covers_what_the_reference_says(pattern: str, name: str) -> None:
    assert covers(pattern, name) == reference(pattern.split("."), name.split("."))


@given(st.none() | st.lists(patterns, min_size=1, max_size=4), names)
def test_one_of_several_is_enough_and_keys_cover_the_same(
    several: list[str] | None, name: str
) -> None:
    wish = make_selection(several, ["q"])
    takes = Takes(wish)
    expected = several is None or any(covers(each, name) for each in several)
    assert takes.publishes(name) is expected
    assert takes.publishes(name) is expected  # from memory too
    assert any(covers(key, f"publish.{name}") for key in wish.keys) is expected
    assert not any(covers(key, "deliver.r") for key in wish.keys)


def test_many_signs_take_no_time() -> None:
    pattern = ".".join(["#", "a"] * 60)
    assert not covers(pattern, ".".join("a" * 59 + "b"))


@given(st.lists(patterns, min_size=1, max_size=4))
def test_all_is_all_whatever_stands_beside_it(several: list[str]) -> None:
    assert make_selection([*several, "#"], None) == ALL
    assert ALL.keys == ("#",)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ([], "exchanges is an empty list"),
        (["a"] * (MOST_PATTERNS + 1), f"more than {MOST_PATTERNS} exchanges"),
        (["ü" * (LONGEST // 2 + 1)], "too long"),
        (["a\0"], "no name has"),
        (["\ud800"], "no text"),
    ],
)
def test_what_no_broker_has_is_refused_in_words(bad: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_selection(bad, None)
    with pytest.raises(ValueError, match=words.replace("exchanges", "queues")):
        make_selection(None, bad)


def test_what_is_taken_is_said_and_cut() -> None:
    assert make_selection(["", "a.#"], None).sentence == (
        "only some exchanges and queues are taken: exchanges (the default one), a.#; all queues"
    )
    long = make_selection(None, ["q" * 200, *map(str, range(9))]).sentence
    assert long.endswith("q…, 0, 1, 2, 3 and 5 more")
