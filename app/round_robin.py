"""A queue in which owners take turns: nobody waits behind all that another has asked for."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


class RoundRobin(Generic[Item]):
    """First in, first out for each owner; owners take turns."""

    def __init__(self) -> None:
        # The next owner comes first. Not a dict, which would walk over all that were before it.
        self._waiting: OrderedDict[str, deque[Item]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def __iter__(self) -> Iterator[Item]:
        for items in self._waiting.values():
            yield from items

    def owners(self) -> int:
        """The number of owners that have something waiting."""
        return len(self._waiting)

    def count_of(self, owner: str) -> int:
        """The number of an owner's items that wait."""
        return len(self._waiting.get(owner, ()))

    def put(self, owner: str, item: Item) -> None:
        """Let an item wait, after its owner's other items."""
        self._waiting.setdefault(owner, deque()).append(item)

    def take(self, may: Callable[[str], bool] = lambda _: True) -> Item | None:
        """The next item: of the owner who has waited longest for a turn, of those who ``may``."""
        owner = next(filter(may, self._waiting), None)
        if owner is None:
            return None
        items = self._waiting[owner]
        item = items.popleft()
        if items:
            self._waiting.move_to_end(owner)
        else:
            del self._waiting[owner]
        return item

    def remove(self, owner: str, item: Item) -> bool:
        """Take an item out of turn; False if it is not waiting."""
        items = self._waiting.get(owner, deque())
        if item not in items:
            return False
        items.remove(item)
        if not items:
            del self._waiting[owner]
        return True
