"""Headers of dead letters: how a message died.

The broker writes ``x-death`` when it moves a message to a dead letter exchange: one entry for each
queue and reason, which counts up, the death that was last first. A client that publishes such a
message again copies it, and before 4.0 the broker goes on counting there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from model.texts import storable
from model.times import Microseconds, said_time

# Whoever rejected a message, or let it come back too often, was handed it before.
HANDED_OVER_BEFORE = frozenset({"rejected", "delivery_limit"})


@dataclass(frozen=True, slots=True)
class Death:
    """A death: in which queue, why, and how many times by then in that queue for that reason."""

    queue: str
    reason: str
    count: int
    exchange: str | None = None
    routing_keys: tuple[str, ...] = ()


def is_put_off(death: Death, handed_from: Collection[str]) -> bool:
    """Tell whether a message's time in a queue ended as planned, where it arrived elsewhere then.

    Queues for delays are made so: nobody is handed a message from there, which this one was only
    ``handed_from`` others.
    """
    return death.reason == "expired" and death.queue not in handed_from


LossWord: TypeAlias = Literal["queue_deleted", "not_there", "left", "equal", "unread"]


NOT_FINAL = frozenset({"left", "equal", "unread"})


class Loss(NamedTuple):
    """The loss of a copy that is gone from its queue, and of which no delivery there is known.

    It was known ``at`` a time, and may be older. ``left``: how is not known, and it may be
    elsewhere. ``equal``: it was handed over, or an equal one was. ``unread``: a delivery from its
    queue is in quarantine, which may be its own.
    """

    at: Microseconds
    reason: LossWord

    @property
    def is_final(self) -> bool:
        """Tell whether nobody will be handed it any more."""
        return self.reason not in NOT_FINAL

    @property
    def state(self) -> Literal["gone", "handed_over"]:
        """What is known of the copy; ``handed_over`` also where it or an equal one was."""
        return "handed_over" if self.reason in ("equal", "unread") else "gone"

    def remark(self, exchange: str | None) -> str:
        """What became of a copy that was published to an exchange."""
        when = f"by {said_time(self.at)}"
        if self.reason == "equal":
            return f"was handed over {when}, or an equal message was"
        if self.reason == "unread":
            return f"left its queue {when}: a delivery from there is in quarantine"
        if self.reason == "not_there":
            return f"was gone {when}: purged, expired, pushed out, or refused"
        if self.reason == "left":
            ways = "it was purged, handed over in a gap, or is a dead letter, which waits elsewhere"
            return f"left its queue {when}: {ways} or was dropped"
        # The default exchange is traced as if it had a queue of each name.
        never = "" if exchange else ", or there never was one"
        return f"was deleted with its queue {when}{never}"


def headers_of(properties: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """A message's headers; none for none."""
    headers = (properties or {}).get("headers")
    return headers if isinstance(headers, dict) else {}


def deaths_of(properties: Mapping[str, Any] | None) -> list[Death]:
    """The deaths that a message tells of, the newest first; what cannot be read is left out."""
    told = headers_of(properties).get("x-death")
    found = (_death(each) for each in told) if isinstance(told, list) else ()
    return [death for death in found if death is not None]


def _death(told: object) -> Death | None:
    if not isinstance(told, dict):
        return None
    queue, reason, count = told.get("queue"), told.get("reason"), told.get("count", 1)
    if not isinstance(queue, str) or not isinstance(reason, str) or not isinstance(count, int):
        return None
    exchange, keys = told.get("exchange"), told.get("routing-keys")
    return Death(
        storable(queue),
        storable(reason),
        count,
        storable(exchange) if isinstance(exchange, str) else None,
        tuple(storable(k) for k in keys if isinstance(k, str)) if isinstance(keys, list) else (),
    )


class ReportedDeaths:
    """Deaths of one message that were told of already.

    Several dead letters may tell of one death: one that goes to several queues, that is handed over
    again, or that dies again. Counts tell them apart, for each queue and reason; of copies that
    part on their way and come back to one queue the deaths there are taken for the same.
    """

    def __init__(self, carried: Sequence[Death] = ()) -> None:
        """``carried`` is what the message said when it was published."""
        self._carried = _counts(carried)
        self._counts: dict[tuple[str, str], int] = {}

    def news(self, deaths: Sequence[Death]) -> list[tuple[int, Death]]:
        """The deaths that nobody has told of yet: each with its place in the list, newest first."""
        # A broker that counts on goes beyond what was carried; from 4.0 on it begins anew.
        if self._carried and not any(
            each.count > self._carried.get((each.queue, each.reason), 0) for each in deaths
        ):
            self._carried = {}
        found = []
        for place, death in enumerate(deaths):
            key = (death.queue, death.reason)
            known = self._counts.get(key, self._carried.get(key, 0))
            if death.count > known:
                self._counts[key] = death.count
                found.append((place, death))
        return found


def _counts(deaths: Sequence[Death]) -> dict[tuple[str, str], int]:
    return {(each.queue, each.reason): each.count for each in deaths}
