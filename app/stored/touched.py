"""What some events touched, and what they did not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from model.event import Event


class Touched(NamedTuple):
    """The events of a trace after the first of some, by what these had to do with them.

    Of the events ``since``, those asked about left out, up to ``as_of``: ``caused`` are led to by
    messages and links, ``may_have`` only happened after one of them, and the others after none. If
    ``caused_truncated`` there are more than that, and these are among the others. ``items`` are
    some of one of the three, by id, and ``next`` where the rest is to be looked for; ``heavy`` is
    that of `app.stored.pages.Found`.
    """

    as_of: int
    since: int
    caused: int
    may_have: int
    caused_truncated: bool = False
    items: Sequence[Event] = ()
    next: int | None = None
    heavy: Mapping[int, int] = {}

    @property
    def cannot_have(self) -> int:
        """How many happened after none of them, and are not led to."""
        return self.since - self.caused - self.may_have
