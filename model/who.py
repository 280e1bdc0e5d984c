"""Names of who acted, as answers have them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Who:
    """A participant's number and name, as answers give them."""

    number: int
    name: str
