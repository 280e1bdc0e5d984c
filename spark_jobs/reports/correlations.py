"""The report ``correlations``: which field of deliveries equals which field of later publishes.

A survey of a part of the events finds the paths that may hold keys at all. Each task turns its
events into rows (`value_rows`), one per value at a path; rows of equal values are brought together,
compared (`value_matches`) and judged (`key_pairs`). Of very many events, some stretches are
sampled. Spark needs one shuffle; few events are compared in one process (`look`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from model.in_hand import COLUMNS as HAND_COLUMNS
from model.in_hand import AloneInHand, HandRow, alone_in_hand
from model.reports.correlations import (
    CorrelationReport,
    Example,
    FieldPair,
    InHand,
    ProposedRule,
    RefusedField,
    RefusedPair,
    UserShare,
)
from model.who import Who
from model.words import LINKED, EventType
from spark_jobs.events.ranges import Longs
from spark_jobs.events.slices import MOST_ROWS, Slice, id_spans
from spark_jobs.events.source import read
from spark_jobs.progress import Meter
from spark_jobs.reports.key_pairs import (
    PairJudge,
    PathPair,
    Proposal,
    Proposals,
    hand_figures,
    pairs_of,
    targets_of,
)
from spark_jobs.reports.message_fields import NOT_WHOLE, Field, fields_of
from spark_jobs.reports.one_program import Program, aliases, merge_programs, programs_of
from spark_jobs.reports.period import Period
from spark_jobs.reports.report_request import Json, ReportRequest
from spark_jobs.reports.survey import KeyPath, SurveyEvent, survey_paths
from spark_jobs.reports.value_matches import (
    Flags,
    MatchParticipants,
    ValueMatches,
    members_of,
)
from spark_jobs.reports.value_rows import COLUMNS, Gathering, matches_in, row_maker, row_matcher

# Events that are looked at; of more, this many in stretches that lie evenly.
MOST_EVENTS = 1_000_000
STRETCHES = 20
# The survey: events of a part, and parts.
SURVEYED, PARTS = 1_000, 20
# Publishes whose hits are kept, to compare pairs with each other, and the most hits of a task.
KEPT_PUBLISHES = 10_000
# Rows that one task compares, at about 200 bytes each.
TASK_ROWS = 1_000_000
# Rows that are read at a time.
BATCH_ROWS = 65_536
EXAMPLES = 10
LONGEST_SHOWN = 100
MOST_REFUSED = 50
MOST_USERS = 10


class Sample(NamedTuple):
    """The events looked at: stretches of ids, and the events as columns (see `members_of`)."""

    spans: list[tuple[int, int]]
    roll: dict[str, Longs]
    events: int  # in the period


def correlate(
    gathering: Gathering, request: ReportRequest, period: Period, meter: Meter
) -> CorrelationReport:
    """The report, however its rows are gathered."""
    if period.ids is None:
        return CorrelationReport(
            **request.facts(period),
            **_counts(0, 0, 0, Counter()),
            proposals=[],
            refused=[],
            places=[],
            programs=[],
            in_hand=[],
        )
    sample = _sample_of(period)
    skipped: Counter[str] = Counter()
    paths = _survey(request, period, sample, skipped)
    meter.enter("comparing", 20.0)
    usable = [path for path in paths if path.refusal is None]
    matches, members = _compare(gathering, request, period, sample, usable)
    programs = programs_of(matches.programs, period.history.connection, period.trace)
    if programs:
        meter.enter("comparing programs", 60.0)
        as_one = sample._replace(roll=merge_programs(sample.roll, programs))
        matches, members = _compare(gathering, request, period, as_one, usable, programs)
    meter.enter("judging", 90.0)
    decision, causes = _judge(period, sample, usable, matches)
    hands = hand_figures(_alone(period, sample), causes, EXAMPLES)
    roll = as_one.roll if programs else sample.roll
    reacting = roll["participant"][_flag_reactions(roll, members)]
    reactions = len(reacting)
    users = period.history.users(period.trace, np.unique(roll["participant"]).tolist())
    of_users = _by_user(reacting, users)
    names = period.history.names(period.trace, {hand.participant for hand in hands})
    return CorrelationReport(
        **request.facts(period),
        **_counts(sample.events, len(sample.roll["id"]), reactions, skipped),
        proposals=[
            _proposal(
                number,
                proposal,
                reactions,
                _examples(period, proposal, matches, usable),
                _shares(
                    proposal,
                    _by_user(_publishers(proposal, matches, usable, roll), users),
                    of_users,
                ),
            )
            for number, proposal in enumerate(decision.proposals, 1)
        ],
        refused=[
            RefusedPair(
                **_figures(refusal.pair, reactions),
                why=refusal.refusal.value,
                agreement=refusal.share,
            )
            for refusal in decision.refused[:MOST_REFUSED]
        ],
        places=[
            RefusedField(path.text, path.refusal.value)
            for path in paths
            if path.refusal is not None
        ][:MOST_REFUSED],
        programs=[program.describe() for program in programs],
        in_hand=[
            InHand(
                Who(participant, names[participant][0]),
                publishes,
                linked,
                agreement,
                [Example(publish, delivery, None) for publish, delivery in examples],
            )
            for participant, publishes, linked, agreement, examples in hands
        ],
    )


def _counts(events: int, looked_at: int, reactions: int, skipped: Counter[str]) -> Json:
    return {
        "events": events,
        "looked_at": looked_at,
        "looked_at_all": events == looked_at,
        "reactions": reactions,
        "left_out": dict(sorted(skipped.items())),
    }


def _sample_of(period: Period) -> Sample:
    assert period.ids is not None  # noqa: S101 - the caller looked
    first, last = period.ids
    count = f"SELECT count(*) AS n FROM events WHERE {_condition(period, first, last)}"
    events = int(period.history.connection.rows(count)[0]["n"])
    stretches = [(first, last)]
    if events > MOST_EVENTS:
        step = (last - first + 1) / STRETCHES
        width = int(step * MOST_EVENTS / events)
        stretches = [
            (first + int(k * step), first + int(k * step) + width - 1) for k in range(STRETCHES)
        ]
    return Sample(stretches, _roll(period, stretches), events)


def _condition(period: Period, first: int, last: int) -> str:
    return (
        f"trace_id = {period.trace} AND id BETWEEN {first} AND {last} AND NOT quiet"
        f" AND recorded_at >= {period.since} AND recorded_at < {period.until}"
    )


def _roll(period: Period, stretches: Sequence[tuple[int, int]]) -> dict[str, Longs]:
    names = ("id", "is_publish", "participant")
    columns: dict[str, list[Longs]] = {name: [np.empty(0, np.int64)] for name in names}
    for first, last in stretches:
        sql = (
            "SELECT id, participant, CASE WHEN type = 0 THEN 1 ELSE 0 END AS is_publish FROM events"
            f" WHERE {_condition(period, first, last)} ORDER BY id"
        )
        for batch in period.history.connection.query(sql, BATCH_ROWS):
            for name in names:
                columns[name].append(np.asarray(batch.column(name), np.int64))
    return {name: np.concatenate(parts) for name, parts in columns.items()}


def _survey(
    request: ReportRequest, period: Period, sample: Sample, skipped: Counter[str]
) -> list[KeyPath]:
    roll = sample.roll
    reacting = set(np.unique(roll["participant"][roll["is_publish"] == 0]).tolist())
    ids = roll["id"]
    size = len(ids)
    starts = range(0, size, max(SURVEYED, -(-size // PARTS)))
    parts = (
        _part(
            request,
            period,
            Slice(period.trace, int(ids[k]), int(ids[min(k + SURVEYED, size) - 1])),
            skipped,
        )
        for k in starts
    )
    return survey_paths(parts, reacting)


def _part(
    request: ReportRequest, period: Period, part: Slice, skipped: Counter[str]
) -> list[SurveyEvent]:
    return [
        SurveyEvent(
            event["id"],
            event["type"] == EventType.published,
            event["participant"],
            event["cause_id"] or event["id"],
            event["recorded_at"],
            _fields(event, skipped),
        )
        for batch in read(request.database, COLUMNS, part)
        for event in batch.to_pylist()
        if period.holds(event["recorded_at"]) and not event["quiet"]
    ]


def _fields(event: Json, skipped: Counter[str]) -> list[Field]:
    if event["payload_bytes"] and not event["body"]:
        skipped[NOT_WHOLE] += 1
    return fields_of(json.loads(event["properties"]), event["body"], skipped)


def _compare(
    gathering: Gathering,
    request: ReportRequest,
    period: Period,
    sample: Sample,
    paths: Sequence[KeyPath],
    programs: Sequence[Program] = (),
) -> tuple[ValueMatches, MatchParticipants]:
    roll = sample.roll
    members = members_of(roll, len(sample.spans))
    size, tasks = len(roll["id"]), gathering.tasks
    count = max(1, -(-max(tasks, -(-size // MOST_ROWS)) // len(sample.spans)))
    slices = [part for ends in sample.spans for part in id_spans(period.trace, *ends, count)]
    parts = max(tasks, size * max(len(paths), 1) // 2 // TASK_ROWS)
    one_in = max(1, int(roll["is_publish"].sum()) // KEPT_PUBLISHES)
    numbers = {path.text: number for number, path in enumerate(paths)}
    make_rows = row_maker(period.since, period.until, numbers, aliases(programs))
    match_rows = row_matcher(members, [path.is_long for path in paths], one_in)
    return matches_in(
        gathering.gather(request.database, slices, make_rows, match_rows, parts)
    ), members


def _flag_reactions(roll: dict[str, Longs], members: MatchParticipants) -> Flags:
    """Flag publishes of participants that were handed something before."""
    handed = roll["is_publish"] == 0
    first = np.full(len(members.numbers), np.iinfo(np.int64).max)
    index = np.searchsorted(members.numbers, roll["participant"])
    np.minimum.at(first, index[handed], roll["id"][handed])
    flags: Flags = ~handed & (roll["id"] > first[index])
    return flags


def _by_user(participants: Longs, users: Mapping[int, str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    numbers, times = np.unique(participants, return_counts=True)
    for number, count in zip(numbers.tolist(), times.tolist(), strict=True):
        counts[users.get(number, "")] += count
    return counts


def _publishers(
    proposal: Proposal, matches: ValueMatches, paths: Sequence[KeyPath], roll: dict[str, Longs]
) -> Longs:
    """The publishers of a proposal's hits, one per publish that was kept."""
    events = np.unique(matches.hits.event[_hits_of(proposal, matches, paths)])
    return roll["participant"][np.searchsorted(roll["id"], events)]


def _shares(
    proposal: Proposal, publishes: Counter[str], reactions: Counter[str]
) -> list[UserShare]:
    """Each user's part in a proposal, extrapolated from the publishes that were kept."""
    total = max(1, publishes.total())
    shares = [
        UserShare(
            user,
            round(publishes[user] / total, 3),
            round(min(1.0, proposal.best.hits * publishes[user] / total / count), 3),
            count,
        )
        for user, count in reactions.items()
    ]
    shares.sort(key=lambda share_row: (-share_row.share, -share_row.reactions))
    return shares[:MOST_USERS]


def _edges(period: Period, sample: Sample) -> tuple[Longs, Longs]:
    """Links that messages carry, as two columns: effects and the messages that led to them."""
    columns: list[list[Longs]] = [[np.empty(0, np.int64)] for _ in range(2)]
    for first, last in sample.spans:
        sql = (
            "SELECT g.effect_id AS effect, coalesce(n.cause_id, g.cause_id) AS message"
            " FROM edges g LEFT JOIN events n ON n.id = g.cause_id"
            f" WHERE g.trace_id = {period.trace} AND g.effect_id BETWEEN {first} AND {last}"
            f" AND g.kind IN ({', '.join(map(str, map(int, LINKED)))})"
        )
        for batch in period.history.connection.query(sql, BATCH_ROWS):
            for number in range(2):
                columns[number].append(np.asarray(batch.column(number), np.int64))
    effects, messages = (np.concatenate(parts) for parts in columns)
    return effects, messages


def _judge(
    period: Period, sample: Sample, paths: Sequence[KeyPath], matches: ValueMatches
) -> tuple[Proposals, dict[int, int]]:
    """The proposals, and the one message that led to a publish, where links or keys tell it."""
    effects, messages = _edges(period, sample)
    linked: dict[int, set[int]] = {}
    for effect, message in zip(effects.tolist(), messages.tolist(), strict=True):
        linked.setdefault(effect, set()).add(message)
    targets = targets_of(paths, matches.hits)
    proposals = PairJudge(pairs_of(paths, matches.pairs), targets, linked).judge()
    causes = dict(linked)
    for proposal in proposals.proposals:
        for pair in proposal.pairs:
            for event, event_messages in targets.get(
                (pair.parent.text, pair.child.text), {}
            ).items():
                causes.setdefault(event, event_messages)
    alone = {
        event: next(iter(event_messages))
        for event, event_messages in causes.items()
        if len(event_messages) == 1
    }
    return proposals, alone


def _alone(period: Period, sample: Sample) -> Iterator[AloneInHand]:
    for first, last in sample.spans:
        yield from alone_in_hand(_hand_rows(period, first, last))


def _hand_rows(period: Period, first: int, last: int) -> Iterator[HandRow]:
    sql = f"SELECT {HAND_COLUMNS} FROM events WHERE {_condition(period, first, last)} ORDER BY id"
    for batch in period.history.connection.query(sql, BATCH_ROWS):
        columns = [batch.column(number).to_pylist() for number in range(batch.num_columns)]
        yield from zip(*columns, strict=True)


def _proposal(
    number: int,
    proposal: Proposal,
    reactions: int,
    examples: list[Example],
    users: list[UserShare],
) -> ProposedRule:
    return ProposedRule(
        number=number,
        kind=proposal.kind,
        rules=proposal.rules(),
        **_figures(proposal.best, reactions),
        agreement=proposal.agreement,
        linked=proposal.linked,
        also=[FieldPair(pair.parent.text, pair.child.text) for pair in proposal.equivalents[:10]],
        examples=examples,
        users=users,
    )


def _figures(pair: PathPair, reactions: int) -> Json:
    return {
        "parent": pair.parent.text,
        "child": pair.child.text,
        "publishes": pair.hits,
        "support": round(pair.hits / max(reactions, 1), 4),
        "ambiguity": round(pair.ambiguity, 3),
        "chance": None if pair.by_chance is None else round(pair.by_chance, 4),
        "begun": round(pair.origins / pair.hits, 3),
        "values": pair.values,
    }


def _examples(
    period: Period, proposal: Proposal, matches: ValueMatches, paths: Sequence[KeyPath]
) -> list[Example]:
    child, hits = proposal.best.child.text, matches.hits
    rows = _hits_of(proposal, matches, paths)
    events, first = np.unique(hits.event[rows], return_index=True)
    step = max(1, len(events) // EXAMPLES)
    pairs = list(
        zip(
            hits.event[rows][first][::step][:EXAMPLES].tolist(),
            hits.delivery[rows][first][::step][:EXAMPLES].tolist(),
            strict=True,
        )
    )
    if not pairs:
        return []
    fields = _field_values(period, [event for event, _ in pairs])
    return [
        Example(event, delivery, _value_at(fields.get(event, []), child))
        for event, delivery in pairs
    ]


def _hits_of(proposal: Proposal, matches: ValueMatches, paths: Sequence[KeyPath]) -> Longs:
    """The positions of a proposal's best pair among the hits."""
    texts, hits = [path.text for path in paths], matches.hits
    parent, child = (texts.index(path.text) for path in (proposal.best.parent, proposal.best.child))
    return np.flatnonzero((hits.parent == parent) & (hits.child == child))


def _field_values(period: Period, events: Sequence[int]) -> dict[int, list[Field]]:
    skipped: Counter[str] = Counter()
    values = {}
    for event in events:
        part = Slice(period.trace, event, event)
        for batch in read(period.history.connection.database, COLUMNS, part):
            for row in batch.to_pylist():
                values[row["id"]] = _fields(row, skipped)
    return values


def _value_at(fields: Sequence[Field], path: str) -> str | None:
    for text, value in fields:
        if text == path:
            return value[:LONGEST_SHOWN]
    return None
