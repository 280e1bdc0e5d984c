"""The events of a key, however many have it: the memory against a plain look at all."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.tracker.events import NamedEvent, Reference
from app.tracker.links import memory
from app.tracker.links.memory import LinkMemory
from itc import Stamp

SEED = Stamp.of_interval("", 0)
MOST = 12
FEW = 3
KEYS = (b"a" * 16, b"b" * 16)
NUMBERS = (1, 2, 3, 4)

# Which keys an event has, who acted, whether it is a delivery; or that retention has come.
_event = st.tuples(st.sampled_from((KEYS[:1], KEYS[1:], KEYS)), st.sampled_from(NUMBERS))
_step = st.one_of(st.tuples(_event, st.booleans()), st.integers(0, 40))


@given(st.lists(_step, max_size=40), st.integers(1, MOST))
@settings(deadline=None)
def test_events_of_a_key_are_the_same_among_few_and_among_many(
    steps: list[tuple[tuple[tuple[bytes, ...], int], bool] | int], at_once: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(memory, "LOOK_BACK", FEW)
        patched.setattr(memory, "AT_ONCE", at_once)
        remembered, known = LinkMemory(MOST), list[NamedEvent]()
        for event_id, step in enumerate(steps, 1):
            if isinstance(step, int):
                remembered.forget_before(step)
                known = [each for each in known if (each.reference.id or 0) >= step]
                continue
            (keys, participant), is_delivery = step
            reference = Reference(b"\0\0", event_id, event_id)
            event = NamedEvent(keys, is_delivery, participant, 1, "", event_id, reference, None)
            remembered.note(event)
            known = [*known, event][-MOST:]
            _compare(remembered, known)


def _compare(remembered: LinkMemory, known: list[NamedEvent], few: int = FEW) -> None:
    for key in KEYS:
        those = [event for event in reversed(known) if key in event.keys]
        assert remembered.newest(key) == those[:few]
        for number in NUMBERS:
            own = [event for event in those if event.participant == number]
            published = [event for event in those if not event.is_delivery]
            crowded = (own[: few + 1], published[:few]) if len(those) > few else None
            assert remembered.crowd_of(key, number) == crowded


# Which key is asked for, if any: to ask for one changes where others are found.
_asked = st.none() | st.sampled_from(KEYS)


_Asked: TypeAlias = bytes | None


@given(
    st.lists(st.tuples(_event, st.booleans(), _asked), max_size=60),
    st.integers(1, 2 * MOST),
    st.integers(1, MOST),
)
@settings(deadline=None)
def test_events_of_a_key_are_the_same_however_many_were_noted_since_somebody_asked(
    steps: list[tuple[tuple[tuple[bytes, ...], int], bool, _Asked]],
    at_once: int,
    few: int,
) -> None:
    _ask_now_and_then(steps, at_once, few)


def test_events_of_a_key_are_the_same_in_long_runs() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        asks = chance.choice((0.05, 0.3, 1))
        steps = [
            (
                (chance.choice((KEYS[:1], KEYS[1:], KEYS)), chance.choice((1, 1, 1, 2, 3, 4))),
                chance.random() < 0.5,
                chance.choice(KEYS) if chance.random() < asks else None,
            )
            for _ in range(chance.choice((MOST, MOST + 1, 60)))
        ]
        few = chance.choice((FEW, MOST))  # or no key has more
        at_once = chance.randint(1, 7)
        _ask_now_and_then(steps, at_once, few)


def _ask_now_and_then(
    steps: Sequence[tuple[tuple[tuple[bytes, ...], int], bool, _Asked]],
    at_once: int,
    few: int,
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(memory, "LOOK_BACK", few)
        patched.setattr(memory, "AT_ONCE", at_once)
        remembered, known = LinkMemory(MOST), list[NamedEvent]()
        for event_id, ((keys, participant), is_delivery, asked) in enumerate(steps, 1):
            reference = Reference(b"\0\0", event_id, event_id)
            event = NamedEvent(keys, is_delivery, participant, 1, "", event_id, reference, None)
            remembered.note(event)
            known = [*known, event][-MOST:]
            assert remembered.has_forgotten == (event_id > MOST)
            if asked is not None:
                those = [each for each in reversed(known) if asked in each.keys]
                assert remembered.newest(asked) == those[:few]
        _compare(remembered, known, few)
        remembered.forget_before(0)  # which looks at all
        assert remembered.has_forgotten == (len(steps) > MOST)


# Which keys an event has, and of which message it is: one of two that are at hand, of two that were
# restored, each by its id and by an object of its own, or of one that was not seen.
_told = st.tuples(st.sampled_from((KEYS[:1], KEYS[1:], KEYS)), st.integers(0, 6))


@given(st.lists(_told, max_size=60), st.integers(1, MOST), st.integers(1, FEW))
@settings(deadline=None)
def test_a_key_is_ambiguous_as_long_as_events_of_several_messages_are_remembered(
    steps: list[tuple[tuple[bytes, ...], int]], at_once: int, few: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(memory, "LOOK_BACK", few)
        patched.setattr(memory, "AT_ONCE", at_once)
        remembered, known = LinkMemory(MOST), list[tuple[tuple[bytes, ...], int]]()
        at_hand = [Reference(b"", 1), Reference(b"", 1)]
        for event_id, (keys, told) in enumerate(steps, 1):
            message: Reference | int | None = None
            if told < 2:
                message, which = at_hand[told], told
                message.id = message.id or (
                    told + 1 if event_id > MOST else None
                )  # as it is stored
            elif told < 6:
                which = told // 2 + 1
                message = which + 1 if told % 2 else Reference(b"", 1, which + 1)
            else:
                which = 100 + event_id
            reference = Reference(b"", event_id, 100 + event_id)
            remembered.note(NamedEvent(keys, True, 1, 1, "", event_id, reference, message))
            known = [*known, (keys, which)][-MOST:]
            for key in KEYS:
                those = {which for keys, which in known if key in keys}
                assert remembered.is_ambiguous(key) == (len(those) > 1)
