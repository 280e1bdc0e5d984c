"""Finds the message that a trace would fail at for good, and has it left out.

What the store does not take, or what the tracker fails at, comes again with each attempt. So after
one that failed the next, which begins at the checkpoint again, stores half as many messages at
once, and so on, until a batch of one message fails. That one goes to quarantine. Where this does
not help, or there are too many in a row, it is not the messages: the trace fails.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

from app.tracker.records import QUARANTINED_BODY, Unreadable
from model.texts import storable

if TYPE_CHECKING:
    from app.broker.deliveries import Arrival

# So many messages are left out before one is stored.
MOST_IN_A_ROW = 100


class Sieve:
    """The messages that made attempts of a trace fail, and how closely they are looked for."""

    def __init__(self) -> None:
        self.most: int | None = None  # messages of a batch; None: as many as usual
        self.refused: dict[bytes, str] = {}  # why, by their digests
        self._in_a_row = 0

    def narrow(self, digests: Sequence[bytes], why: str) -> bool:
        """Note that a batch of these messages failed; whether another attempt may come further."""
        unproven = [each for each in digests if each not in self.refused]
        if len(digests) > 1 and self.most != 1:
            self.most = len(digests) // 2
        elif unproven and self._in_a_row < MOST_IN_A_ROW:
            self._in_a_row += 1
            self.refused[unproven[0]] = why
            self.most = 1
        else:
            self.most, self.refused, self._in_a_row = None, {}, 0
            return False
        return True

    def widen(self, digests: Set[bytes], usual: int) -> None:
        """Note that a batch of these messages is stored; ``usual`` is how many it may have."""
        if self.most is None or not digests:
            return
        if digests - self.refused.keys():
            self._in_a_row = 0
        for each in digests:
            self.refused.pop(each, None)
        self.most = 2 * self.most if 2 * self.most < usual else None


class SiftedError(Exception):
    """An attempt that failed, maybe at a message: the next looks more closely."""

    def __init__(self, sieve: Sieve) -> None:
        left = f", {len(sieve.refused)} of them in quarantine" if sieve.refused else ""
        super().__init__(f"again, with {sieve.most} messages at once{left}, as it failed")


def quarantined(arrival: Arrival, why: str) -> Unreadable:
    """A message that is left out: of what it says nothing is kept that a store may not take."""
    key, body = storable(arrival.routing_key), arrival.body
    channel = arrival.message.channel
    return Unreadable(why, key, "{}", body[:QUARANTINED_BODY], len(body), arrival.at, channel)
