"""Who is meant by a key, however many events have it: the memory against a plain look at all."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.tracker.events import NamedEvent, Reference
from app.tracker.links import memory
from app.tracker.links.memory import LinkMemory

pytestmark = pytest.mark.usefixtures("each_memory")

MOST = 12
FEW = 3
KEYS = (b"a" * 16, b"b" * 16)
PLACES = {1: "x", 2: "x", 3: "y", 4: None}

# Which keys an event has, who acted, whether it is a delivery; or that retention has come.
_event = st.tuples(st.sampled_from((KEYS[:1], KEYS[1:], KEYS)), st.sampled_from([*PLACES]))
_step = st.one_of(st.tuples(_event, st.booleans()), st.integers(0, 40))


def _meant(
    known: list[NamedEvent], key: bytes, number: int, place: str | None
) -> NamedEvent | None:
    those = [event for event in reversed(known) if key in event.keys]
    for event in those:
        if event.participant == number:
            return event
    near = [event for event in those[:FEW] if place and PLACES[event.participant] == place]
    for event in sorted(near, key=lambda event: not event.is_delivery):
        return event
    for event in sorted(those, key=lambda event: event.is_delivery):
        return event
    return None


@given(st.lists(_step, max_size=40))
@settings(deadline=None)
def test_the_event_that_is_meant_is_the_same_among_few_and_among_many(
    steps: list[tuple[tuple[tuple[bytes, ...], int], bool] | int],
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(memory, "LOOK_BACK", FEW)
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


def _compare(remembered: LinkMemory, known: list[NamedEvent]) -> None:
    for key in KEYS:
        for number, place in PLACES.items():
            found, _ = remembered.find(key, number, place, PLACES.get)
            assert found is _meant(known, key, number, place)


@given(
    st.lists(st.tuples(_event, st.booleans(), st.booleans()), max_size=60), st.integers(1, 2 * MOST)
)
@settings(deadline=None)
def test_the_event_that_is_meant_is_the_same_however_many_were_noted_since_somebody_asked(
    steps: list[tuple[tuple[tuple[bytes, ...], int], bool, bool]], at_once: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(memory, "LOOK_BACK", FEW)
        patched.setattr(memory, "AT_ONCE", at_once)
        remembered, known = LinkMemory(MOST), list[NamedEvent]()
        for event_id, ((keys, participant), is_delivery, is_asked) in enumerate(steps, 1):
            reference = Reference(None, b"\0\0", event_id, event_id)
            event = NamedEvent(keys, is_delivery, participant, event_id, reference, None)
            remembered.note(event)
            known = [*known, event][-MOST:]
            if is_asked:
                _compare(remembered, known)
        assert remembered.has_forgotten == (len(steps) > MOST)
        _compare(remembered, known)
