"""Participants that are one program: one is handed what the other publishes.

A consumer's and a publisher's connection are joined one to one by the values of their messages: one
never publishes, the other is never handed anything, and both have the same user, since no policy
joins two users.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from model.reports.correlations import OneProgram
from model.who import Who
from spark_jobs.events.ranges import Longs
from spark_jobs.reports.value_matches import Programs
from spark_jobs.spark.database import Connection

LEAST_KNOWN = 20
LEAST_SHARE = 0.9
# Names of participants looked up at once.
MOST_ASKED = 1_000


class Actor(NamedTuple):
    """A participant: its name, user, place and client."""

    number: int
    name: str
    user: str
    place: str | None
    client: str | None


class Program(NamedTuple):
    """Two participants that are one program, and what to set."""

    receiver: Actor
    publisher: Actor
    publishes: int
    share: float
    policy: str | None
    advice: str

    def describe(self) -> OneProgram:
        receiver, publisher = (
            Who(actor.number, actor.name) for actor in (self.receiver, self.publisher)
        )
        share = round(self.share, 4)
        return OneProgram(receiver, publisher, self.publishes, share, self.policy, self.advice)


def programs_of(figures: Programs, connection: Connection, trace: int) -> list[Program]:
    """The participants that belong together, by the figures of all parts."""
    counts = _sums(figures)
    best: dict[int, int] = {}
    for (_, publisher_number), (publishes, _) in counts.items():
        best[publisher_number] = max(best.get(publisher_number, 0), publishes)
    numbers = {number for pair in counts for number in pair}
    actors = _actors(connection, trace, sorted(numbers)[:MOST_ASKED])
    policy = str(connection.rows(f"SELECT policy FROM traces WHERE id = {trace}")[0]["policy"])
    ranked = []
    for (receiver_number, publisher_number), (publishes, newest) in counts.items():
        if (
            publishes < max(LEAST_KNOWN, LEAST_SHARE * best[publisher_number])
            or not {
                receiver_number,
                publisher_number,
            }
            <= actors.keys()
        ):
            continue
        receiver, publisher = actors[receiver_number], actors[publisher_number]
        if receiver.user == publisher.user:
            alike = (receiver.place == publisher.place, receiver.client == publisher.client)
            ranked.append((alike, newest, publishes, -receiver_number, -publisher_number))
    return list(_one_to_one(sorted(ranked, reverse=True), actors, best, policy))


def _sums(figures: Programs) -> dict[tuple[int, int], tuple[int, int]]:
    """Counts by long values where a publisher has enough of them, since short ones coincide."""
    counts: dict[int, dict[tuple[int, int], tuple[int, int]]] = {0: {}, 1: {}}
    for receiver, publisher, is_long, publishes, newest in zip(
        *(c.tolist() for c in figures), strict=True
    ):
        total = counts[is_long].get((receiver, publisher), (0, 0))
        counts[is_long][receiver, publisher] = (total[0] + publishes, total[1] + newest)
    sure = {
        publisher
        for (_, publisher), (publishes, _) in counts[1].items()
        if publishes >= LEAST_KNOWN
    }
    short = {pair: sums for pair, sums in counts[0].items() if pair[1] not in sure}
    return {**short, **{pair: sums for pair, sums in counts[1].items() if pair[1] in sure}}


def _one_to_one(
    ranked: Sequence[tuple[Any, ...]],
    actors: Mapping[int, Actor],
    best: Mapping[int, int],
    policy: str,
) -> Any:
    paired: set[int] = set()
    for _, _, publishes, receiver_key, publisher_key in ranked:
        receiver, publisher = actors[-receiver_key], actors[-publisher_key]
        if not {receiver.number, publisher.number} & paired:
            paired |= {receiver.number, publisher.number}
            share = publishes / best[publisher.number]
            yield Program(
                receiver, publisher, publishes, share, *_advice(receiver, publisher, policy)
            )


def _advice(receiver: Actor, publisher: Actor, policy: str) -> tuple[str | None, str]:
    """The policy that makes them one participant, and a sentence."""
    if receiver.place != publisher.place:
        return "user", "they act from two places: participants by user are one"
    if policy in ("channel", "connection") and (
        receiver.client is None or receiver.client == publisher.client
    ):
        return "client", f"by {policy} a program is several participants: by client they are one"
    if policy == "client" and (receiver.client is None or publisher.client is None):
        return "host", (
            "their place is shared and they give no name: name their connections alike, take the"
            " place out of ITC_SHARED_PLACES, or see a user at a place as one"
        )
    return "host", "they have two names at one place: a user at a place is one"


def _actors(connection: Connection, trace: int, numbers: Sequence[int]) -> dict[int, Actor]:
    if not numbers:
        return {}
    rows = connection.rows(
        "SELECT number, name, \"user\", coalesce(place, '') AS place,"
        " coalesce(client, '') AS client FROM participants"
        f" WHERE trace_id = {trace} AND number IN ({', '.join(map(str, numbers))})"
    )
    return {
        row["number"]: Actor(
            row["number"], row["name"], row["user"], row["place"] or None, row["client"] or None
        )
        for row in rows
    }


def aliases(programs: Sequence[Program]) -> dict[int, int]:
    """The receiver that each publisher is the same program as."""
    return {program.publisher.number: program.receiver.number for program in programs}


def merge_programs(roll: Mapping[str, Longs], programs: Sequence[Program]) -> dict[str, Longs]:
    """The events, with each program as one participant."""
    participants = roll["participant"].copy()
    for publisher, receiver in aliases(programs).items():
        participants[roll["participant"] == publisher] = receiver
    return {**roll, "participant": np.asarray(participants, np.int64)}
