"""Connections: what is announced, what is listed, and names that are used again."""

from __future__ import annotations

import msgspec

from app.store import Store
from app.store.capture.connections import LIST_AGE
from app.store.database.chunks import CHUNK
from app.stored.capture import BrokerConnection, ClosedConnection, NewConnection

NODE = "rabbit@one"
NAME = "10.0.0.7:4711 -> 10.0.0.1:5672"
S = 1_000_000


def opened(
    at: int, name: str = NAME, *, client: str | None = "orders", pid: str = ""
) -> NewConnection:
    return NewConnection(NODE, name, "/", "shop", client, "12", at * S, pid or f"<{name} at {at}>")


def listed(at: int, name: str = NAME) -> NewConnection:
    """What the management API says of it."""
    return msgspec.structs.replace(opened(at, name), pid=None)


def closed(of: NewConnection, at: int) -> ClosedConnection:
    return ClosedConnection(
        of.node, of.name, of.pid or f"<{of.name} at {of.opened_at // S}>", at * S
    )


async def ever(store: Store, name: str = NAME) -> list[BrokerConnection]:
    """All connections that had a name, oldest first."""
    found = await store.connections.owners([name], 0)
    return sorted(found, key=lambda each: (each.opened_at, each.id))


async def spans(store: Store, name: str = NAME) -> list[tuple[int, int | None]]:
    """When the connections of a name were opened and closed, in seconds."""
    found = await ever(store, name)
    return [(each.opened_at // S, each.closed_at and each.closed_at // S) for each in found]


async def test_a_connection_is_kept_with_all_that_is_known(store: Store) -> None:
    await store.connections.add([opened(5)])
    found = await store.connections.find([NAME, "unknown"])
    assert found == {
        NAME: BrokerConnection(
            id=found[NAME].id,
            node=NODE,
            name=NAME,
            vhost="/",
            user="shop",
            client="orders",
            process="12",
            opened_at=5 * S,
            closed_at=None,
        )
    }


async def test_what_comes_again_changes_nothing(store: Store) -> None:
    one, two = opened(5), opened(6, "another")
    await store.connections.add([one, one, two], [closed(one, 7)])
    before = await ever(store)
    await store.connections.add([one, two], [closed(one, 7)])
    await store.connections.add([listed(5)])
    assert await ever(store) == before
    assert await spans(store) == [(5, 7)]
    assert await spans(store, "another") == [(6, None)]


async def test_a_name_that_is_used_again_is_another_connection(store: Store) -> None:
    first, second = opened(5, client="orders"), opened(9, client="billing")
    await store.connections.add([first], [closed(first, 7)])
    old = (await store.connections.find([NAME]))[NAME]
    await store.connections.add([second])
    new = (await store.connections.find([NAME]))[NAME]
    assert (old.client, new.client) == ("orders", "billing")
    assert new.id != old.id
    assert await spans(store) == [(5, 7), (9, None)]


async def test_opened_closed_and_opened_again_in_one_batch(store: Store) -> None:
    first, second = opened(5), opened(9)
    await store.connections.add([first, second], [closed(first, 7)])
    assert await spans(store) == [(5, 7), (9, None)]


async def test_without_a_word_of_its_end_the_next_of_its_name_ends_it(store: Store) -> None:
    await store.connections.add([opened(5)])
    await store.connections.add([opened(9)])
    assert await spans(store) == [(5, 9), (9, None)]


async def test_an_announcement_that_comes_late_is_no_newer(store: Store) -> None:
    await store.connections.add([listed(9)])
    await store.connections.add([opened(5)])
    assert await spans(store) == [(5, 9), (9, None)]
    assert (await store.connections.find([NAME]))[NAME].opened_at == 9 * S


async def test_the_end_of_one_that_was_only_listed_is_known_by_its_name(store: Store) -> None:
    await store.connections.add([listed(5)])
    await store.connections.add([], [closed(opened(3), 4)])
    assert await spans(store) == [(5, None)]
    await store.connections.add([], [closed(opened(5), 7)])
    assert await spans(store) == [(5, 7)]


async def test_one_that_was_listed_and_is_announced_ends_by_its_process(store: Store) -> None:
    await store.connections.add([listed(5)])
    await store.connections.add([opened(5)])
    await store.connections.add([], [closed(opened(3), 6)])
    assert await spans(store) == [(5, None)]
    await store.connections.add([], [closed(opened(5), 7)])
    assert await spans(store) == [(5, 7)]


async def test_the_same_name_at_two_nodes_is_two_connections(store: Store) -> None:
    """From loopback to loopback, on two machines."""
    here = opened(5)
    there = msgspec.structs.replace(opened(5, client="billing", pid="<there>"), node="rabbit@two")
    await store.connections.add([here, there])
    assert await spans(store) == [(5, None), (5, None)]
    await store.connections.add([], [closed(here, 6)])
    assert sorted(await spans(store), key=str) == [(5, 6), (5, None)]


async def test_what_is_no_longer_listed_is_gone(store: Store) -> None:
    age = LIST_AGE // S
    gone, there, young = opened(5, "gone"), opened(6, "there"), opened(age + 9, "young")
    await store.connections.add([gone, there, young])
    newest = listed(age + 8, "newest")
    await store.connections.reconcile([listed(6, "there"), newest], moment=99 * S)
    assert await spans(store, "gone") == [(5, 99)]
    assert await spans(store, "there") == [(6, None)]
    assert await spans(store, "young") == [(age + 9, None)]
    assert await spans(store, "newest") == [(age + 8, None)]


async def test_an_empty_list_says_nothing(store: Store) -> None:
    await store.connections.add([opened(5)])
    await store.connections.reconcile([], moment=99 * S)
    assert await spans(store) == [(5, None)]


async def test_any_number_of_names_is_found(store: Store) -> None:
    names = [f"name {number}" for number in range(2 * CHUNK + 1)]
    await store.connections.add([opened(5, name) for name in names])
    assert (await store.connections.find(names)).keys() == set(names)
    assert await store.connections.find([]) == {}


async def test_long_closed_ones_are_forgotten_and_open_ones_are_not(store: Store) -> None:
    ended = [opened(at, f"ended {at}") for at in range(5)]
    await store.connections.add([opened(0, "open")])
    await store.connections.add(ended, [closed(each, 9) for each in ended])
    assert await store.connections.prune(keep=5) == 0
    assert await store.connections.prune(keep=2) == 3
    names = ["open", *(each.name for each in ended)]
    assert (await store.connections.find(names)).keys() == {"open", "ended 3", "ended 4"}


async def test_a_number_is_never_given_again(store: Store) -> None:
    await store.connections.add([opened(5)], [closed(opened(5), 6)])
    first = (await store.connections.find([NAME]))[NAME].id
    assert await store.connections.prune(keep=0) == 1
    await store.connections.add([opened(7)])
    assert (await store.connections.find([NAME]))[NAME].id > first
