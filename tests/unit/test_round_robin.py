"""The queue in which owners take turns."""

from __future__ import annotations

from app.round_robin import RoundRobin


def filled(*items: str) -> RoundRobin[str]:
    """A queue of items, each of whom its first letter names."""
    queue: RoundRobin[str] = RoundRobin()
    for item in items:
        queue.put(item[0], item)
    return queue


def test_owners_take_turns() -> None:
    queue = filled("a1", "a2", "a3", "b1", "c1", "b2")
    assert [queue.take() for _ in range(7)] == ["a1", "b1", "c1", "a2", "b2", "a3", None]


def test_what_is_removed_has_no_turn() -> None:
    queue = filled("a1", "a2", "b1")
    assert queue.remove("a", "a2")
    assert not queue.remove("a", "a2")
    assert queue.remove("b", "b1")
    assert ([*queue], len(queue), queue.owners()) == (["a1"], 1, 1)


def test_who_may_not_keeps_the_first_place() -> None:
    queue = filled("a1", "b1", "b2", "c1")
    assert queue.take(lambda owner: owner != "a") == "b1"
    assert queue.take(lambda _: False) is None
    assert (queue.count_of("a"), queue.count_of("b"), queue.count_of("d")) == (1, 1, 0)
    assert [queue.take() for _ in range(3)] == ["a1", "c1", "b2"]
