"""Judges what needs clocks: what is concurrent, and what may have come before.

Concurrent is said of events only where the record is complete and sound; elsewhere the answer is
that it is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from itc import packed_height_at
from model.assertions.assertion import Assertion, NeverConcurrent, Precedence
from model.assertions.judging import AssertionVerdict, Judgement, needs_clocks
from model.doubtful import DoubtfulSpan
from model.gaps import Gap
from model.words import EventType, Via
from spark_jobs.chains.executors import tasks_at_a_time
from spark_jobs.reports.assertions.keys import FIELD, columns_of, key_of
from spark_jobs.reports.assertions.pasts import OPEN, First, firsts, may_follow
from spark_jobs.reports.assertions.rows import (
    CLOCK_COLUMNS,
    FOUND,
    TYPE_COLUMNS,
    batch_of,
    events_of,
    is_publish,
    row_of,
    type_in,
)
from spark_jobs.reports.gathering import COLUMNS, gathered
from spark_jobs.reports.period import Period
from spark_jobs.reports.request import Json, ReportRequest

# Of one key, so many messages of each of two types are compared, the newest: each with each.
MOST_TOGETHER = 500

CONVERSATION = "conversation"

_TYPED = (
    "`key` string, id bigint, side int, participant bigint, height bigint, clock binary,"
    " `interval` string, at bigint, root bigint"
)


def by_clocks(
    spark: SparkSession,
    request: ReportRequest,
    period: Period,
    via: Via,
    assertions: Sequence[Assertion],
    gaps: Sequence[Gap],
) -> Iterator[DataFrame]:
    """The findings in a period; ``gaps`` are all that are known."""
    for number, assertion in enumerate(assertions):
        if period.ids is None or not needs_clocks(assertion):
            continue
        what = assertion.what
        if isinstance(what, NeverConcurrent):
            rows = _typed(spark, request, period, via, what)
            if rows is not None:
                parts = rows.repartition(tasks_at_a_time(spark), "key")
                together = parts.sortWithinPartitions("key", F.desc("id"))
                doubtful = period.history.doubtful(period.trace, *period.ids)
                compare = _compared(number, what, doubtful, is_sure=_is_sure(period))
                yield together.mapInArrow(compare, FOUND)
        elif isinstance(what, Precedence):
            is_sure = is_complete_to_its_end(period, gaps) and not period.sound.doubts
            yield _preceded(spark, request, period, number, what, is_sure=is_sure)


def _is_sure(period: Period) -> bool:
    """Tell whether what is called concurrent is: the period is complete and sound."""
    return not period.gaps and not period.sound.doubts


def is_complete_to_its_end(period: Period, gaps: Sequence[Gap]) -> bool:
    """Tell whether the period has all that was recorded until then, as far as is known."""
    if period.ids is None:
        return False
    first, last = period.ids
    history = period.history
    return (
        not any(gap.after_event_id < last for gap in gaps)
        and not history.is_pruned(period.trace)
        and history.oldest(period.trace) == first
    )


def _typed(
    spark: SparkSession, request: ReportRequest, period: Period, via: Via, what: NeverConcurrent
) -> DataFrame | None:
    """The publishes of two types, by what they share."""
    key = what.per
    needed = ("id", "type", "quiet", "recorded_at", "payload_bytes", *TYPE_COLUMNS, *CLOCK_COLUMNS)
    if key == CONVERSATION:
        columns = tuple(dict.fromkeys((*COLUMNS, *needed)))
        frame = gathered(spark, request.database, period, via, columns=columns)
    else:
        columns = tuple(dict.fromkeys((*needed, *columns_of(key))))
        frame = events_of(spark, request, period, columns)
    if frame is None:
        return None
    since, until = period.since, period.until

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            made = [
                _typed_row(event, side, key)
                for event in batch.to_pylist()
                if since <= event["recorded_at"] < until and is_publish(event)
                for side in _sides(event, what)
            ]
            yield pa.RecordBatch.from_pylist([row for row in made if row], schema=_TYPED_SCHEMA)

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


def _sides(event: Json, what: NeverConcurrent) -> list[int]:
    name = type_in(event)
    return [side for side, pattern in enumerate(what.types) if pattern.fits(name)]


def _typed_row(event: Json, side: int, key: str) -> Json | None:
    """A message of one side, without a key where that is not known; None if it has none."""
    shared = str(event["root"]) if key == CONVERSATION else key_of(event, key)
    if shared is None and not _is_cut(event, key):
        return None
    return {
        "key": shared,
        "side": side,
        "at": event["recorded_at"],
        "root": event.get("root"),
        **{name: event[name] for name in ("id", *CLOCK_COLUMNS)},
    }


def _is_cut(event: Json, key: str) -> bool:
    """Tell whether a key would be in a body of which only a part is stored, or nothing."""
    return key.startswith(FIELD) and len(event["payload"] or b"") < event["payload_bytes"]


def _compared(
    number: int, what: NeverConcurrent, doubtful: DoubtfulSpan, *, is_sure: bool
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Compares messages of one key, which come together and newest first."""

    def findings(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        for key, its_rows in groupby(rows, key=lambda row: row["key"]):
            if key is None:
                yield batch_of([_unread(number, what, next(its_rows))])
                continue
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
            found = [_pair(number, what, key, a, b, doubtful, is_sure) for a, b in pairs.values()]
            if is_cut and sides[0] and sides[1]:
                found.append(_too_many(number, key, sides[0][0]))
            if found:
                yield batch_of([row for row in found if row is not None])

    return findings


def _pair(
    number: int,
    what: NeverConcurrent,
    key: str,
    a: Json,
    b: Json,
    doubtful: DoubtfulSpan,
    is_sure: bool,
) -> Json | None:
    if a["id"] == b["id"]:
        return None
    before, after = (a, b) if a["id"] < b["id"] else (b, a)
    if packed_height_at(after["clock"], before["interval"]) >= before["height"]:
        return row_of(number, Judgement(AssertionVerdict.holds, a["id"], ""), None, a["at"])
    of = f"conversation {key}" if what.per == CONVERSATION else f"{what.per} {key}"
    said = f"{what.types[0]} and {what.types[1]} of {of} are concurrent"
    why = None if is_sure else "the record is not complete, or not sound"
    why = why or doubtful.behind(before["id"], after["id"], after["clock"])
    verdict = AssertionVerdict.unknown if why else AssertionVerdict.violated
    if why:
        said = f"{said}, as far as is known: {why}"
    finding = Judgement(verdict, after["id"], said, (before["id"],))
    return row_of(number, finding, after["root"], after["at"])


def _unread(number: int, what: NeverConcurrent, newest: Json) -> Json:
    said = f"its body is not stored as a whole, so that {what.per} is not known"
    finding = Judgement(AssertionVerdict.unknown, newest["id"], said)
    return row_of(number, finding, newest["root"], newest["at"])


def _too_many(number: int, key: str, newest: Json) -> Json:
    said = f"more than {MOST_TOGETHER} messages share {key}: only the newest were compared"
    finding = Judgement(AssertionVerdict.unknown, newest["id"], said)
    return row_of(number, finding, newest["root"], newest["at"])


def _preceded(
    spark: SparkSession,
    request: ReportRequest,
    period: Period,
    number: int,
    what: Precedence,
    *,
    is_sure: bool,
) -> DataFrame:
    """Tell whether deliveries have a message of a type in their past, as clocks say."""
    columns = ("id", "type", "cause_id", "candidates", "doubtful", "quiet", "recorded_at")
    events = events_of(spark, request, period, (*columns, *TYPE_COLUMNS, *CLOCK_COLUMNS))
    if events is None:  # asked for only where there are some
        raise ValueError("a period without events")
    known = _firsts(events, what)
    since, until = period.since, period.until

    def findings(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for some in batches:
            rows = []
            for event in some.to_pylist():
                is_ours = since <= event["recorded_at"] < until and _is_delivery(event)
                if is_ours and what.every.fits(name := type_in(event)):
                    found = past_of(event, name, what, known, is_sure=is_sure)
                    rows.append(row_of(number, found, None, event["recorded_at"]))
            yield batch_of(rows)

    return events.mapInArrow(findings, FOUND)


def _is_delivery(event: Json) -> bool:
    return event["type"] == EventType.received and not event["quiet"]


def _firsts(events: DataFrame, what: Precedence) -> list[First]:
    """Find where participants first had to do with messages of the type, or unobserved ones."""

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept: list[First] = []
        for some in batches:
            kept = firsts([*kept, *seen_in(some.to_pylist(), what)])
        columns = {name: [getattr(one, name) for one in kept] for name in First._fields}
        yield pa.RecordBatch.from_pydict(columns, schema=_FIRSTS)

    found = events.mapInArrow(rows, "`interval` string, height bigint, message bigint").collect()
    return firsts(First(row["interval"], row["height"], row["message"]) for row in found)


_FIRSTS = pa.schema([("interval", pa.string()), ("height", pa.int64()), ("message", pa.int64())])


def seen_in(events: Iterable[Json], what: Precedence) -> Iterator[First]:
    """Yield where events have to do with a message of the type, or with an unobserved one."""
    for event in events:
        if event["quiet"]:
            continue
        at, height = event["interval"], event["height"]
        message = _message_of(event)
        if event["doubtful"] or (message < OPEN and event["candidates"] is None):
            yield First(at, height, OPEN)
        if what.after.fits(type_in(event)):
            yield First(at, height, message)


def _message_of(event: Json) -> int:
    """The publish of an event's message; the delivery, below 0, where that was not observed."""
    if event["type"] == EventType.published:
        return int(event["id"])
    return -int(event["id"]) if event["cause_id"] is None else int(event["cause_id"])


def past_of(
    event: Json, name: str, what: Precedence, known: Sequence[First], *, is_sure: bool
) -> Judgement:
    """The findings about a delivery of the message type ``name``; see `may_follow`."""
    is_alike = what.after.fits(name)
    message = _message_of(event)
    verdict = may_follow(event["clock"], message, known, is_alike=is_alike, is_sure=is_sure)
    if verdict is AssertionVerdict.holds:
        return Judgement(verdict, event["id"], "")
    if verdict is AssertionVerdict.violated:
        said = f"no {what.after} can have led to this delivery of {name}"
        return Judgement(verdict, event["id"], said)
    said = f"no {what.after} of the period can have led to this delivery of {name}"
    return Judgement(verdict, event["id"], f"{said}, but one may be missing")
