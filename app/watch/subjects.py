"""Subjects of assertions, as far as they are held against events while these come."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from app.stored.assertions import ViolationKind, WatchedEvent, unwatched
from model.assertions import Acknowledged, After, AtMost, LeadsTo, NeverConcurrent, from_json
from model.assertions.assertion import What

_KINDS: dict[type[What], ViolationKind] = {
    LeadsTo: ViolationKind.overdue,
    After: ViolationKind.unpreceded,
    NeverConcurrent: ViolationKind.concurrent,
    AtMost: ViolationKind.storm,
    Acknowledged: ViolationKind.overdue,
}


@dataclass(frozen=True, slots=True)
class AssertionScope:
    """An assertion: by which events it is judged, and how long after each of them (µs)."""

    what: What
    within: int = 0

    @property
    def kind(self) -> ViolationKind:
        return _KINDS[type(self.what)]

    def picks(self, event: WatchedEvent) -> bool:
        what = self.what
        match what:
            case LeadsTo() | Acknowledged():
                return event.is_publish and what.every.fits(event.type)
            case After():
                return not event.is_publish and what.every.fits(event.type)
            case NeverConcurrent():
                return event.is_publish and any(each.fits(event.type) for each in what.types)
            case AtMost():
                return event.is_publish  # whatever it is, something may have caused it


def subject_of(text: str) -> AssertionScope | None:
    """The subject of a stored assertion; None if it cannot be held against events as they come.

    Raises `ValueError` for one of another version.
    """
    assertion = from_json(msgspec.json.decode(text))
    if unwatched(assertion) is not None:
        return None
    what = assertion.what
    within = what.within or 0 if isinstance(what, LeadsTo | Acknowledged) else 0
    return AssertionScope(what, within)
