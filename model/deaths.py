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
from model.wording import Sentence

# Reasons for which a consumer had been handed the message.
HANDED_OVER_BEFORE = frozenset({"rejected", "delivery_limit"})


@dataclass(frozen=True, slots=True)
class Death:
    """A death: in which queue, why, and how many times by then in that queue for that reason.

    ``time`` is as the broker wrote it.
    """

    queue: str
    reason: str
    count: int
    exchange: str | None = None
    routing_keys: tuple[str, ...] = ()
    time: Any = None

    @property
    def is_delivered_before(self) -> bool:
        """Tell whether it was a delivery; if not, it expired or was pushed out."""
        return self.reason in HANDED_OVER_BEFORE


def is_put_off(death: Death, handed_from: Collection[str]) -> bool:
    """Tell whether a death is the end of a planned delay.

    Nobody is handed a message from a queue for delays: this one was only ``handed_from`` others.
    """
    return death.reason == "expired" and death.queue not in handed_from


LossWord: TypeAlias = Literal["queue_deleted", "not_there", "left", "equal", "unread", "returned"]

NOT_FINAL = frozenset({"left", "equal", "unread", "returned"})


class Loss(NamedTuple):
    """The loss of a copy that is gone from its queue without a known delivery.

    It may be older than ``noticed_at``. ``left``: nobody knows how, and it may be elsewhere.
    ``equal``: it or an equal one was handed over. ``unread``: a delivery from its queue, perhaps
    its own, is in quarantine. ``returned``: it had been handed over, and was back in its queue.
    """

    noticed_at: Microseconds
    reason: LossWord

    @property
    def is_final(self) -> bool:
        """Tell whether nobody will be handed it any more."""
        return self.reason not in NOT_FINAL

    @property
    def state(self) -> Literal["gone", "handed_over"]:
        """The copy's state; ``handed_over`` also if only it or an equal one was."""
        return "handed_over" if self.reason in ("equal", "unread", "returned") else "gone"

    def remark(self, exchange: str | None) -> str:
        """A copy's fate, in words."""
        time = f"by {said_time(self.noticed_at)}"
        # The default exchange is traced as if it had a queue of each name.
        doubt = "" if exchange else ", or there never was one"
        return _REMARKS[self.reason].format(time=time, doubt=doubt)


_REMARKS: Mapping[LossWord, Sentence] = {
    "equal": Sentence.equal_copy,
    "unread": Sentence.unread_copy,
    "not_there": Sentence.absent_copy,
    "left": Sentence.left_copy,
    "returned": Sentence.left_again,
    "queue_deleted": Sentence.deleted_copy,
}


def headers_of(properties: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """A message's headers; an empty table where it has none."""
    headers = (properties or {}).get("headers")
    return headers if isinstance(headers, dict) else {}


def deaths_of(properties: Mapping[str, Any] | None) -> tuple[Death, ...]:
    """The deaths in a message's properties, as its broker lists them; unreadable ones are left out.

    The last comes first.
    """
    entries = headers_of(properties).get("x-death")
    deaths = map(_death, entries) if isinstance(entries, list) else ()
    return tuple(death for death in deaths if death is not None)


def _death(entry: object) -> Death | None:
    if not isinstance(entry, dict):
        return None
    queue, reason, count = entry.get("queue"), entry.get("reason"), entry.get("count", 1)
    if not isinstance(queue, str) or not isinstance(reason, str) or not isinstance(count, int):
        return None
    exchange, keys = entry.get("exchange"), entry.get("routing-keys")
    return Death(
        storable(queue),
        storable(reason),
        count,
        storable(exchange) if isinstance(exchange, str) else None,
        tuple(storable(k) for k in keys if isinstance(k, str)) if isinstance(keys, list) else (),
        entry.get("time"),
    )


class ReportedDeaths:
    """Deaths of one message that were reported already.

    Several dead letters may report one death: one that goes to several queues, is handed over again
    or dies again. Counts for each queue and reason tell deaths apart; copies that part and come
    back to one queue count as one there.
    """

    def __init__(self, initial: Sequence[Death] = ()) -> None:
        """``initial`` are the deaths that the message had when it was published."""
        self._initial = _counts(initial)
        self._counts: dict[tuple[str, str], int] = {}

    def news(self, deaths: Sequence[Death]) -> list[tuple[int, Death]]:
        """The deaths that are new, each with its index in the list, newest first."""
        # Before 4.0 the broker counts on from the initial counts; later versions begin anew.
        if self._initial and not any(
            death.count > self._initial.get((death.queue, death.reason), 0) for death in deaths
        ):
            self._initial = {}
        news = []
        for place, death in enumerate(deaths):
            key = (death.queue, death.reason)
            count = self._counts.get(key, self._initial.get(key, 0))
            if death.count > count:
                self._counts[key] = death.count
                news.append((place, death))
        return news


def _counts(deaths: Sequence[Death]) -> dict[tuple[str, str], int]:
    return {(death.queue, death.reason): death.count for death in deaths}
