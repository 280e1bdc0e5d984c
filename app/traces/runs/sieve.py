"""Finds the message that a trace would fail at for good, and has it left out.

A message that the store does not take, or that the tracker fails at, comes again with each attempt.
So after a failure the next attempt, which begins at the checkpoint again, stores half as many
messages at once, and so on, until a batch of one message fails. That one goes to quarantine. Where
this does not help, or there are too many in a row, it is not the messages: the trace fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.tracker.records import QUARANTINED_BODY, Unreadable
from model.texts import storable

if TYPE_CHECKING:
    from app.broker.deliveries import Arrival

# Messages left out before one is stored.
MOST_IN_A_ROW = 100


class Sieve:
    """The messages that made attempts of a trace fail, and the search for them."""

    def __init__(self) -> None:
        self.batch_limit: int | None = None  # messages of a batch; None: as many as usual
        self.refused: dict[bytes, str] = {}  # reasons, by digest
        self._in_a_row = 0

    def narrow(self, digests: Sequence[bytes], reason: str) -> bool:
        """Note that a batch failed; tell whether another attempt may come further."""
        unproven = [digest for digest in digests if digest not in self.refused]
        if len(digests) > 1 and self.batch_limit != 1:
            self.batch_limit = len(digests) // 2
        elif unproven and self._in_a_row < MOST_IN_A_ROW:
            self._in_a_row += 1
            self.refused[unproven[0]] = reason
            self.batch_limit = 1
        else:
            self.batch_limit, self.refused, self._in_a_row = None, {}, 0
            return False
        return True

    def widen(self, digests: Sequence[bytes], usual: int) -> None:
        """Note that a batch is stored; ``usual`` is how many messages it may have."""
        if self.batch_limit is None or not digests:
            return
        if {*digests} - self.refused.keys():
            self._in_a_row = 0
        for digest in digests:
            self.refused.pop(digest, None)
        self.batch_limit = 2 * self.batch_limit if 2 * self.batch_limit < usual else None


class SiftedError(Exception):
    """An attempt that failed, maybe at a message: the next looks more closely."""

    def __init__(self, sieve: Sieve) -> None:
        remark = f", {len(sieve.refused)} of them in quarantine" if sieve.refused else ""
        super().__init__(f"again, with {sieve.batch_limit} messages at once{remark}, as it failed")


def unreadable(arrival: Arrival, reason: str) -> Unreadable:
    """A message that is left out, without anything that a store may not take."""
    key, body = storable(arrival.routing_key), arrival.body
    channel = arrival.message.channel
    return Unreadable(reason, key, "{}", body[:QUARANTINED_BODY], len(body), arrival.at, channel)
