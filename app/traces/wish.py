"""A wish for what a trace is to take, checked before anything is changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from app.errors import BadRequestError
from app.stored.capture import Trace
from app.tracker.taken import ALL, Selection, taken

if TYPE_CHECKING:
    from app.broker.source import TraceSource

# Of what is not there, an error names this many.
MOST_NAMED = 5


class Wish(msgspec.Struct, frozen=True):
    """The wish to take bodies or not, and of what messages; None of either: as before.

    What there is not yet may come ``later``.
    """

    bodies: bool | None = None
    taken: Selection | None = None
    later: bool = False

    def of(self, known: Trace | None) -> tuple[bool, Selection]:
        """The selection for a trace that may be known."""
        bodies, present = (known.bodies, known.taken) if known else (True, ALL)
        return (
            bodies if self.bodies is None else self.bodies,
            present if self.taken is None else self.taken,
        )

    async def check(self, source: TraceSource, vhost: str, known: Trace | None) -> None:
        """See that what is newly to be taken covers something that the broker has.

        Raises `BadRequestError`, and `OutageError` if the broker cannot be asked.
        """
        _, wanted = self.of(known)
        if self.later or wanted.is_all or (known is not None and wanted == known.taken):
            return
        if unknown := await source.unknown(vhost, wanted):
            more = len(unknown) - MOST_NAMED
            listed = ", ".join(unknown[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
            raise BadRequestError(
                f"the virtual host {vhost!r} has no {listed}. In patterns * is one whole word and "
                "# any number of words, parted by dots. With later (--later) they may come later"
            )


def wish(
    bodies: bool | None,
    exchanges: Sequence[str] | None,
    queues: Sequence[str] | None,
    *,
    later: bool,
) -> Wish:
    """A wish; of exchanges and queues None means all if the other is given, else as before.

    Raises `BadRequestError` for what no broker has.
    """
    if exchanges is None and queues is None:
        return Wish(bodies, None, later)
    try:
        return Wish(bodies, taken(exchanges, queues), later)
    except ValueError as error:
        raise BadRequestError(str(error)) from error
