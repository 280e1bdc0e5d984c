"""What some events touched, and what they did not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

from model.described import INNER
from model.event import Event


class Touched(NamedTuple):
    """Of the events since some: how many these caused, may have influenced, or did not.

    Those asked about are left out. ``items`` are some of one of the three, by id; ``heavy`` is that
    of `app.stored.pages.Found`.
    """

    as_of: Annotated[int, "The newest event that was looked at."]
    since: Annotated[int, "How many events came after the first of them."]
    caused: Annotated[int, "To which messages and links lead."]
    may_have: Annotated[int, "Which happened after one of them, and no more is known."]
    caused_truncated: Annotated[
        bool, "More were caused than could be followed; they are among the others."
    ] = False
    items: Annotated[Sequence[Event], INNER] = ()
    next: Annotated[int | None, "Where it is truncated: `after` for more."] = None
    heavy: Annotated[Mapping[int, int], INNER] = {}

    @property
    def cannot_have(self) -> int:
        """Which happened after none of them: not influenced by any, if the answer is complete and
        sound.
        """
        return self.since - self.caused - self.may_have

    @property
    def truncated(self) -> bool:
        """Whether there are more than `items`."""
        return self.next is not None
