"""Exchanges and queues that a trace takes: names, or patterns as topic exchanges have them.

The trace queue is bound with them, so the broker decides; here its decision is repeated for an
event that came or is awaited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import msgspec

MOST_PATTERNS = 100  # of each side
LONGEST = 247  # bytes: the room that a routing key has behind its first word
ANY_WORDS = "#"
_CACHED_NAMES = 10_000
_SENTENCE_NAMES, _SHOWN_CHARACTERS = 5, 60


class Selection(msgspec.Struct, frozen=True, omit_defaults=True):
    """The patterns of exchanges whose publishes are taken, and of queues whose deliveries are.

    None means all. ``*`` stands for one word and ``#`` for any number; words are separated by dots.
    The default exchange has the empty name.
    """

    exchanges: tuple[str, ...] | None = None
    queues: tuple[str, ...] | None = None

    @property
    def is_all(self) -> bool:
        """Tell whether nothing is left out."""
        return self.exchanges is None and self.queues is None

    @property
    def keys(self) -> tuple[str, ...]:
        """The routing keys that the trace queue is bound with."""
        if self.is_all:
            return (ANY_WORDS,)
        return (
            *(f"publish.{pattern}" for pattern in _or_all(self.exchanges)),
            *(f"deliver.{pattern}" for pattern in _or_all(self.queues)),
        )

    @property
    def sentence(self) -> str:
        """A sentence on the selection, for people who miss an event."""
        return (
            "only some exchanges and queues are taken: "
            f"{_phrase('exchanges', self.exchanges)}; {_phrase('queues', self.queues)}"
        )


ALL = Selection()


def make_selection(exchanges: Sequence[str] | None, queues: Sequence[str] | None) -> Selection:
    """The checked selection; None means all. Raises `ValueError`, with the reason."""
    return Selection(_check("exchanges", exchanges), _check("queues", queues))


def covers(pattern: str, name: str) -> bool:
    """Tell whether a pattern covers a name, as the broker's topic exchanges decide."""
    return _is_match(pattern.split("."), name.split("."))


class Takes:
    """A selection's verdicts on names.

    ``publishes`` says whether publishes to an exchange are taken, ``deliveries`` whether a queue's
    deliveries are.
    """

    def __init__(self, selection: Selection = ALL) -> None:
        self.selection = selection
        self.is_all = selection.is_all
        self.publishes = _verdicts(selection.exchanges)
        self.deliveries = _verdicts(selection.queues)


def _verdicts(patterns: Sequence[str] | None) -> Callable[[str], bool]:
    split = [pattern.split(".") for pattern in _or_all(patterns)]

    @lru_cache(maxsize=_CACHED_NAMES)
    def is_taken(name: str) -> bool:
        words = name.split(".")
        return any(_is_match(pattern, words) for pattern in split)

    return is_taken


def _is_match(pattern: Sequence[str], words: Sequence[str]) -> bool:
    """Match by a set of positions: a regular expression may take ages."""
    positions = _skip(pattern, {0})
    for word in words:
        reached = {
            position if pattern[position] == "#" else position + 1
            for position in positions
            if position < len(pattern) and pattern[position] in ("#", "*", word)
        }
        positions = _skip(pattern, reached)
    return len(pattern) in positions


def _skip(pattern: Sequence[str], positions: Iterable[int]) -> set[int]:
    """Positions, and those behind each ``#`` there, which may stand for no word."""
    reached = set()
    for position in positions:
        reached.add(position)
        while position < len(pattern) and pattern[position] == "#":
            position += 1
            reached.add(position)
    return reached


def _check(side: str, patterns: Sequence[str] | None) -> tuple[str, ...] | None:
    if patterns is None:
        return None
    if not patterns:
        raise ValueError(
            f"{side} is an empty list, so nothing would be taken: name one at least, or leave "
            f"{side} out to take all"
        )
    if len(patterns) > MOST_PATTERNS:
        raise ValueError(f"there are more than {MOST_PATTERNS} {side}")
    for pattern in patterns:
        try:
            length = len(pattern.encode())
        except UnicodeEncodeError:
            raise ValueError(f"{pattern!r} among the {side} is no text") from None
        if length > LONGEST:
            raise ValueError(
                f"{pattern[:LONGEST]!r} among the {side} is too long: at most {LONGEST} bytes"
            )
        if "\0" in pattern:
            raise ValueError(f"{pattern!r} among the {side} has a character that no name has")
    return None if ANY_WORDS in patterns else tuple(dict.fromkeys(patterns))


def _or_all(patterns: Sequence[str] | None) -> Sequence[str]:
    return (ANY_WORDS,) if patterns is None else patterns


def _phrase(side: str, patterns: Sequence[str] | None) -> str:
    if patterns is None:
        return f"all {side}"
    names = ", ".join(_display(pattern) for pattern in patterns[:_SENTENCE_NAMES])
    rest = f" and {len(patterns) - _SENTENCE_NAMES} more" if len(patterns) > _SENTENCE_NAMES else ""
    return f"{side} {names}{rest}"


def _display(pattern: str) -> str:
    if not pattern:
        return "(the default one)"
    cut = pattern[:_SHOWN_CHARACTERS]
    return cut if cut == pattern else f"{cut}…"
