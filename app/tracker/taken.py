"""Exchanges and queues that a trace takes: names, or patterns as topic exchanges have them.

They are what the trace queue is bound with, so the broker decides by them; what is asked here is
what it decided, of an event that is at hand or that is waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import msgspec

MOST = 100  # of each side
LONGEST = 247  # bytes: what a routing key has left behind its first word
EVERYTHING = "#"
_REMEMBERED = 10_000
_SHOWN, _SHOWN_CHARACTERS = 5, 60


class Selection(msgspec.Struct, frozen=True, omit_defaults=True):
    """The patterns of exchanges whose publishes are taken, and of queues whose deliveries are.

    None of either means all. ``*`` stands for one word and ``#`` for any number; words are parted
    by dots. The default exchange has the empty name.
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
            return (EVERYTHING,)
        return (
            *(f"publish.{each}" for each in _or_all(self.exchanges)),
            *(f"deliver.{each}" for each in _or_all(self.queues)),
        )

    @property
    def sentence(self) -> str:
        """A sentence on what is taken, for whoever wonders what is missing."""
        return (
            "only some exchanges and queues are taken: "
            f"{_shown('exchanges', self.exchanges)}; {_shown('queues', self.queues)}"
        )


ALL = Selection()


def taken(exchanges: Sequence[str] | None, queues: Sequence[str] | None) -> Selection:
    """Check what somebody wants taken; None means all.

    Raises `ValueError`, with what is wrong.
    """
    return Selection(_checked("exchanges", exchanges), _checked("queues", queues))


def covers(pattern: str, name: str) -> bool:
    """Tell whether a pattern covers a name, as the broker's topic exchanges decide."""
    return _is_match(pattern.split("."), name.split("."))


class Takes:
    """A selection's verdict on each name, found once.

    ``publishes`` says whether what is published to an exchange is taken, ``deliveries`` whether
    what a queue hands out is.
    """

    def __init__(self, what: Selection = ALL) -> None:
        self.what = what
        self.is_all = what.is_all
        self.publishes = _verdicts(what.exchanges)
        self.deliveries = _verdicts(what.queues)


def _verdicts(patterns: Sequence[str] | None) -> Callable[[str], bool]:
    parted = [pattern.split(".") for pattern in _or_all(patterns)]

    @lru_cache(maxsize=_REMEMBERED)
    def is_taken(name: str) -> bool:
        words = name.split(".")
        return any(_is_match(pattern, words) for pattern in parted)

    return is_taken


def _is_match(pattern: Sequence[str], words: Sequence[str]) -> bool:
    """Match word by word; a set of places instead of a regular expression, which may take ages."""
    places = _skipping(pattern, {0})
    for word in words:
        reached = {
            place if pattern[place] == "#" else place + 1
            for place in places
            if place < len(pattern) and pattern[place] in ("#", "*", word)
        }
        places = _skipping(pattern, reached)
    return len(pattern) in places


def _skipping(pattern: Sequence[str], places: Iterable[int]) -> set[int]:
    """Places, and those behind each ``#`` there, which need not stand for anything."""
    found = set()
    for place in places:
        found.add(place)
        while place < len(pattern) and pattern[place] == "#":
            place += 1
            found.add(place)
    return found


def _checked(what: str, patterns: Sequence[str] | None) -> tuple[str, ...] | None:
    if patterns is None:
        return None
    if not patterns:
        raise ValueError(
            f"{what} is an empty list, so nothing would be taken: name one at least, or leave "
            f"{what} out to take all"
        )
    if len(patterns) > MOST:
        raise ValueError(f"there are more than {MOST} {what}")
    for pattern in patterns:
        try:
            length = len(pattern.encode())
        except UnicodeEncodeError:
            raise ValueError(f"{pattern!r} among the {what} is no text") from None
        if length > LONGEST:
            raise ValueError(
                f"{pattern[:LONGEST]!r} among the {what} is too long: at most {LONGEST} bytes"
            )
        if "\0" in pattern:
            raise ValueError(f"{pattern!r} among the {what} has a character that no name has")
    return None if EVERYTHING in patterns else tuple(dict.fromkeys(patterns))


def _or_all(patterns: Sequence[str] | None) -> Sequence[str]:
    return (EVERYTHING,) if patterns is None else patterns


def _shown(what: str, patterns: Sequence[str] | None) -> str:
    if patterns is None:
        return f"all {what}"
    named = ", ".join(_named(each) for each in patterns[:_SHOWN])
    more = f" and {len(patterns) - _SHOWN} more" if len(patterns) > _SHOWN else ""
    return f"{what} {named}{more}"


def _named(pattern: str) -> str:
    if not pattern:
        return "(the default one)"
    cut = pattern[:_SHOWN_CHARACTERS]
    return cut if cut == pattern else f"{cut}…"
