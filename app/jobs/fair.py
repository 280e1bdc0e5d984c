"""A bounded queue in which owners take turns: nobody waits behind all of another's jobs."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from app.errors import TooManyRequestsError

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """First in, first out for each owner; owners take turns.

    Args:
        limit: most items that may wait.
        owner_of: whose an item is.
    """

    def __init__(self, limit: int, owner_of: Callable[[Item], str]) -> None:
        self._limit = limit
        self._owner_of = owner_of
        self._waiting: OrderedDict[str, deque[Item]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def __iter__(self) -> Iterator[Item]:
        for items in self._waiting.values():
            yield from items

    def check_room(self) -> None:
        """Raise `TooManyRequestsError` if no more may wait."""
        if len(self) >= self._limit:
            raise TooManyRequestsError(
                f"{self._limit} jobs are waiting already; ask again when some have ended"
            )

    def put(self, item: Item) -> None:
        """Let an item wait, after its owner's other items."""
        self._waiting.setdefault(self._owner_of(item), deque()).append(item)

    def take(self) -> Item | None:
        """The next item: of the owner who has waited longest for a turn."""
        if not self._waiting:
            return None
        owner, items = self._waiting.popitem(last=False)
        item = items.popleft()
        if items:
            self._waiting[owner] = items
        return item

    def remove(self, item: Item) -> bool:
        """Take an item out of turn; False if it is not waiting."""
        owner = self._owner_of(item)
        items = self._waiting.get(owner)
        if items is None or item not in items:
            return False
        items.remove(item)
        if not items:
            del self._waiting[owner]
        return True
