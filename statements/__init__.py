"""SQL that the service's store and Spark's jobs share: on gaps, and on the soundness of answers.

Statements are text over the tables that both read, and load nothing but `model`, some of whose
predicates they say in SQL; tests hold one to the other. Numbers and names in them are our own, or
parameters' names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import NamedTuple

from model.doubtful import MOST_DOUBTFUL
from model.sound import (
    LEAST_SHARE,
    MOST_CONNECTIONS,
    MOST_LATE,
    MOST_MISSED,
    MOST_QUIET,
    Evidence,
    SplitParticipant,
)
from model.words import Awareness

REACTIONS = "CASE WHEN reactions < explained + spanned THEN explained + spanned ELSE reactions END"
"""A participant's `Evidence.reactions`, and at least those that links tell of: one that was handed
nothing may have its causes elsewhere, as spans tell."""
EVIDENCE = tuple(
    REACTIONS if field.name == "reactions" else field.name for field in fields(Evidence)
)
"""The expressions of a participant's `Evidence`, in the order of its fields."""

MAY_BE_HALF = (
    "published = 0 AND EXISTS (SELECT 1 FROM participants AS other"
    " WHERE other.trace_id = participants.trace_id"
    " AND other.published = other.seq AND other.reactions > other.explained + other.spanned"
    ' AND other."user" = participants."user"'
    " AND coalesce(other.place, '') = coalesce(participants.place, '')"
    " AND (other.client IS NULL OR participants.client IS NULL"
    " OR other.client = participants.client))"
)
"""Tell whether a participant only receives, and another may publish for its program, that is one of
its user and place which only publishes and names no causes. Their names may differ in one program,
too: `model.sound` says where."""


class Question(NamedTuple):
    """The subject of a statement: a trace, and the first and the last event's id."""

    trace: int | str
    first: int | str
    last: int | str

    @classmethod
    def between(cls, trace_id: int, a: int, b: int) -> Question:
        """About the events from one to the other, in either order."""
        return cls(int(trace_id), *sorted((int(a), int(b))))


PARAMETERS = Question(":trace", ":first", ":last")
"""For a statement that takes its subject from parameters, and is parsed only once."""


def gaps_sql(question: Question) -> str:
    """`Gap.spanned_by` as a condition on the table ``gaps``."""
    return (
        f"gaps.after_event_id < {question.last}"
        f" AND (gaps.before_event_id IS NULL OR gaps.before_event_id > {question.first})"
    )


def assumed_sql(question: Question) -> str:
    """The statement for `Assumed`s, `Assumed.is_within`."""
    return (
        "SELECT number, name, first_event_id, last_event_id FROM participants"
        f" WHERE trace_id = {question.trace} AND assumed"
        f" AND last_event_id >= {question.first} AND first_event_id <= {question.last}"
        " ORDER BY number"
    )


def clients_sql(trace: int | str) -> str:
    """The statement for a trace's `Client`s; none where no participant publishes without receiving.

    Then nothing is apart, and with 1,000 participants it takes a tenth of the time to see that. Not
    grouped, since to sort them takes longer than to read them.
    """
    return f"""
SELECT t.vhost, t.policy,
  p."user", coalesce(p.place, '') AS place, coalesce(p.client, '') AS client,
  p.published AS publishes,
  CASE WHEN p.published = p.seq THEN p.published ELSE 0 END AS alone,
  CASE WHEN p.published < p.seq THEN 1 ELSE 0 END AS receives, p.number
FROM traces AS t CROSS JOIN participants AS p
WHERE t.id = {trace} AND p.trace_id = t.id AND EXISTS (
  SELECT 1 FROM participants WHERE trace_id = {trace} AND published = seq AND published > 0)
"""


def connections_sql(trace: int | str, clients: Iterable[int]) -> str:
    """The statement for the newest `OpenedConnection`s of these clients, `MOST_CONNECTIONS`.

    A connection's name is used again, by other programs too.
    """
    return f"""
SELECT DISTINCT p.number AS client, k.name, coalesce(k.process, '') AS process, k.opened_at
FROM participants AS p
JOIN channels AS c ON c.trace_id = p.trace_id AND c.participant = p.number
JOIN connections AS k ON k.name = c.connection AND k.node = c.node AND k."user" = p."user"
  AND k.client = p.client
WHERE p.trace_id = {trace} AND p.number IN ({", ".join(map(str, sorted(clients)))})
ORDER BY k.opened_at DESC LIMIT {MOST_CONNECTIONS}
"""


def missing_sql(question: Question) -> str:
    """The statement for each `SplitParticipant`, as of its `is_within`.

    A participant whose messages hardly ever name causes that it did not know is left out.
    """
    return (
        "SELECT t.vhost, t.policy, p.number, p.name, p.first_event_id, p.last_event_id, p.known,"
        " p.missed FROM traces AS t CROSS JOIN participants AS p"
        f" WHERE t.id = {question.trace} AND p.trace_id = t.id AND p.missed > 0"
        f" AND p.missed >= {LEAST_SHARE} * (p.known + p.missed)"
        f" AND p.last_event_id >= {question.first} AND p.first_event_id <= {question.last}"
        " ORDER BY p.number"
    )


def missed_sql(trace_id: int, participants: Sequence[SplitParticipant]) -> str:
    """The statement for what was `Missed` while these participants acted."""
    first = min(participant.first_event_id for participant in participants)
    last = max(participant.last_event_id for participant in participants)
    return (
        "SELECT rule, count(*) AS links FROM (SELECT rule FROM edges"
        f" WHERE trace_id = {int(trace_id)} AND way <> 0 AND way = {int(Awareness.missed)}"
        f" AND effect_id BETWEEN {first} AND {last} LIMIT {MOST_MISSED}) AS counted"
        " GROUP BY rule ORDER BY rule"
    )


def late_sql(question: Question) -> str:
    """The statement for `Late`, which is none without such links; counted to `MOST_LATE`."""
    return (
        "SELECT (SELECT vhost FROM traces WHERE id = trace_id) AS vhost, count(*) AS links"
        f" FROM ({late_links_sql(question)}) AS late GROUP BY trace_id"
    )


def late_links_sql(question: Question) -> str:
    """The statement for the late links of a span themselves, `MOST_LATE` at the most."""
    return (
        f"SELECT trace_id, effect_id, cause_id FROM late_edges WHERE trace_id = {question.trace}"
        f" AND effect_id BETWEEN {question.first} AND {question.last}"
        f" AND cause_id >= {question.first} LIMIT {MOST_LATE}"
    )


def quiet_sql(question: Question) -> str:
    """The statement for how many quiet events a span has, counted to `MOST_QUIET`."""
    return (
        f"SELECT count(*) AS quiet FROM (SELECT id FROM events WHERE trace_id = {question.trace}"
        f" AND quiet AND id BETWEEN {question.first} AND {question.last}"
        f" LIMIT {MOST_QUIET}) AS counted"
    )


def doubtful_sql(question: Question) -> str:
    """The statement for the `DoubtfulDelivery`s after a span's first event, to `MOST_DOUBTFUL`.

    Quiet ones carry nothing.
    """
    return (
        'SELECT e.id, e.participant, p."interval", e.height, e.match, e.queue, e.recorded_at'
        " FROM events AS e JOIN participants AS p ON p.trace_id = e.trace_id"
        " AND p.number = e.participant"
        f" WHERE e.trace_id = {question.trace} AND e.doubtful AND NOT e.quiet"
        f" AND e.id > {question.first} AND e.id <= {question.last}"
        f" ORDER BY e.id LIMIT {MOST_DOUBTFUL}"
    )


def acting_sql(question: Question) -> str:
    """The statement for the `ParticipantSpan`s of a span."""
    return (
        'SELECT number, "interval", base FROM participants'
        f" WHERE trace_id = {question.trace} AND last_event_id >= {question.first}"
        f" AND first_event_id <= {question.last}"
    )


def range_ends_sql(trace_id: int, positions: Iterable[tuple[int, int]], *, forward: bool) -> str:
    """The statement for `RangeEnd`s: each participant's first from a height on, or last up to it.

    Each is looked up in the index on heights.
    """
    comparison, order = (">=", "ASC") if forward else ("<=", "DESC")
    values = ", ".join(f"({int(participant)}, {int(height)})" for participant, height in positions)
    return (
        f"WITH asked (participant, height) AS (VALUES {values}),"
        " found (id) AS (SELECT (SELECT id FROM events"
        f" WHERE trace_id = {int(trace_id)} AND participant = asked.participant"
        f" AND height {comparison} asked.height ORDER BY height {order} LIMIT 1) FROM asked)"
        " SELECT e.participant, e.height, e.seq, e.id, e.clock"
        " FROM found JOIN events e ON e.id = found.id"
    )
