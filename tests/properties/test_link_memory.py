"""Who is meant by a key, however many events have it: the memory against a plain look at all."""

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
PLACES = {1: "x", 2: "x", 3: "y", 4: None}

# Which keys an event has, who acted, whether it is a delivery; or that retention has come.
_event = st.tuples(st.sampled_from((KEYS[:1], KEYS[1:], KEYS)), st.sampled_from([*PLACES]))
_step = st.one_of(st.tuples(_event, st.booleans()), st.integers(0, 40))


def _meant(
    known: list[NamedEvent], key: bytes, number: int, place: str | None, few: int = FEW
) -> NamedEvent | None:
    those = [event for event in reversed(known) if key in event.keys]
    for event in those:
        if event.participant == number:
            return event
    near = [event for event in those[:few] if place and PLACES[event.participant] == place]
    for event in sorted(near, key=lambda event: not event.is_delivery):
        return event
    for event in sorted(those, key=lambda event: event.is_delivery):
        return event
    return None


@given(st.lists(_step, max_size=40), st.integers(1, MOST), st.integers(1, FEW))
@settings(deadline=None)
def test_the_event_that_is_meant_is_the_same_among_few_and_among_many(
    steps: list[tuple[tuple[tuple[bytes, ...], int], bool] | int], at_once: int, latest: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(memory, "LOOK_BACK", FEW)
        patched.setattr(memory, "AT_ONCE", at_once)
        patched.setattr(memory, "LATEST", latest)
        remembered, known = LinkMemory(MOST), list[NamedEvent]()
        for event_id, step in enumerate(steps, 1):
            if isinstance(step, int):
                remembered.forget_before(step)
                known = [each for each in known if (each.reference.id or 0) >= step]
                continue
            (keys, participant), is_delivery = step
            reference = Reference(None, b"\0\0", event_id, event_id)
            event = NamedEvent(keys, is_delivery, participant, event_id, reference, None)
            remembered.note(event)
            known = [*known, event][-MOST:]
            _compare(remembered, known)


def _compare(remembered: LinkMemory, known: list[NamedEvent], few: int = FEW) -> None:
    for key in KEYS:
        for number, place in PLACES.items():
            found, _ = remembered.find(key, number, place, PLACES.get)
            assert found is _meant(known, key, number, place, few)


# Who asks for which key, if anybody: to ask for one changes where others are found.
_asked = st.none() | st.tuples(st.sampled_from(KEYS), st.sampled_from([*PLACES]))


_Asked: TypeAlias = tuple[bytes, int] | None


@given(
    st.lists(st.tuples(_event, st.booleans(), _asked), max_size=60),
    st.integers(1, 2 * MOST),
    st.integers(1, FEW),
    st.integers(1, MOST),
    st.integers(1, MOST),
)
@settings(deadline=None)
def test_the_event_that_is_meant_is_the_same_however_many_were_noted_since_somebody_asked(
    steps: list[tuple[tuple[tuple[bytes, ...], int], bool, _Asked]],
    at_once: int,
    latest: int,
    recent: int,
    few: int,
) -> None:
    _ask_now_and_then(steps, at_once, latest, recent, few)


def test_the_event_that_is_meant_is_the_same_in_long_runs() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        asks = chance.choice((0.05, 0.3, 1))
        steps = [
            (
                (chance.choice((KEYS[:1], KEYS[1:], KEYS)), chance.choice((1, 1, 1, 2, 3, 4))),
                chance.random() < 0.5,
                (chance.choice(KEYS), chance.choice((1, 1, 1, 2, 3, 4)))
                if chance.random() < asks
                else None,
            )
            for _ in range(chance.choice((MOST, MOST + 1, 60)))
        ]
        few = chance.choice((FEW, MOST))  # or no key has more
        at_once, latest, recent = chance.randint(1, 7), chance.randint(1, FEW), chance.randint(1, 9)
        _ask_now_and_then(steps, at_once, latest, recent, few)


def _ask_now_and_then(
    steps: Sequence[tuple[tuple[tuple[bytes, ...], int], bool, _Asked]],
    at_once: int,
    latest: int,
    recent: int,
    few: int,
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(memory, "LOOK_BACK", few)
        patched.setattr(memory, "AT_ONCE", at_once)
        patched.setattr(memory, "LATEST", latest)
        patched.setattr(memory, "RECENT", recent)
        remembered, known = LinkMemory(MOST), list[NamedEvent]()
        for event_id, ((keys, participant), is_delivery, asked) in enumerate(steps, 1):
            reference = Reference(SEED, b"\0\0", event_id, event_id)
            event = NamedEvent(keys, is_delivery, participant, event_id, reference, None)
            remembered.note(event)
            known = [*known, event][-MOST:]
            assert remembered.has_forgotten == (event_id > MOST)
            if asked is not None:
                key, number = asked
                found, is_near = remembered.find(key, number, PLACES[number], PLACES.get)
                assert found is _meant(known, key, number, PLACES[number], few)
                assert not is_near or found is not None
        _compare(remembered, known, few)
        remembered.forget_before(0)  # which looks at all
        assert remembered.has_forgotten == (len(steps) > MOST)
        assert [each.reference._stamp is None for each in known] == [
            *([True] * max(0, len(known) - recent)),
            *([False] * min(recent, len(known))),
        ]


@pytest.mark.parametrize("is_waited_for", [False, True])
@pytest.mark.parametrize("named", [b"own", b"other", None])
def test_clocks_rest_that_are_old_and_not_waited_for(
    named: bytes | None, is_waited_for: bool
) -> None:
    remembered, references = LinkMemory(5_000), list[Reference]()
    for number in range(4_000):
        reference = Reference(SEED, b"\0\0", 1, number, waiting=int(is_waited_for))
        key = number.to_bytes(16, "big")
        remembered.note(NamedEvent((key,), False, 1, number, reference, None))
        references.append(reference)
        if named is not None:
            found, _ = remembered.find(key, 1 if named == b"own" else 2, None, PLACES.get)
            assert found is not None
            assert found.reference is reference
    resting = [reference._stamp is None for reference in references]
    assert not any(resting[-memory.RECENT :])
    assert all(resting[: -2 * memory.RECENT]) is not is_waited_for
    assert any(resting) is not is_waited_for


def test_who_names_what_it_was_just_handed_has_nothing_sorted() -> None:
    remembered = LinkMemory(5_000)
    for number in range(memory.AT_ONCE - 1):
        key = number.to_bytes(16, "big")
        event = NamedEvent((key,), True, number % 100, number, Reference(None, b"", 1), None)
        remembered.note(event)
        assert remembered.find(key, number % 100, None, PLACES.get) == (event, True)
    assert len(remembered._noted) == memory.AT_ONCE - 1


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
        at_hand = [Reference(None, b"", 1), Reference(None, b"", 1)]
        for event_id, (keys, told) in enumerate(steps, 1):
            message: Reference | int | None = None
            if told < 2:
                message, which = at_hand[told], told
                message.id = message.id or (
                    told + 1 if event_id > MOST else None
                )  # as it is stored
            elif told < 6:
                which = told // 2 + 1
                message = which + 1 if told % 2 else Reference(None, b"", 1, which + 1)
            else:
                which = 100 + event_id
            reference = Reference(None, b"", event_id, 100 + event_id)
            remembered.note(NamedEvent(keys, True, 1, event_id, reference, message))
            known = [*known, (keys, which)][-MOST:]
            for key in KEYS:
                those = {which for keys, which in known if key in keys}
                assert remembered.is_ambiguous(key) == (len(those) > 1)
