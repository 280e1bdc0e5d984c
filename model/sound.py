"""Soundness: whether participants are those who act, as far as it can be seen.

A participant that is finer than its program makes a delivery and the reaction to it look
concurrent. That is seen in two ways: in participants that were assumed, and in participants that
publish and never receive, where others of their client receive. Service and Spark ask with the
same queries and say the same sentences.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MOST_QUIET = 1_000
"""Quiet events of an answer's span are counted up to this many."""

NAMED = 3
FINE = ("connection", "channel")
"""The policies that may take one program for several participants."""


@dataclass(frozen=True, slots=True)
class Assumed:
    """A participant that is taken for a program of its own, and may be a part of another."""

    number: int
    name: str
    first_event_id: int
    last_event_id: int

    def is_within(self, a: int, b: int) -> bool:
        """Whether an answer about the events from one to the other, in either order, is about it.

        By the span of its events, though none of these need lie between the two.
        """
        first, last = sorted((a, b))
        return self.last_event_id >= first and self.first_event_id <= last


@dataclass(frozen=True, slots=True)
class Misfit:
    """A policy that is too fine for a trace's clients.

    Of ``publishes``, ``apart`` are by participants that never received, of clients that receive as
    other participants.
    """

    vhost: str
    policy: str
    publishes: int
    apart: int


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why an answer is not sound, and what to do about it; ``str()`` is the sentence for both."""

    found: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.found}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class Soundness:
    """What an answer says of its span beside gaps: doubts, and how many quiet events it holds."""

    doubts: tuple[Doubt, ...] = ()
    quiet: int = 0

    def to_json(self) -> dict[str, Any]:
        """As the API and exports show it."""
        return {
            "sound": not self.doubts,
            "doubts": [str(doubt) for doubt in self.doubts],
            "quiet": self.quiet,
        }


def doubts_of(assumed: Sequence[Assumed], misfit: Misfit | None) -> tuple[Doubt, ...]:
    """The doubts about an answer, by the assumed participants of its span and its trace's policy.

    One publish that is ``apart`` is enough.
    """
    found = []
    if misfit is not None and misfit.apart:
        found.append(_of_misfit(misfit))
    if assumed:
        found.append(_of_assumed(assumed))
    return tuple(found)


def _of_misfit(misfit: Misfit) -> Doubt:
    verb = "is" if misfit.apart == 1 else "are"
    return Doubt(
        f"participants are {misfit.policy}s, and {misfit.apart} of {misfit.publishes} publishes"
        f" {verb} by {misfit.policy}s that received nothing, of clients that receive on others:"
        " what led to them is not seen",
        f"rabbitmq-itc restamp {shlex.quote(misfit.vhost)} --participant client sees it",
    )


def _of_assumed(assumed: Sequence[Assumed]) -> Doubt:
    names = [each.name for each in assumed[:NAMED]]
    if len(assumed) > NAMED:
        names.append(f"{len(assumed) - NAMED} more")
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    if len(assumed) == 1:
        said = "1 participant is a connection that gives no name, at a place that several"
        part = "it may be a part"
    else:
        said = f"{len(assumed)} participants are connections that give no name, at places that"
        said += " several"
        part = "each may be a part"
    return Doubt(
        f"{said} programs share ({listed}): {part} of another participant",
        "connections that give their client's name tell them apart",
    )


def assumed_sql(trace_id: int, a: int, b: int) -> str:
    """The query for `Assumed`s, `Assumed.is_within`; a test holds one to the other."""
    first, last = sorted((int(a), int(b)))
    return (
        "SELECT number, name, first_event_id, last_event_id FROM participants"
        f" WHERE trace_id = {int(trace_id)} AND assumed"
        f" AND last_event_id >= {first} AND first_event_id <= {last} ORDER BY number"
    )


def misfit_sql(trace_id: int) -> str:
    """The query for a trace's `Misfit`; no row where its policy is not too fine for any client.

    A client is a user at a place, and at loopback its name; one without a name may be any there.
    """
    fine = ", ".join(f"'{policy}'" for policy in FINE)
    receives = "max(CASE WHEN p.seq > p.published {more}THEN 1 ELSE 0 END)"
    at_place = 'OVER (PARTITION BY p."user", p.place)'
    return f"""
SELECT vhost, policy, CAST(sum(published) AS BIGINT) AS publishes,
  CAST(sum(CASE WHEN published = seq AND receives = 1 THEN published ELSE 0 END) AS BIGINT) AS apart
FROM (
  SELECT t.vhost, t.policy, p.published, p.seq,
    CASE WHEN p.client IS NULL OR p.place IS NULL OR p.place <> '::1' AND p.place NOT LIKE '127.%'
      THEN {receives.format(more="")} {at_place}
      WHEN {receives.format(more="AND p.client IS NULL ")} {at_place} = 1 THEN 1
      ELSE {receives.format(more="")} OVER (PARTITION BY p."user", p.place, p.client)
    END AS receives
  FROM traces AS t CROSS JOIN participants AS p
  WHERE t.id = {int(trace_id)} AND t.policy IN ({fine}) AND p.trace_id = t.id
) AS acting
GROUP BY vhost, policy
"""


def quiet_sql(trace_id: int, a: int, b: int) -> str:
    """The query for the number of quiet events from one to the other, counted to `MOST_QUIET`."""
    first, last = sorted((int(a), int(b)))
    return (
        f"SELECT count(*) AS quiet FROM (SELECT id FROM events WHERE trace_id = {int(trace_id)}"
        f" AND quiet AND id BETWEEN {first} AND {last} LIMIT {MOST_QUIET}) AS counted"
    )
