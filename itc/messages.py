"""What a participant does for each event, at once: join, event and packing.

A service that stamps every message of a broker does nothing else with clocks as often. Compiled,
it makes no tree in between and reads no node twice.
"""

from __future__ import annotations

from itc.core import core
from itc.errors import AnonymousError
from itc.packed import pack
from itc.stamp import Stamp


def receive(stamp: Stamp, *others: Stamp) -> tuple[Stamp, int, bytes]:
    """The stamp after an event that follows from the others, its height, and its packed form.

    The paper's receive, as `Stamp.join` with what `Stamp.peek` gives of each and then
    `Stamp.event`; with no others an event alone. The height is that of the stamp's interval, the
    bytes are what `pack` gives. Raises AnonymousError unless the stamp owns exactly one interval.
    """
    if core is not None:
        try:
            return core.receive(stamp, *others)
        except (OverflowError, RecursionError, TypeError):
            pass  # too large for it, or Python says what is wrong
    return _receive(stamp, *others)


def _receive(stamp: Stamp, *others: Stamp) -> tuple[Stamp, int, bytes]:
    interval = stamp.interval
    if interval is None:
        raise AnonymousError("only the owner of exactly one interval receives")
    for other in others:
        stamp = stamp.join(other.peek())
    after = stamp.event()
    return after, after.height_at(interval), pack(after)
