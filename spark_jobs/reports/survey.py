"""Survey of the places of messages, from a part of the events: which may hold keys at all.

Times, words that repeat and places that hardly occur are known by themselves, before any two
messages are compared. Nothing here does I/O.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from spark_jobs.reports.flattening import Field, is_time

# Places that are compared: those that occur most.
MOST_PLACES = 400
# Of what is looked at, a place that fewer messages have is left out.
LEAST_MESSAGES = 5
# A value that one participant has more often than this in a part repeats: it is no key.
MOST_ALIKE = 20
MOST_OF = 0.9
# Values this long are not equal by accident, numbers aside.
LONG = 8
# Numbers of which this share is one more than the last of their publisher are counted ones.
COUNTED = 0.8
LEAST_COUNTED = 10


class KeyRefusal(enum.StrEnum):
    """A reason why a place, or a pair of places, is no key."""

    time = "a time"
    repeats = "a few values repeat"
    counter = "counts up"
    chance = "as often by chance"
    ambiguous = "means too many messages"
    many_origins = "made up anew by several"
    disagrees = "disagrees with better pairs"
    unlinked = "disagrees with links"


class SurveyEvent(NamedTuple):
    """An event of the survey. ``message`` is the publish behind it; ``recorded_at`` in µs."""

    event: int
    is_publish: bool
    participant: int
    message: int
    recorded_at: int
    fields: list[Field]


class Place(NamedTuple):
    """A place.

    Attributes:
        text: its expression.
        messages: how many that were looked at have it.
        unique: distinct values by message: 1 where each has one of its own.
        is_long: whether equal values cannot be an accident.
        is_counted: whether who reacts writes one more there each time.
        refusal: why it is no key, if it is none.
    """

    text: str
    messages: int
    unique: float
    is_long: bool
    is_counted: bool
    refusal: KeyRefusal | None


@dataclass
class _Tally:
    """The tally of a place."""

    messages: int = 0
    values: int = 0
    occurrences: int = 0
    alike: int = 0
    times: int = 0
    long: int = 0
    steps: int = 0
    ones: int = 0
    last: dict[int, int] = field(default_factory=dict)


def surveyed(parts: Iterable[list[SurveyEvent]], reacting: Container[int]) -> list[Place]:
    """The places that occur, the most frequent first.

    ``parts`` are events that lie together, by id; ``reacting`` who is handed anything.
    """
    tallies: defaultdict[str, _Tally] = defaultdict(_Tally)
    for part in parts:
        _take(part, tallies, reacting)
    places = [
        _place(text, tally) for text, tally in tallies.items() if tally.messages >= LEAST_MESSAGES
    ]
    return sorted(places, key=lambda place: (-place.messages, place.text))[:MOST_PLACES]


def _take(
    part: list[SurveyEvent], tallies: defaultdict[str, _Tally], reacting: Container[int]
) -> None:
    messages: defaultdict[str, set[int]] = defaultdict(set)
    values: defaultdict[str, set[str]] = defaultdict(set)
    alike: Counter[tuple[str, str, int]] = Counter()
    for tally in tallies.values():
        tally.last.clear()  # parts do not touch
    for seen in part:
        for text, value in seen.fields:
            tally = tallies[text]
            messages[text].add(seen.message)
            values[text].add(value)
            alike[text, value, seen.participant] += 1
            tally.occurrences += 1
            tally.times += is_time(value, seen.recorded_at)
            tally.long += len(value) >= LONG and not value.isdecimal()
            if seen.is_publish and seen.participant in reacting:
                _step(tally, seen.participant, value)
    for text, those in messages.items():
        tallies[text].messages += len(those)
        tallies[text].values += len(values[text])
    for (text, _, _), count in alike.items():
        tallies[text].alike += count if count > MOST_ALIKE else 0


def _step(tally: _Tally, participant: int, value: str) -> None:
    """Tell whether a number is one more than the one before of its publisher."""
    if not value.isdecimal() or len(value) > 18:
        tally.last.pop(participant, None)
        return
    number, last = int(value), tally.last.get(participant)
    tally.last[participant] = number
    if last is not None:
        tally.steps += 1
        tally.ones += number == last + 1


def _place(text: str, tally: _Tally) -> Place:
    is_counted = tally.steps >= LEAST_COUNTED and tally.ones >= COUNTED * tally.steps
    return Place(
        text,
        tally.messages,
        tally.values / tally.messages,
        tally.long >= MOST_OF * tally.occurrences,
        is_counted,
        _refusal(tally),
    )


def _refusal(tally: _Tally) -> KeyRefusal | None:
    if tally.times >= MOST_OF * tally.occurrences:
        return KeyRefusal.time
    is_constant = tally.values <= 2 and tally.messages > LEAST_MESSAGES
    if is_constant or tally.alike >= MOST_OF * tally.occurrences:
        return KeyRefusal.repeats
    return None
