"""Participants that are one program: what the one is handed, the other publishes.

A consumer's and a publisher's connection are joined one to one by the values of their messages.
Only whoever never publishes is joined with whoever is never handed anything, and only of one user:
no policy joins two users.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from model.reports.correlations import OneProgram
from model.who import Who
from spark_jobs.chains.ranges import Longs
from spark_jobs.reports.matching import Programs
from spark_jobs.spark.database import Connection

LEAST_KNOWN = 20
LEAST_SHARE = 0.9
# Names of participants looked up at once.
MOST_ASKED = 1_000


class Acting(NamedTuple):
    """Knowledge of a participant."""

    number: int
    name: str
    user: str
    place: str | None
    client: str | None


class Program(NamedTuple):
    """Two participants that are one program, and what to set."""

    receiver: Acting
    publisher: Acting
    publishes: int
    share: float
    policy: str | None
    advice: str

    def described(self) -> OneProgram:
        """As reports show it."""
        receiver, publisher = (
            Who(each.number, each.name) for each in (self.receiver, self.publisher)
        )
        share = round(self.share, 4)
        return OneProgram(receiver, publisher, self.publishes, share, self.policy, self.advice)


def programs_of(found: Programs, connection: Connection, trace: int) -> list[Program]:
    """Find the participants that belong together, by what was found in all parts."""
    counts = _summed(found)
    most: dict[int, int] = {}
    for (_, publisher), (known, _) in counts.items():
        most[publisher] = max(most.get(publisher, 0), known)
    wanted = {number for both in counts for number in both}
    who = _who(connection, trace, sorted(wanted)[:MOST_ASKED])
    policy = str(connection.rows(f"SELECT policy FROM traces WHERE id = {trace}")[0]["policy"])
    ranked = []
    for (receiver, publisher), (known, newest) in counts.items():
        if (
            known < max(LEAST_KNOWN, LEAST_SHARE * most[publisher])
            or not {
                receiver,
                publisher,
            }
            <= who.keys()
        ):
            continue
        one, other = who[receiver], who[publisher]
        if one.user == other.user:
            alike = (one.place == other.place, one.client == other.client)
            ranked.append((alike, newest, known, -receiver, -publisher))
    return list(_one_to_one(sorted(ranked, reverse=True), who, most, policy))


def _summed(found: Programs) -> dict[tuple[int, int], tuple[int, int]]:
    """By long values where a publisher has enough of them, since short ones coincide."""
    counts: dict[int, dict[tuple[int, int], tuple[int, int]]] = {0: {}, 1: {}}
    for to, by, is_long, known, newest in zip(*(c.tolist() for c in found), strict=True):
        before = counts[is_long].get((to, by), (0, 0))
        counts[is_long][to, by] = (before[0] + known, before[1] + newest)
    sure = {by for (_, by), (known, _) in counts[1].items() if known >= LEAST_KNOWN}
    others = {both: those for both, those in counts[0].items() if both[1] not in sure}
    return {**others, **{both: those for both, those in counts[1].items() if both[1] in sure}}


def _one_to_one(
    ranked: Sequence[tuple[Any, ...]],
    who: Mapping[int, Acting],
    most: Mapping[int, int],
    policy: str,
) -> Any:
    taken: set[int] = set()
    for _, _, known, receiver, publisher in ranked:
        one, other = who[-receiver], who[-publisher]
        if not {one.number, other.number} & taken:
            taken |= {one.number, other.number}
            share = known / most[other.number]
            yield Program(one, other, known, share, *_advice(one, other, policy))


def _advice(one: Acting, other: Acting, policy: str) -> tuple[str | None, str]:
    """The policy that sees them as one, and a sentence."""
    if one.place != other.place:
        return "user", "they act from two places: participants by user are one"
    if policy in ("channel", "connection") and (one.client is None or one.client == other.client):
        return "client", f"by {policy} a program is several participants: by client they are one"
    if policy == "client" and (one.client is None or other.client is None):
        return "host", (
            "their place is shared and they give no name: name their connections alike, take the"
            " place out of ITC_SHARED_PLACES, or see a user at a place as one"
        )
    return "host", "they have two names at one place: a user at a place is one"


def _who(connection: Connection, trace: int, numbers: Sequence[int]) -> dict[int, Acting]:
    if not numbers:
        return {}
    rows = connection.rows(
        "SELECT number, name, \"user\", coalesce(place, '') AS place,"
        " coalesce(client, '') AS client FROM participants"
        f" WHERE trace_id = {trace} AND number IN ({', '.join(map(str, numbers))})"
    )
    return {
        row["number"]: Acting(
            row["number"], row["name"], row["user"], row["place"] or None, row["client"] or None
        )
        for row in rows
    }


def joined(programs: Sequence[Program]) -> dict[int, int]:
    """Of each publisher, who it is the same as."""
    return {each.publisher.number: each.receiver.number for each in programs}


def merged(roll: Mapping[str, Longs], programs: Sequence[Program]) -> dict[str, Longs]:
    """The events, as if those were one participant."""
    who = roll["participant"].copy()
    for publisher, receiver in joined(programs).items():
        who[roll["participant"] == publisher] = receiver
    return {**roll, "participant": np.asarray(who, np.int64)}
