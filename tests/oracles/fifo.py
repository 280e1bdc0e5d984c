"""What the queue of the tracker's memories does (`app/tracker/_memories.pyx`), in Python."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=bytes | tuple[str, bytes])
Value = TypeVar("Value")


class KeyedFifo(Generic[Key, Value]):
    """A queue of numbered values that can be taken by key or by age. No value is None.

    Most keys hold one value, and a deque for each would be most of the memory (about 600 bytes),
    so a key holds the bare number until it has a second.
    """

    __slots__ = ("_numbers", "_values")

    def __init__(self) -> None:
        # With all of its keys, in order of number. Not a dict: to find its first entry, that walks
        # over all that were deleted before it, tens of thousands where the oldest makes room for
        # each new one.
        self._values: OrderedDict[int, tuple[tuple[Key, ...], Value]] = OrderedDict()
        self._numbers: dict[Key, int | deque[int]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: Key) -> bool:
        return key in self._numbers

    def add(self, number: int, key: Key, value: Value) -> int:
        """Append a value; numbers must grow. Returns how many the key has now."""
        return self.add_under(number, (key,), value)

    def add_under(self, number: int, keys: tuple[Key, ...], value: Value) -> int:
        """Append a value that can be taken by each of several keys, no two of them equal.

        Returns how many the key has now that most have.
        """
        if not keys:
            raise ValueError("a value needs a key")
        self._values[number] = (keys, value)
        most = 1
        for key in keys:
            held = self._numbers.setdefault(key, number)
            if held is not number:
                if isinstance(held, int):
                    held = self._numbers[key] = deque((held,))
                held.append(number)
                most = max(most, len(held))
        return most

    def take(self, key: Key) -> Value | None:
        """Remove and return the oldest value of a key."""
        number = self._first(key)
        return None if number is None else self._take(number)

    def first(self, key: Key) -> Value | None:
        """Return the oldest value of a key."""
        number = self._first(key)
        return None if number is None else self._values[number][1]

    def count(self, key: Key) -> int:
        """Return how many values a key has."""
        held = self._numbers.get(key, ())
        return 1 if isinstance(held, int) else len(held)

    def get(self, number: int) -> Value | None:
        """Return the value of that number, where it is still held."""
        held = self._values.get(number)
        return held and held[1]

    def oldest(self) -> Value | None:
        """Return the oldest value of all."""
        for _, value in self._values.values():
            return value
        return None

    def take_oldest(self) -> Value | None:
        """Remove and return the oldest value of all, which is also the oldest of its keys."""
        for number in self._values:
            return self._take(number)
        return None

    def newest(self, key: Key, most: int) -> list[Value]:
        """Return up to ``most`` values of a key, newest first."""
        held = self._numbers.get(key)
        if held is None:
            return []
        if isinstance(held, int):
            return [self._values[held][1]] if most > 0 else []
        count = min(max(most, 0), len(held))
        return [self._values[held[-1 - back]][1] for back in range(count)]

    def since(self, number: int) -> list[Value]:
        """Return the values with that number and later ones, oldest first."""
        found = []
        for each, (_, value) in reversed(self._values.items()):
            if each < number:
                break
            found.append(value)
        return found[::-1]

    def keys(self) -> list[Key]:
        """Return each value's first key, oldest value first."""
        return [keys[0] for keys, _ in self._values.values()]

    def values(self) -> list[Value]:
        """Return all values, oldest first."""
        return [value for _, value in self._values.values()]

    def _first(self, key: Key) -> int | None:
        held = self._numbers.get(key)
        return held[0] if isinstance(held, deque) else held

    def _take(self, number: int) -> Value:
        keys, value = self._values.pop(number)
        for key in keys:
            held = self._numbers[key]
            if isinstance(held, int):
                del self._numbers[key]
            elif len(held) == 2:
                self._numbers[key] = held[1] if held[0] == number else held[0]
            else:
                held.remove(number)  # which looks at the oldest first
        return value
