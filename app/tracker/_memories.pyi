"""`_memories.c`: a queue of numbered values that can be taken by key or by age."""

from typing import Generic, TypeVar

Key = TypeVar("Key", bound=bytes | tuple[str, bytes])
Value = TypeVar("Value")

class KeyedFifo(Generic[Key, Value]):
    """A queue of numbered values that can be taken by key or by age. No value is None."""

    def __len__(self) -> int: ...
    def __contains__(self, key: Key, /) -> bool: ...
    def add(self, number: int, key: Key, value: Value, /) -> int:
        """Append a value; numbers must grow. Returns how many the key has now."""

    def add_under(self, number: int, keys: tuple[Key, ...], value: Value, /) -> int:
        """Append a value that can be taken by each of several keys, no two of them equal.

        Returns how many the key has now that most have.
        """

    def take(self, key: Key, /) -> Value | None:
        """Remove and return the oldest value of a key."""

    def first(self, key: Key, /) -> int | None:
        """Return the number of the oldest value of a key."""

    def count(self, key: Key, /) -> int:
        """Return how many values a key has."""

    def get(self, number: int, /) -> Value | None:
        """Return the value of that number, where it is still held."""

    def oldest(self) -> Value | None:
        """Return the oldest value of all."""

    def take_oldest(self) -> Value | None:
        """Remove and return the oldest value of all, which is also the oldest of its keys."""

    def newest(self, key: Key, most: int, /) -> list[Value]:
        """Return up to ``most`` values of a key, newest first."""

    def since(self, number: int, /) -> list[Value]:
        """Return the values with that number and later ones, oldest first."""

    def keys(self) -> list[Key]:
        """Return each value's first key, oldest value first."""

    def values(self) -> list[Value]:
        """Return all values, oldest first."""
