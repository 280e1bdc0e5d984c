"""Names of who acted, as answers have them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Who:
    """A participant's number and name, as answers give them."""

    number: int
    name: str


def is_called(name: str, participants: Iterable[str]) -> bool:
    """Tell whether one of these is a name of a participant, or of its service: what it begins with.

    Names are such as ``billing``, ``billing@10.0.0.2`` and ``billing (guest@10.0.0.2)``.
    """
    with_place = (f"{name} (", f"{name}@")
    return any(each == name or each.startswith(with_place) for each in participants)
