"""The queues that a dead letter may come from, and its fingerprint in each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import NamedTuple

from app.tracker.fingerprint import (
    DEATHS,
    death_digest,
    fingerprint_after_deaths,
    fingerprint_without_deaths,
    message_digest,
    stream_fingerprints,
    sum_deaths,
)
from app.tracker.records import Deliver
from app.tracker.streams import is_from_stream
from model.deaths import Death

# States before its deaths in which a dead letter is searched. There are as many as it has deaths,
# if their order is what it seems to be: some 28 where delays are made of queues in a row.
MOST_ORIGINS = 64
# Deaths beside the likeliest that may have been the newest.
MOST_OTHERS = 8
# Origins that are tried as a stream shows them: each takes the whole body twice.
MOST_STREAMED = 4
# 4.0 and later write it, list deaths newest first, and begin anew where a client brought some.
LAST_DEATH = "x-last-death-queue"


class DeathOrigin(NamedTuple):
    """A queue where a dead letter may have been, and its fingerprint there.

    ``death`` is the one by which it left, ``newer_deaths`` are those since, newest first.
    ``alternatives`` are other fingerprints that it may have there.
    """

    queue: str
    fingerprint: bytes
    death: Death
    newer_deaths: tuple[Death, ...] = ()
    alternatives: tuple[bytes, ...] = ()

    @property
    def is_redelivery(self) -> bool:
        """Tell whether it was delivered from that queue, and rejected."""
        return self.death.is_delivered_before

    @property
    def copy_keys(self) -> Iterator[tuple[str, bytes]]:
        """The queue with each fingerprint, the likeliest first."""
        for mark in (self.fingerprint, *self.alternatives):
            yield self.queue, mark


def origins(deliver: Deliver) -> Iterator[DeathOrigin]:
    """Yield the places that a dead letter may come from, the nearest in time first.

    Before its newest death it had the others, or that one less often; and so on, back to none. Of
    the first step it is known which death was the newest, of earlier ones it is only likely: the
    likeliest are tried first, and `MOST_ORIGINS` in all.
    """
    deaths = deliver.deaths
    if not deaths:
        return
    message = message_digest(deliver)
    streamed = is_from_stream(deliver)
    is_newest_first = LAST_DEATH in deliver.properties["headers"]
    # By how often not the likeliest death is taken for the newest; then, in turn.
    steps: list[tuple[int, int, Sequence[Death], int, int, tuple[Death, ...]]] = []
    total = sum_deaths(deaths)
    orders: tuple[Sequence[Death], ...] = (deaths, _from_both_ends(deaths))
    for order in orders if is_newest_first else orders[::-1]:
        steps.append((len(steps), len(steps), order, 0, total, ()))
    visited: set[tuple[str, int]] = set()
    undead = 0
    turns = len(steps)
    for _ in range(4 * MOST_ORIGINS):  # invalid entries, and repetitions
        if not steps or len(visited) == MOST_ORIGINS:
            return
        detours, _, order, newest, total, deaths_since = heappop(steps)
        death = order[newest]
        rest, total = _undone(order, newest, total)
        if death.exchange is not None and (death.queue, total) not in visited:
            visited.add((death.queue, total))
            alternatives: tuple[bytes, ...] = ()
            if rest:
                mark = fingerprint_after_deaths(message, total)
            else:
                key = (*death.routing_keys, "")[0]
                mark = fingerprint_without_deaths(death.exchange, key, deliver)
                alternatives = (message,) if is_newest_first else ()
                if streamed and undead < MOST_STREAMED:
                    alternatives += tuple(stream_fingerprints(death.exchange, key, deliver))
                undead += 1
            yield DeathOrigin(death.queue, mark, death, deaths_since, alternatives)
        for place in range(min(len(rest), 1 + MOST_OTHERS)):
            step = (detours + (place > 0), turns, rest, place, total, (*deaths_since, death))
            heappush(steps, step)
            turns += 1


def dead_in(deliver: Deliver) -> tuple[list[str], str]:
    """The queues in which a message died, and the exchange that it was published to."""
    deaths = deliver.deaths
    if not deaths:
        return [], deliver.exchange
    exchange = deliver.properties["headers"].get("x-first-death-exchange")
    if not isinstance(exchange, str):
        exchange = deaths[-1].exchange
    return [death.queue for death in deaths], deliver.exchange if exchange is None else exchange


def _from_both_ends(deaths: Sequence[Death]) -> list[Death]:
    """Entries newest first, where each death has reversed those before it."""
    half = (len(deaths) + 1) // 2
    order = [*deaths]
    order[0::2], order[1::2] = deaths[:half], deaths[half:][::-1]
    return order


def _undone(order: Sequence[Death], newest: int, total: int) -> tuple[list[Death], int]:
    """The deaths before one of them, newest first as far as that is known, and their digest.

    A repeated one goes to its place in a circle: behind those that have happened as often since.
    """
    death = order[newest]
    rest = [*order[:newest], *order[newest + 1 :]]
    total -= death_digest(death)
    if death.count > 1:
        previous = replace(death, count=death.count - 1)
        total += death_digest(previous)
        place = 0
        while place < len(rest) and rest[place].count >= previous.count:
            place += 1
        rest.insert(place, previous)
    return rest, total % DEATHS
