"""Survey of the paths of messages, from a part of the events: which may hold keys at all.

Times, words that repeat and rare paths are recognized before any two messages are compared. Nothing
here does I/O.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from spark_jobs.reports.message_fields import Field, is_time

# Paths that are compared: the most frequent.
MOST_PATHS = 400
# A path that fewer surveyed messages have is left out.
LEAST_MESSAGES = 5
# A value that a participant has more often than this in a part is no key.
MOST_ALIKE = 20
MOST_OF = 0.9
# Values this long are not equal by accident, numbers aside.
LONG = 8
# Numbers of which this share is one more than the last of their publisher are counted increments.
COUNTER_SHARE = 0.8
GAPLESS_SHARE = 0.98
LEAST_STEPS = 10


class KeyRefusal(enum.StrEnum):
    """A reason why a path, or a pair of paths, is no key."""

    time = "a time"
    repeats = "a few values repeat"
    counter = "counts up"
    chance = "as often by chance"
    ambiguous = "means too many messages"
    many_origins = "made up anew by several"
    disagrees = "disagrees with better pairs"
    unlinked = "disagrees with links"


class SurveyEvent(NamedTuple):
    """An event of the survey; ``message`` is the publish behind it, ``recorded_at`` in µs.

    An `Event` is made in 1.9 times the time.
    """

    event: int
    is_publish: bool
    participant: int
    message: int
    recorded_at: int
    fields: list[Field]


class KeyPath(NamedTuple):
    """A path of messages.

    Attributes:
        text: its expression.
        messages: surveyed messages that have it.
        unique: distinct values per message: 1 where each has one of its own.
        is_long: equal values are no accident.
        is_counted: programs that react count up there.
        is_gapless: and leave next to no number out.
        refusal: why it is no key; None if it may be one.
    """

    text: str
    messages: int
    unique: float
    is_long: bool
    is_counted: bool
    is_gapless: bool
    refusal: KeyRefusal | None


@dataclass
class _Tally:
    """The tally of a path."""

    messages: int = 0
    values: int = 0
    occurrences: int = 0
    alike: int = 0
    times: int = 0
    long: int = 0
    steps: int = 0
    increments: int = 0
    last: dict[int, int] = field(default_factory=dict)


def survey_paths(parts: Iterable[list[SurveyEvent]], reacting: Container[int]) -> list[KeyPath]:
    """The paths that occur, the most frequent first.

    ``parts`` are runs of events, by id; ``reacting`` the participants that are handed anything.
    """
    tallies: defaultdict[str, _Tally] = defaultdict(_Tally)
    for part in parts:
        _take(part, tallies, reacting)
    paths = [
        _path(text, tally) for text, tally in tallies.items() if tally.messages >= LEAST_MESSAGES
    ]
    return sorted(paths, key=lambda path: (-path.messages, path.text))[:MOST_PATHS]


def _take(
    part: list[SurveyEvent], tallies: defaultdict[str, _Tally], reacting: Container[int]
) -> None:
    messages: defaultdict[str, set[int]] = defaultdict(set)
    values: defaultdict[str, set[str]] = defaultdict(set)
    alike: Counter[tuple[str, str, int]] = Counter()
    for tally in tallies.values():
        tally.last.clear()  # parts do not touch
    for event in part:
        for text, value in event.fields:
            tally = tallies[text]
            messages[text].add(event.message)
            values[text].add(value)
            alike[text, value, event.participant] += 1
            tally.occurrences += 1
            tally.times += is_time(value, event.recorded_at)
            tally.long += len(value) >= LONG and not value.isdecimal()
            if event.is_publish and event.participant in reacting:
                _step(tally, event.participant, value)
    for text, publishes in messages.items():
        tallies[text].messages += len(publishes)
        tallies[text].values += len(values[text])
    for (text, _, _), count in alike.items():
        tallies[text].alike += count if count > MOST_ALIKE else 0


def _step(tally: _Tally, participant: int, value: str) -> None:
    """Count whether a number is one more than its publisher's last."""
    if not value.isdecimal() or len(value) > 18:
        tally.last.pop(participant, None)
        return
    number, last = int(value), tally.last.get(participant)
    tally.last[participant] = number
    if last is not None:
        tally.steps += 1
        tally.increments += number == last + 1


def _path(text: str, tally: _Tally) -> KeyPath:
    is_counted = tally.steps >= LEAST_STEPS and tally.increments >= COUNTER_SHARE * tally.steps
    return KeyPath(
        text,
        tally.messages,
        tally.values / tally.messages,
        tally.long >= MOST_OF * tally.occurrences,
        is_counted,
        is_counted and tally.increments >= GAPLESS_SHARE * tally.steps,
        _refusal(tally),
    )


def _refusal(tally: _Tally) -> KeyRefusal | None:
    if tally.times >= MOST_OF * tally.occurrences:
        return KeyRefusal.time
    is_constant = tally.values <= 2 and tally.messages > LEAST_MESSAGES
    if is_constant or tally.alike >= MOST_OF * tally.occurrences:
        return KeyRefusal.repeats
    return None
