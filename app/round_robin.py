"""A queue in which owners take turns: nobody waits behind all requests of another."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")

_IN_A_PASS = 2  # requests; the costliest take some 20 ms, so a newcomer waits only briefly


class RoundRobin(Generic[Item]):
    """First in, first out for each owner; owners take turns."""

    def __init__(self) -> None:
        # The next owner comes first. Not a dict, which would walk over all that were before it.
        self._queues: OrderedDict[str, deque[Item]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def __iter__(self) -> Iterator[Item]:
        for items in self._queues.values():
            yield from items

    def owners(self) -> int:
        return len(self._queues)

    def count_of(self, owner: str) -> int:
        return len(self._queues.get(owner, ()))

    def put(self, owner: str, item: Item) -> None:
        """Let an item wait, after its owner's other items."""
        self._queues.setdefault(owner, deque()).append(item)

    def take(self, is_able: Callable[[str], bool] = lambda _: True) -> Item | None:
        """The next item, of the owner who has waited longest of those that ``is_able`` accepts."""
        owner = next(filter(is_able, self._queues), None)
        if owner is None:
            return None
        items = self._queues[owner]
        item = items.popleft()
        if items:
            self._queues.move_to_end(owner)
        else:
            del self._queues[owner]
        return item

    def remove(self, owner: str, item: Item) -> bool:
        """Take an item out of turn; False if it is not waiting."""
        items = self._queues.get(owner, deque())
        if item not in items:
            return False
        items.remove(item)
        if not items:
            del self._queues[owner]
        return True


class Turns:
    """Starts waiting requests, one per address in turn, a few in each pass of the event loop.

    The loop runs everything that is ready before it checks for new input. If each request were
    started on arrival, one address could queue many seconds of work at once, and everybody else
    would wait for it. A pass itself costs next to nothing.
    """

    def __init__(self) -> None:
        self._requests: RoundRobin[Callable[[], None]] = RoundRobin()
        self._scheduled = False

    def ask(self, address: str, begin: Callable[[], None]) -> None:
        self._requests.put(address, begin)
        self._schedule()

    def _schedule(self) -> None:
        if self._requests.owners() and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._pass)

    def _pass(self) -> None:
        self._scheduled = False
        for _ in range(min(_IN_A_PASS, self._requests.owners())):
            if begin := self._requests.take():
                begin()
        self._schedule()
