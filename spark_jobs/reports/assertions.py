"""Whether assertions hold over a period, with what shows that they do not.

What messages and links show is judged conversation by conversation (`model.assertions.judging`),
of those that began in the period. What needs clocks is judged from the publishes and deliveries of
the period alone: which messages of two types are concurrent, for each value of a key, and which
deliveries have no message of a type in their past at all. Concurrent is said of events only where
the record is complete and sound; elsewhere the answer is that it is not known.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from itc import packed_height_at
from model.assertions import (
    After,
    Assertion,
    Finding,
    LeadsTo,
    NeverConcurrent,
    Verdict,
    from_json,
    judge,
    to_json,
)
from model.assertions.judging import needs_clocks
from model.conversations import Conversation
from model.gaps import Gap
from model.message_types import type_of
from model.times import iso_time
from model.words import EventType, Match, Via
from spark_jobs.executors import tasks_at_a_time
from spark_jobs.failures import explained
from spark_jobs.gathering import COLUMNS, MAX_ID, each, gathered
from spark_jobs.period import Period
from spark_jobs.progress import Meter
from spark_jobs.reports.order import columns_of, key_of
from spark_jobs.reports.request import Json, Made, ReportRequest
from spark_jobs.slices import MOST_ROWS, spans
from spark_jobs.source import read_slices

# Of each assertion, this many of what does not hold, or is not known, are shown: the newest.
MOST_SHOWN = 100
# Of one key, so many messages of each of two types are compared, the newest: each with each.
MOST_TOGETHER = 500

CONVERSATION = "conversation"
NOTHING_SEEN = "nothing was recorded in the period"
NEVER_SEEN = "no message of this type was recorded"

_FOUND = (
    "assertion int, verdict string, count bigint, event bigint, root bigint, at bigint,"
    " sentence string, others string"
)
_TYPED = (
    "`key` string, id bigint, side int, participant bigint, height bigint, clock binary,"
    " `interval` string, at bigint, root bigint"
)
_TYPE_COLUMNS = ("properties", "exchange", "routing_keys", "envelope")
_CLOCK_COLUMNS = ("participant", "height", "clock", "interval")


class _Tally(NamedTuple):
    """What an assertion came to: how often, and the newest of what does not hold or is unknown."""

    counts: Counter[str]
    shown: list[Json]


def make(spark: SparkSession, request: ReportRequest, period: Period, meter: Meter) -> Made:
    """The verdict of each assertion of ``asked["assertions"]``, along ``asked["via"]``."""
    assertions = [from_json(value) for value in request.asked["assertions"]]
    via = Via(request.asked["via"])
    tallies = [_Tally(Counter(), []) for _ in assertions]
    newest = period.history.newest_until(period.trace, MAX_ID)
    through = newest[1] if newest else 0
    gaps = period.history.gaps(period.trace, period.ids[0], MAX_ID) if period.ids else []
    frames = [
        *_by_links(spark, request, period, via, assertions, through, gaps),
        *_by_clocks(spark, request, period, via, assertions),
    ]
    for number, frame in enumerate(frames):
        with explained():
            _add(tallies, frame)
        meter.enter("counting", 5.0 + 90.0 * (number + 1) / len(frames))
    results = [
        _result(assertion, tally, period)
        for assertion, tally in zip(assertions, tallies, strict=True)
    ]
    verdicts = Counter(result["verdict"] for result in results)
    facts = {
        "verdict": _of_all(verdicts),
        **{str(each): verdicts[str(each)] for each in Verdict},
    }
    return Made(facts, {"results": results})


def _of_all(verdicts: Counter[str]) -> str:
    for verdict in (Verdict.violated, Verdict.unknown):
        if verdicts[str(verdict)]:
            return str(verdict)
    return str(Verdict.holds)


def _result(assertion: Assertion, tally: _Tally, period: Period) -> Json:
    counts = {str(verdict): tally.counts[str(verdict)] for verdict in Verdict}
    verdict = _of_all(Counter({name: count for name, count in counts.items() if count}))
    why = None
    if verdict == Verdict.holds:
        if period.ids is None:
            verdict, why = str(Verdict.unknown), NOTHING_SEEN
        elif not any(counts.values()) and isinstance(assertion.what, LeadsTo | After):
            verdict, why = str(Verdict.unknown), NEVER_SEEN
        elif period.gaps:
            verdict, why = (
                str(Verdict.unknown),
                "the period has gaps, in which others may be missing",
            )
    shown = sorted(tally.shown, key=lambda one: (one["verdict"] != Verdict.violated, -one["event"]))
    return {
        "assertion": to_json(assertion),
        "verdict": verdict,
        "why": why,
        **counts,
        "items": shown[:MOST_SHOWN],
        "truncated": counts["violated"] + counts["unknown"] > len(shown[:MOST_SHOWN]),
    }


def _add(tallies: Sequence[_Tally], frame: DataFrame) -> None:
    """Add what a frame of findings holds."""
    found = frame.persist()
    try:
        counted = found.groupBy("assertion", "verdict").agg(F.sum("count").alias("count"))
        for row in counted.collect():
            tallies[row["assertion"]].counts[row["verdict"]] += row["count"]
        for number in range(len(tallies)):
            its = found.where((F.col("assertion") == number) & F.col("event").isNotNull())
            newest = its.orderBy((F.col("verdict") != "violated"), F.desc("event"))
            tallies[number].shown.extend(map(_item, newest.limit(MOST_SHOWN).collect()))
    finally:
        found.unpersist()


def _item(row: Any) -> Json:
    return {
        "verdict": row["verdict"],
        "event": row["event"],
        "root": row["root"],
        "at": iso_time(row["at"]),
        "sentence": row["sentence"],
        "others": json.loads(row["others"]),
    }


def _row(number: int, finding: Finding, root: int | None, at: int) -> Json:
    is_shown = finding.verdict is not Verdict.holds
    return {
        "assertion": number,
        "verdict": str(finding.verdict),
        "count": 1,
        "event": finding.event if is_shown else None,
        "root": root if is_shown else None,
        "at": at if is_shown else None,
        "sentence": finding.sentence if is_shown else None,
        "others": json.dumps(finding.others) if is_shown else None,
    }


_SCHEMA = pa.schema(
    [
        ("assertion", pa.int32()),
        ("verdict", pa.string()),
        *((name, pa.int64()) for name in ("count", "event", "root", "at")),
        ("sentence", pa.string()),
        ("others", pa.string()),
    ]
)


def _batch(rows: list[Json]) -> pa.RecordBatch:
    """Rows of findings; those that hold are counted together."""
    held: Counter[int] = Counter(
        row["assertion"] for row in rows if row["verdict"] == Verdict.holds
    )
    kept = [row for row in rows if row["verdict"] != Verdict.holds]
    none = dict.fromkeys(_SCHEMA.names)
    kept += [
        {**none, "assertion": number, "verdict": str(Verdict.holds), "count": count}
        for number, count in held.items()
    ]
    return pa.RecordBatch.from_pylist(kept, schema=_SCHEMA)


# ---- by messages and links ----------------------------------------------------------------------


def _by_links(
    spark: SparkSession,
    request: ReportRequest,
    period: Period,
    via: Via,
    assertions: Sequence[Assertion],
    through: int,
    gaps: Sequence[Gap],
) -> Iterator[DataFrame]:
    judged = [(n, one) for n, one in enumerate(assertions) if not needs_clocks(one)]
    if not judged:
        return
    frame = gathered(spark, request.database, period, via)
    if frame is None:
        return

    def findings(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for told in each(batches, via):
            conversation, rows = told.conversation, []
            for number, assertion in judged:
                begin, end = _span(assertion, conversation)
                has_gap = _overlap(gaps, begin, end)
                for finding in judge(assertion, conversation, through=through, has_gap=has_gap):
                    at = told.rows[finding.event]["recorded_at"]
                    rows.append(_row(number, finding, conversation.root, at))
            if rows:
                yield _batch(rows)

    yield frame.mapInArrow(findings, _FOUND)


def _span(assertion: Assertion, conversation: Conversation) -> tuple[int, int | None]:
    """From when and until when what is missing would matter (µs); None: for ever."""
    what, ended_at = assertion.what, conversation.ended_at
    if isinstance(what, After):
        # What led to its first message may be lost: then it only seems to have begun there.
        return 0, ended_at
    within = what.within if isinstance(what, LeadsTo) else None
    return conversation.began_at, None if within is None else ended_at + within


def _overlap(gaps: Sequence[Gap], since: int, until: int | None) -> bool:
    return any(
        (gap.until is None or gap.until >= since) and (until is None or gap.since <= until)
        for gap in gaps
    )


# ---- by clocks ----------------------------------------------------------------------------------


def _by_clocks(
    spark: SparkSession,
    request: ReportRequest,
    period: Period,
    via: Via,
    assertions: Sequence[Assertion],
) -> Iterator[DataFrame]:
    for number, assertion in enumerate(assertions):
        if period.ids is None or not needs_clocks(assertion):
            continue
        what = assertion.what
        if isinstance(what, NeverConcurrent):
            rows = _typed(spark, request, period, via, what)
            if rows is not None:
                parts = rows.repartition(tasks_at_a_time(spark), "key")
                together = parts.sortWithinPartitions("key", F.desc("id"))
                yield together.mapInArrow(_compared(number, what, is_sure=_is_sure(period)), _FOUND)
        elif isinstance(what, After):
            yield _preceded(spark, request, period, number, what)


def _is_sure(period: Period) -> bool:
    """Whether what is called concurrent is: the period is complete and sound."""
    return not period.gaps and not period.sound.doubts


def _typed(
    spark: SparkSession, request: ReportRequest, period: Period, via: Via, what: NeverConcurrent
) -> DataFrame | None:
    """The publishes of two types, by what they share."""
    key = what.per
    needed = ("id", "type", "quiet", "recorded_at", *_TYPE_COLUMNS, *_CLOCK_COLUMNS)
    if key == CONVERSATION:
        columns = tuple(dict.fromkeys((*COLUMNS, *needed)))
        frame = gathered(spark, request.database, period, via, columns=columns)
    else:
        columns = tuple(dict.fromkeys((*needed, *columns_of(key))))
        frame = _events(spark, request, period, columns)
    if frame is None:
        return None
    since, until = period.since, period.until

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            made = [
                _typed_row(event, side, key)
                for event in batch.to_pylist()
                if since <= event["recorded_at"] < until and _is_publish(event)
                for side in _sides(event, what)
            ]
            kept = [row for row in made if row["key"] is not None]
            yield pa.RecordBatch.from_pylist(kept, schema=_TYPED_SCHEMA)

    return frame.mapInArrow(rows, _TYPED)


_TYPED_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("id", pa.int64()),
        ("side", pa.int32()),
        ("participant", pa.int64()),
        ("height", pa.int64()),
        ("clock", pa.binary()),
        ("interval", pa.string()),
        ("at", pa.int64()),
        ("root", pa.int64()),
    ]
)


def _events(
    spark: SparkSession, request: ReportRequest, period: Period, columns: Sequence[str]
) -> DataFrame | None:
    if period.ids is None:
        return None
    first, last = period.ids
    count = max(tasks_at_a_time(spark), -(-(last - first + 1) // MOST_ROWS))
    return read_slices(spark, request.database, columns, spans(period.trace, first, last, count))


def _is_publish(event: Json) -> bool:
    return event["type"] == EventType.published and not event["quiet"]


def _type_in(event: Json) -> str:
    properties = json.loads(event["properties"])
    keys = json.loads(event["routing_keys"])
    return type_of(properties, event["exchange"], keys, event["envelope"])


def _sides(event: Json, what: NeverConcurrent) -> list[int]:
    name = _type_in(event)
    return [side for side, pattern in enumerate(what.types) if pattern.fits(name)]


def _typed_row(event: Json, side: int, key: str) -> Json:
    shared = str(event["root"]) if key == CONVERSATION else key_of(event, key)
    return {
        "key": shared,
        "side": side,
        "at": event["recorded_at"],
        "root": event.get("root"),
        **{name: event[name] for name in ("id", *_CLOCK_COLUMNS)},
    }


def _compared(
    number: int, what: NeverConcurrent, *, is_sure: bool
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Compares messages of one key, which come together and newest first."""

    def findings(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        for key, its_rows in groupby(rows, key=lambda row: row["key"]):
            sides: tuple[list[Json], list[Json]] = ([], [])
            is_cut = False
            for row in its_rows:
                side = sides[row["side"]]
                if len(side) < MOST_TOGETHER:
                    side.append(row)
                else:
                    is_cut = True
            # Patterns may both fit two messages: then they are still one pair.
            pairs = {tuple(sorted((a["id"], b["id"]))): (a, b) for a in sides[0] for b in sides[1]}
            found = [_pair(number, what, key, a, b, is_sure) for a, b in pairs.values()]
            if is_cut and sides[0] and sides[1]:
                found.append(_too_many(number, key, sides[0][0]))
            if found:
                yield _batch([row for row in found if row is not None])

    return findings


def _pair(
    number: int, what: NeverConcurrent, key: str, a: Json, b: Json, is_sure: bool
) -> Json | None:
    if a["id"] == b["id"]:
        return None
    before, after = (a, b) if a["id"] < b["id"] else (b, a)
    if packed_height_at(after["clock"], before["interval"]) >= before["height"]:
        return _row(number, Finding(Verdict.holds, a["id"], ""), None, a["at"])
    of = f"conversation {key}" if what.per == CONVERSATION else f"{what.per} {key}"
    said = f"{what.types[0]} and {what.types[1]} of {of} are concurrent"
    verdict = Verdict.violated if is_sure else Verdict.unknown
    if not is_sure:
        said = f"{said}, as far as is known: the record is not complete, or not sound"
    finding = Finding(verdict, after["id"], said, (before["id"],))
    return _row(number, finding, after["root"], after["at"])


def _too_many(number: int, key: str, newest: Json) -> Json:
    said = f"more than {MOST_TOGETHER} messages share {key}: only the newest were compared"
    finding = Finding(Verdict.unknown, newest["id"], said)
    return _row(number, finding, newest["root"], newest["at"])


def _preceded(
    spark: SparkSession, request: ReportRequest, period: Period, number: int, what: After
) -> DataFrame:
    """Whether deliveries have a message of a type in their past, as clocks say."""
    columns = ("id", "type", "match", "quiet", "recorded_at", *_TYPE_COLUMNS, *_CLOCK_COLUMNS)
    events = _events(spark, request, period, columns)
    if events is None:  # asked for only where there are some
        raise ValueError("a period without events")
    firsts = _firsts(events, what)
    since, until = period.since, period.until
    # What was published before the period may be in a past, too.
    is_sure = _is_sure(period) and not _had_more(period)

    def findings(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = []
            for event in batch.to_pylist():
                is_ours = since <= event["recorded_at"] < until and not event["quiet"]
                if not is_ours or event["type"] != EventType.received:
                    continue
                name = _type_in(event)
                if what.every.fits(name):
                    found = _past_of(event, name, what, firsts, is_sure=is_sure)
                    rows.append(_row(number, found, None, event["recorded_at"]))
            yield _batch(rows)

    return events.mapInArrow(findings, _FOUND)


def _had_more(period: Period) -> bool:
    """Whether something was traced, or pruned, before the period."""
    return period.ids is not None and period.ids[0] > 1


def _firsts(events: DataFrame, what: After) -> list[tuple[str, int]]:
    """Of each participant the interval, and the height of its first message of the type."""

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            least: defaultdict[str, int] = defaultdict(lambda: MAX_ID)
            for event in batch.to_pylist():
                if _is_publish(event) and what.after.fits(_type_in(event)):
                    at = event["interval"]
                    least[at] = min(least[at], event["height"])
            yield pa.RecordBatch.from_pydict(
                {"interval": [*least], "height": [*least.values()]},
                schema=pa.schema([("interval", pa.string()), ("height", pa.int64())]),
            )

    found = events.mapInArrow(rows, "`interval` string, height bigint")
    least = found.groupBy("interval").agg(F.min("height").alias("height")).collect()
    return [(row["interval"], row["height"]) for row in least]


def _past_of(
    event: Json, name: str, what: After, firsts: Sequence[tuple[str, int]], *, is_sure: bool
) -> Finding:
    for interval, height in firsts:
        if packed_height_at(event["clock"], interval) >= height:
            return Finding(Verdict.holds, event["id"], "")
    if event["match"] == Match.unmatched:
        is_sure = False
    said = f"no {what.after} can have led to this delivery of {name}"
    if is_sure:
        return Finding(Verdict.violated, event["id"], said)
    said = f"no {what.after} of the period can have led to this delivery of {name}"
    return Finding(Verdict.unknown, event["id"], f"{said}, but one may be missing")
