"""The queue in which owners take turns."""

from __future__ import annotations

import asyncio

from app.round_robin import RoundRobin, Turns


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


async def test_an_address_waits_for_one_request_of_each_other_address() -> None:
    turns, begun = Turns(), list[str]()
    for address in ("a",) * 100 + ("b",) * 100 + ("c",):
        turns.ask(address, lambda address=address: begun.append(address))  # type: ignore[misc]
    await _until_begun(begun, 201)
    assert begun[:4] == ["a", "b", "c", "a"]


async def test_few_requests_are_begun_in_a_pass_of_the_loop() -> None:
    turns, begun = Turns(), list[str]()
    for number in range(40):
        turns.ask(f"{number % 3}", lambda: begun.append("a"))
    assert max(await _until_begun(begun, 40)) == 2


async def test_who_asks_after_all_have_had_their_turn_is_begun_too() -> None:
    turns, begun = Turns(), list[str]()
    for number in range(3):
        turns.ask("a", lambda: begun.append("a"))
        await _until_begun(begun, number + 1)


async def test_who_asks_while_another_is_begun_has_a_turn() -> None:
    turns, begun = Turns(), list[str]()
    faults = list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    turns.ask("a", lambda: turns.ask("b", lambda: begun.append("b")))
    await _until_begun(begun, 1)
    await asyncio.sleep(0)
    assert faults == []


async def _until_begun(begun: list[str], number: int) -> list[int]:
    """How many were begun in each pass of the loop."""
    counts = list[int]()
    async with asyncio.timeout(10):
        while len(begun) < number:
            before = len(begun)
            await asyncio.sleep(0)  # one pass
            counts.append(len(begun) - before)
    return counts
