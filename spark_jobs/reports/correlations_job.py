"""Reports on correlations: which field of deliveries equals which field of later publishes.

A survey of a part of the events finds the places that may hold keys at all. Then each task turns
its events into rows, one for a value at a place; those of equal values are brought together,
values that repeat being left out before; `matching` compares them and `correlating` judges the
figures. Where there are very many events, some stretches of them are looked at. Spark does it in
one shuffle; of few events one process does it at once (`spark_jobs.reports.look`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from model.in_hand import COLUMNS as HAND_COLUMNS
from model.in_hand import AloneInHand, HandRow, alone_in_hand
from model.reports.correlations import (
    CorrelationReport,
    Example,
    InHand,
    Places,
    ProposedRule,
    RefusedPair,
    RefusedPlace,
    UserShare,
)
from model.who import Who
from model.words import LINKED, EventType
from spark_jobs.chains.executors import tasks_at_a_time
from spark_jobs.chains.ranges import Longs
from spark_jobs.chains.slices import MOST_ROWS, Slice, spans
from spark_jobs.chains.source import map_slices, read
from spark_jobs.progress import Meter
from spark_jobs.reports.correlations import (
    PairJudge,
    PlacePair,
    Proposal,
    Proposals,
    in_hand,
    meant_by,
    pairs_of,
)
from spark_jobs.reports.flattening import NOT_WHOLE, Field, fields_of
from spark_jobs.reports.matching import (
    Flags,
    Hits,
    Members,
    PlacePairs,
    Programs,
    Rows,
    ValueMatches,
    found_in,
    members_of,
)
from spark_jobs.reports.one_program import Program, joined, merged, programs_of
from spark_jobs.reports.period import Period
from spark_jobs.reports.request import Json, ReportRequest
from spark_jobs.reports.survey import MOST_ALIKE, Place, SurveyEvent, surveyed
from spark_jobs.spark.database import DatabaseAddress
from spark_jobs.spark.failures import explained

# So many events are looked at; of more, as many in stretches that lie evenly.
MOST_EVENTS = 1_000_000
STRETCHES = 20
# The survey: parts of this many ids.
SURVEYED, PARTS = 1_000, 20
# Publishes whose hits are kept, to hold pairs against each other; and what a task gives of them.
KEPT = 10_000
MOST_HITS = 400_000
# Rows that one task compares, at about 200 bytes each.
TASK_ROWS = 1_000_000
# Rows that are read at a time.
BATCH_ROWS = 65_536
EXAMPLES = 10
LONGEST_SHOWN = 100
MOST_REFUSED = 50
MOST_USERS = 10

COLUMNS = (
    "id",
    "type",
    "cause_id",
    "participant",
    "recorded_at",
    "exchange",
    "routing_keys",
    "properties",
    "quiet",
    "payload_bytes",
    "body",
)
_ROWS = (
    "value bigint, place bigint, participant bigint, event bigint, message bigint, spot bigint,"
    " is_publish boolean"
)
_WIDTH = max(len(kind._fields) for kind in (PlacePairs, Hits, Programs))
_FOUND = "what string, " + ", ".join(f"n{k} bigint" for k in range(_WIDTH))


class SurveyedSpan(NamedTuple):
    """The surveyed part: stretches of ids, and their events as columns (see `members_of`)."""

    spans: list[tuple[int, int]]
    roll: dict[str, Longs]
    events: int  # in the period


Batches: TypeAlias = Iterable[pa.RecordBatch]
Work: TypeAlias = Callable[[Batches], Iterator[pa.RecordBatch]]


class Gathering(NamedTuple):
    """How rows are made of slices by one `Work` and found in by another, values of one together.

    ``tasks`` are done at a time.
    """

    tasks: int
    gather: Callable[[DatabaseAddress, Sequence[Slice], Work, Work, int], pa.Table]


def make(
    spark: SparkSession, request: ReportRequest, period: Period, meter: Meter
) -> CorrelationReport:
    """Rules that a period's messages speak for."""

    def shuffled(
        database: DatabaseAddress, slices: Sequence[Slice], keyed: Work, matched: Work, parts: int
    ) -> pa.Table:
        with explained():
            rows = map_slices(spark, database, COLUMNS, slices, keyed, _ROWS)
            table: pa.Table = (
                rows.repartition(parts, F.col("value")).mapInArrow(matched, _FOUND).toArrow()
            )
        return table

    return correlated(Gathering(tasks_at_a_time(spark), shuffled), request, period, meter)


def at_once(
    database: DatabaseAddress, slices: Sequence[Slice], keyed: Work, matched: Work, parts: int
) -> pa.Table:
    """Gather in this process, without Spark: all rows are in memory."""
    del parts
    found = [*matched(keyed(each for part in slices for each in read(database, COLUMNS, part)))]
    return pa.Table.from_batches(found or [_numbered("pairs", (np.empty(0, np.int64),))])


def correlated(
    gathering: Gathering, request: ReportRequest, period: Period, meter: Meter
) -> CorrelationReport:
    """Rules that a period's messages speak for, however their rows are gathered."""
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
    looked = _looked(period)
    left: Counter[str] = Counter()
    places = _survey(request, period, looked, left)
    meter.enter("comparing", 20.0)
    usable = [place for place in places if place.refusal is None]
    found, members = _compared(gathering, request, period, looked, usable)
    programs = programs_of(found.programs, period.history.connection, period.trace)
    if programs:
        meter.enter("comparing programs", 60.0)
        as_one = looked._replace(roll=merged(looked.roll, programs))
        found, members = _compared(gathering, request, period, as_one, usable, programs)
    meter.enter("judging", 90.0)
    judged, told = _judged(period, looked, usable, found)
    hands = in_hand(_alone(period, looked), told, EXAMPLES)
    roll = as_one.roll if programs else looked.roll
    reacting = roll["participant"][_reacting(roll, members)]
    reactions = len(reacting)
    users = period.history.users(period.trace, np.unique(roll["participant"]).tolist())
    of_users = _by_user(reacting, users)
    names = period.history.names(period.trace, {each.participant for each in hands})
    return CorrelationReport(
        **request.facts(period),
        **_counts(looked.events, len(looked.roll["id"]), reactions, left),
        proposals=[
            _proposal(
                number,
                each,
                reactions,
                _examples(period, each, found, usable),
                _shares(each, _by_user(_publishers(each, found, usable, roll), users), of_users),
            )
            for number, each in enumerate(judged.proposals, 1)
        ],
        refused=[
            RefusedPair(
                **_figures(each.pair, reactions), why=each.refusal.value, agreement=each.share
            )
            for each in judged.refused[:MOST_REFUSED]
        ],
        places=[
            RefusedPlace(each.text, each.refusal.value)
            for each in places
            if each.refusal is not None
        ][:MOST_REFUSED],
        programs=[each.described() for each in programs],
        in_hand=[
            InHand(
                Who(who, names[who][0]),
                publishes,
                linked,
                agreement,
                [Example(publish, delivery, None) for publish, delivery in examples],
            )
            for who, publishes, linked, agreement, examples in hands
        ],
    )


def _counts(events: int, looked_at: int, reactions: int, left: Counter[str]) -> Json:
    return {
        "events": events,
        "looked_at": looked_at,
        "looked_at_all": events == looked_at,
        "reactions": reactions,
        "left_out": dict(sorted(left.items())),
    }


def _looked(period: Period) -> SurveyedSpan:
    assert period.ids is not None  # noqa: S101 - the caller looked
    first, last = period.ids
    count = f"SELECT count(*) AS n FROM events WHERE {_where(period, first, last)}"
    events = int(period.history.connection.rows(count)[0]["n"])
    stretches = [(first, last)]
    if events > MOST_EVENTS:
        step = (last - first + 1) / STRETCHES
        width = int(step * MOST_EVENTS / events)
        stretches = [
            (first + int(k * step), first + int(k * step) + width - 1) for k in range(STRETCHES)
        ]
    return SurveyedSpan(stretches, _roll(period, stretches), events)


def _where(period: Period, first: int, last: int) -> str:
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
            f" WHERE {_where(period, first, last)} ORDER BY id"
        )
        for batch in period.history.connection.query(sql, BATCH_ROWS):
            for name in names:
                columns[name].append(np.asarray(batch.column(name), np.int64))
    return {name: np.concatenate(parts) for name, parts in columns.items()}


def _survey(
    request: ReportRequest, period: Period, looked: SurveyedSpan, left: Counter[str]
) -> list[Place]:
    roll = looked.roll
    reacting = set(np.unique(roll["participant"][roll["is_publish"] == 0]).tolist())
    ids = roll["id"]
    size = len(ids)
    starts = range(0, size, max(SURVEYED, -(-size // PARTS)))
    parts = (
        _part(
            request,
            period,
            Slice(period.trace, int(ids[k]), int(ids[min(k + SURVEYED, size) - 1])),
            left,
        )
        for k in starts
    )
    return surveyed(parts, reacting)


def _part(
    request: ReportRequest, period: Period, part: Slice, left: Counter[str]
) -> list[SurveyEvent]:
    return [
        SurveyEvent(
            event["id"],
            event["type"] == EventType.published,
            event["participant"],
            event["cause_id"] or event["id"],
            event["recorded_at"],
            _fields(event, left),
        )
        for batch in read(request.database, COLUMNS, part)
        for event in batch.to_pylist()
        if period.holds(event["recorded_at"]) and not event["quiet"]
    ]


def _fields(event: Json, left: Counter[str]) -> list[Field]:
    if event["payload_bytes"] and not event["body"]:
        left[NOT_WHOLE] += 1
    return fields_of(json.loads(event["properties"]), event["body"], left)


def _compared(
    gathering: Gathering,
    request: ReportRequest,
    period: Period,
    looked: SurveyedSpan,
    places: Sequence[Place],
    programs: Sequence[Program] = (),
) -> tuple[ValueMatches, Members]:
    roll = looked.roll
    members = members_of(roll, len(looked.spans))
    size, tasks = len(roll["id"]), gathering.tasks
    each = max(1, -(-max(tasks, -(-size // MOST_ROWS)) // len(looked.spans)))
    slices = [part for ends in looked.spans for part in spans(period.trace, *ends, each)]
    parts = max(tasks, size * max(len(places), 1) // 2 // TASK_ROWS)
    one_in = max(1, int(roll["is_publish"].sum()) // KEPT)
    numbers = {place.text: number for number, place in enumerate(places)}
    keyed = _rows(period.since, period.until, numbers, joined(programs))
    matched = _matched(members, [place.is_long for place in places], one_in)
    return _found(gathering.gather(request.database, slices, keyed, matched, parts)), members


def _rows(since: int, until: int, numbers: dict[str, int], one: dict[int, int]) -> Work:
    def rows(batches: Batches) -> Iterator[pa.RecordBatch]:
        left: Counter[str] = Counter()
        for batch in batches:
            events = (
                event
                for event in batch.to_pylist()
                if since <= event["recorded_at"] < until and not event["quiet"]
            )
            yield _batch(events, numbers, one, left)

    return rows


def _batch(
    events: Iterable[Json], numbers: dict[str, int], one: dict[int, int], left: Counter[str]
) -> pa.RecordBatch:
    """The values of some events at known places, without those that repeat."""
    texts: list[str] = []
    places: list[int] = []
    sizes: list[int] = []
    of_events: list[tuple[int, ...]] = []
    spots: list[str] = []
    known: dict[tuple[str, bytes], tuple[Json, list[Field]]] = {}  # deliveries repeat their publish
    for event in events:
        said = event["properties"], event["body"]
        if said not in known:
            properties = json.loads(said[0])
            fields = fields_of(properties, said[1], left)
            known[said] = properties, [field for field in fields if field[0] in numbers]
        properties, fields = known[said]
        texts += [value for _, value in fields]
        places += [numbers[place] for place, _ in fields]
        sizes.append(len(fields))
        is_publish = event["type"] == EventType.published
        spots.append(_spot(event, properties, is_publish=is_publish))
        participant, event_id = int(event["participant"]), int(event["id"])
        who, message = one.get(participant, participant), event["cause_id"] or event_id
        of_events.append((who, event_id, message, is_publish))
    which = np.repeat(np.arange(len(sizes)), sizes)
    columns = np.array(of_events, dtype=np.int64).reshape(-1, 4)[which]
    where = np.where(np.array([*map(bool, spots)], dtype=bool), _hashed(spots), 0)[which]
    values, place = _hashed(texts), np.array(places, dtype=np.int64)
    kept = _rare(values, place, columns[:, 0])
    arrays = [values, place, columns[:, 0], columns[:, 1], columns[:, 2], where]
    arrays.append(columns[:, 3] == 1)
    return pa.RecordBatch.from_arrays(
        [pa.array(array[kept]) for array in arrays], names=list(Rows._fields)
    )


def _hashed(texts: Sequence[str]) -> Longs:
    hashes = pd.util.hash_array(np.array(texts, dtype=object), categorize=False)
    return np.asarray(hashes.view(np.int64))


def _rare(values: Longs, places: Longs, participants: Longs) -> Flags:
    """Flag rows with a value that their participant has not too often there."""
    order = np.lexsort((participants, places, values))
    new = np.ones(len(order), dtype=bool)
    for number, column in enumerate((values, places, participants)):
        differs = np.diff(column[order]) != 0
        new[1:] = differs if not number else new[1:] | differs
    starts = np.flatnonzero(new)
    counts = np.diff(np.append(starts, len(order)))
    rare = np.empty(len(order), dtype=bool)
    rare[order] = np.repeat(counts <= MOST_ALIKE, counts)
    return rare


def _spot(event: Json, properties: Json, *, is_publish: bool) -> str:
    """Return where replies to a delivery go, or where a publish went by its queue's name."""
    if is_publish:
        keys = [] if event["exchange"] else json.loads(event["routing_keys"])
        return str(keys[0]) if keys else ""
    found = properties.get("reply_to") if isinstance(properties, dict) else None
    return found if isinstance(found, str) else ""


def _matched(members: Members, is_long: Sequence[bool], one_in: int) -> Work:
    def matched(batches: Batches) -> Iterator[pa.RecordBatch]:
        held = [batch for batch in batches if batch.num_rows]
        if not held:
            return
        table = pa.Table.from_batches(held)
        columns = (table.column(name).to_numpy() for name in Rows._fields)
        found = found_in(Rows(*columns), members, np.array(is_long, dtype=bool), one_in)
        hits = Hits(*(column[:MOST_HITS] for column in found.hits))
        for name, part in zip(
            ("pairs", "hits", "programs"), found._replace(hits=hits), strict=True
        ):
            yield _numbered(name, part)

    return matched


def _numbered(what: str, columns: tuple[Longs, ...]) -> pa.RecordBatch:
    size = len(columns[0])
    nothing = np.zeros(size, dtype=np.int64)
    arrays = [pa.array([what] * size, pa.string())]
    arrays += [pa.array(column, pa.int64()) for column in columns]
    arrays += [pa.array(nothing, pa.int64())] * (_WIDTH - len(columns))
    return pa.RecordBatch.from_arrays(arrays, names=["what", *(f"n{k}" for k in range(_WIDTH))])


def _found(table: pa.Table) -> ValueMatches:
    what = np.asarray(table.column("what").to_pylist(), dtype=object)

    def columns(name: str, count: int) -> Iterator[Longs]:
        mine = table.filter(pa.array(what == name, pa.bool_()))
        return (mine.column(f"n{k}").to_numpy() for k in range(count))

    return ValueMatches(
        PlacePairs(*columns("pairs", len(PlacePairs._fields))),
        Hits(*columns("hits", len(Hits._fields))),
        Programs(*columns("programs", len(Programs._fields))),
    )


def _reacting(roll: dict[str, Longs], members: Members) -> Flags:
    """Flag publishes of those who had been handed something before."""
    handed = roll["is_publish"] == 0
    first = np.full(len(members.numbers), np.iinfo(np.int64).max)
    who = np.searchsorted(members.numbers, roll["participant"])
    np.minimum.at(first, who[handed], roll["id"][handed])
    flags: Flags = ~handed & (roll["id"] > first[who])
    return flags


def _by_user(participants: Longs, users: Mapping[int, str]) -> Counter[str]:
    """The number of rows of each user."""
    counts: Counter[str] = Counter()
    numbers, times = np.unique(participants, return_counts=True)
    for number, count in zip(numbers.tolist(), times.tolist(), strict=True):
        counts[users.get(number, "")] += count
    return counts


def _publishers(
    proposal: Proposal, found: ValueMatches, places: Sequence[Place], roll: dict[str, Longs]
) -> Longs:
    """Who published what has a value by a proposal, of the publishes that were kept."""
    events = np.unique(found.hits.event[_hits_of(proposal, found, places)])
    return roll["participant"][np.searchsorted(roll["id"], events)]


def _shares(proposal: Proposal, joined: Counter[str], reactions: Counter[str]) -> list[UserShare]:
    """The part of each user in a proposal; of publishes only some are kept, which stand for all."""
    kept = max(1, joined.total())
    shares = [
        UserShare(
            user,
            round(joined[user] / kept, 3),
            round(min(1.0, proposal.best.hits * joined[user] / kept / count), 3),
            count,
        )
        for user, count in reactions.items()
    ]
    shares.sort(key=lambda each: (-each.share, -each.reactions))
    return shares[:MOST_USERS]


def _edges(period: Period, looked: SurveyedSpan) -> tuple[Longs, Longs]:
    """Links that messages carry, as effects and the messages that led to them."""
    columns: list[list[Longs]] = [[np.empty(0, np.int64)] for _ in range(2)]
    for first, last in looked.spans:
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


def _judged(
    period: Period, looked: SurveyedSpan, places: Sequence[Place], found: ValueMatches
) -> tuple[Proposals, dict[int, int]]:
    """What is proposed; and the one message that led to publishes, where links or keys tell it."""
    effects, messages = _edges(period, looked)
    linked: dict[int, set[int]] = {}
    for effect, message in zip(effects.tolist(), messages.tolist(), strict=True):
        linked.setdefault(effect, set()).add(message)
    meant = meant_by(places, found.hits)
    judged = PairJudge(pairs_of(places, found.pairs), meant, linked).judged()
    told = dict(linked)
    for each in judged.proposals:
        for pair in each.pairs:
            for event, those in meant.get((pair.parent.text, pair.child.text), {}).items():
                told.setdefault(event, those)
    alone = {event: next(iter(those)) for event, those in told.items() if len(those) == 1}
    return judged, alone


def _alone(period: Period, looked: SurveyedSpan) -> Iterator[AloneInHand]:
    for first, last in looked.spans:
        yield from alone_in_hand(_hand_rows(period, first, last))


def _hand_rows(period: Period, first: int, last: int) -> Iterator[HandRow]:
    sql = f"SELECT {HAND_COLUMNS} FROM events WHERE {_where(period, first, last)} ORDER BY id"
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
        also=[Places(each.parent.text, each.child.text) for each in proposal.also[:10]],
        examples=examples,
        users=users,
    )


def _figures(pair: PlacePair, reactions: int) -> Json:
    return {
        "parent": pair.parent.text,
        "child": pair.child.text,
        "publishes": pair.hits,
        "support": round(pair.hits / max(reactions, 1), 4),
        "ambiguity": round(pair.ambiguity, 3),
        "chance": None if pair.by_chance is None else round(pair.by_chance, 4),
        "begun": round(pair.begun / pair.hits, 3),
        "values": pair.values,
    }


def _examples(
    period: Period, proposal: Proposal, found: ValueMatches, places: Sequence[Place]
) -> list[Example]:
    """Publishes with the deliveries that they mean, and the value that both have."""
    child, hits = proposal.best.child.text, found.hits
    mine = _hits_of(proposal, found, places)
    events, first = np.unique(hits.event[mine], return_index=True)
    step = max(1, len(events) // EXAMPLES)
    chosen = list(
        zip(
            hits.event[mine][first][::step][:EXAMPLES].tolist(),
            hits.delivery[mine][first][::step][:EXAMPLES].tolist(),
            strict=True,
        )
    )
    if not chosen:
        return []
    said = _said(period, [event for event, _ in chosen])
    return [
        Example(event, delivery, _shown(said.get(event, []), child)) for event, delivery in chosen
    ]


def _hits_of(proposal: Proposal, found: ValueMatches, places: Sequence[Place]) -> Longs:
    """The places of a proposal's best pair among the hits."""
    texts, hits = [place.text for place in places], found.hits
    parent, child = (texts.index(each.text) for each in (proposal.best.parent, proposal.best.child))
    return np.flatnonzero((hits.parent == parent) & (hits.child == child))


def _said(period: Period, events: Sequence[int]) -> dict[int, list[Field]]:
    left: Counter[str] = Counter()
    found = {}
    for event in events:
        part = Slice(period.trace, event, event)
        for batch in read(period.history.connection.database, COLUMNS, part):
            for row in batch.to_pylist():
                found[row["id"]] = _fields(row, left)
    return found


def _shown(fields: Sequence[Field], place: str) -> str | None:
    for text, value in fields:
        if text == place:
            return value[:LONGEST_SHOWN]
    return None
