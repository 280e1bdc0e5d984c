"""Verdicts on Spark by clocks: which events are concurrent, and which came before others.

Events are called concurrent only where the record is complete and sound; otherwise the answer is
"unknown".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from itc import packed_height_at
from model.assertions.assertion import Assertion, NeverConcurrent, Precedence
from model.assertions.judging import AssertionVerdict, Judgement, needs_clocks
from model.doubtful import DoubtfulSpan
from model.gaps import Gap
from model.words import EventType, Via
from spark_jobs.events.slices_job import read_slices, slices_of, tasks_at_a_time
from spark_jobs.reports.assertions.clocks import OPEN, First, firsts, may_follow
from spark_jobs.reports.assertions.findings import (
    CLOCK_COLUMNS,
    FINDINGS,
    TYPE_COLUMNS,
    batch_of,
    is_publish,
    row_of,
    type_in,
)
from spark_jobs.reports.assertions.keys import FIELD, columns_of, key_of
from spark_jobs.reports.conversations import COLUMNS
from spark_jobs.reports.conversations_job import conversation_events
from spark_jobs.reports.period import Period
from spark_jobs.reports.report_request import Json, ReportRequest

# The newest messages of one key and type that are compared, each with each of the other type.
MOST_TOGETHER = 500
_TOO_MANY = f"more than {MOST_TOGETHER} messages share {{}}: only the newest were compared"

CONVERSATION = "conversation"

_FINDING_ROW = from_arrow_schema(FINDINGS)


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
        claim = assertion.requirement
        if isinstance(claim, NeverConcurrent):
            rows = _publishes(spark, request, period, via, claim)
            if rows is not None:
                parts = rows.repartition(tasks_at_a_time(spark), "key")
                by_key = parts.sortWithinPartitions("key", F.desc("id"))
                doubtful = period.history.doubtful(period.trace, *period.ids)
                is_sure = not period.gaps and not period.sound.doubts
                compare = _comparison(number, claim, doubtful, is_sure=is_sure)
                yield by_key.mapInArrow(compare, _FINDING_ROW)
        elif isinstance(claim, Precedence):
            is_sure = is_complete_to_its_end(period, gaps) and not period.sound.doubts
            yield _past_findings(spark, request, period, number, claim, is_sure=is_sure)


def is_complete_to_its_end(period: Period, gaps: Sequence[Gap]) -> bool:
    """Tell whether the trace has, as far as is known, all events up to the period's end."""
    if period.ids is None:
        return False
    first, last = period.ids
    history = period.history
    return (
        not any(gap.after_event_id < last for gap in gaps)
        and not history.is_pruned(period.trace)
        and history.oldest(period.trace) == first
    )


def _publishes(
    spark: SparkSession, request: ReportRequest, period: Period, via: Via, claim: NeverConcurrent
) -> DataFrame | None:
    """The publishes of two types, by their key."""
    key = claim.key
    names = ("id", "type", "quiet", "recorded_at", "payload_bytes", *TYPE_COLUMNS, *CLOCK_COLUMNS)
    if key == CONVERSATION:
        columns = tuple(dict.fromkeys((*COLUMNS, *names)))
        frame = conversation_events(spark, request.database, period, via, columns=columns)
    else:
        columns = tuple(dict.fromkeys((*names, *columns_of(key))))
        frame = _events_of(spark, request, period, columns)
    if frame is None:
        return None
    begin, end = period.since, period.until

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            publishes = [
                _publish_row(event, side, key)
                for event in batch.to_pylist()
                if begin <= event["recorded_at"] < end and is_publish(event)
                for side in _sides(event, claim)
            ]
            yield pa.RecordBatch.from_pylist(
                [row for row in publishes if row], schema=_PUBLISH_SCHEMA
            )

    return frame.mapInArrow(rows, from_arrow_schema(_PUBLISH_SCHEMA))


def _events_of(
    spark: SparkSession, request: ReportRequest, period: Period, columns: Sequence[str]
) -> DataFrame | None:
    if period.ids is None:
        return None
    slices = slices_of(spark, period.trace, *period.ids)
    return read_slices(spark, request.database, columns, slices)


_PUBLISH_SCHEMA = pa.schema(
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


def _sides(event: Json, claim: NeverConcurrent) -> list[int]:
    name = type_in(event)
    return [side for side, pattern in enumerate(claim.types) if pattern.fits(name)]


def _publish_row(event: Json, side: int, key: str) -> Json | None:
    """A message of one side; its key is None where it is unknown. None for one without a key."""
    text = str(event["root"]) if key == CONVERSATION else key_of(event, key)
    if text is None and not _is_cut(event, key):
        return None
    return {
        "key": text,
        "side": side,
        "at": event["recorded_at"],
        "root": event.get("root"),
        **{name: event[name] for name in ("id", *CLOCK_COLUMNS)},
    }


def _is_cut(event: Json, key: str) -> bool:
    """Tell whether a key would be in a body of which only a part is stored, or nothing."""
    return key.startswith(FIELD) and len(event["payload"] or b"") < event["payload_bytes"]


def _comparison(
    number: int, claim: NeverConcurrent, doubtful: DoubtfulSpan, *, is_sure: bool
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function that compares the messages of each key, which come together, newest first."""

    def findings(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        for key, key_rows in groupby(rows, key=lambda row: row["key"]):
            if key is None:
                sentence = f"its body is not stored as a whole, so that {claim.key} is not known"
                yield batch_of([_unknown(number, sentence, next(key_rows))])
                continue
            sides: tuple[list[Json], list[Json]] = ([], [])
            is_cut = False
            for row in key_rows:
                side = sides[row["side"]]
                if len(side) < MOST_TOGETHER:
                    side.append(row)
                else:
                    is_cut = True
            # Patterns may both fit two messages: then they are still one pair.
            pairs = {tuple(sorted((a["id"], b["id"]))): (a, b) for a in sides[0] for b in sides[1]}
            results = [
                _pair(number, claim, key, a, b, doubtful, is_sure) for a, b in pairs.values()
            ]
            if is_cut and sides[0] and sides[1]:
                results.append(_unknown(number, _TOO_MANY.format(key), sides[0][0]))
            if results:
                yield batch_of([row for row in results if row is not None])

    return findings


def _pair(
    number: int,
    claim: NeverConcurrent,
    key: str,
    a: Json,
    b: Json,
    doubtful: DoubtfulSpan,
    is_sure: bool,
) -> Json | None:
    if a["id"] == b["id"]:
        return None
    first, second = (a, b) if a["id"] < b["id"] else (b, a)
    if packed_height_at(second["clock"], first["interval"]) >= first["height"]:
        return row_of(number, Judgement(AssertionVerdict.holds, a["id"], ""), None, a["at"])
    subject = f"conversation {key}" if claim.key == CONVERSATION else f"{claim.key} {key}"
    sentence = f"{claim.types[0]} and {claim.types[1]} of {subject} are concurrent"
    doubt = None if is_sure else "the record is not complete, or not sound"
    doubt = doubt or doubtful.doubt(first["id"], second["id"], second["clock"])
    verdict = AssertionVerdict.unknown if doubt else AssertionVerdict.violated
    if doubt:
        sentence = f"{sentence}, as far as is known: {doubt}"
    judgement = Judgement(verdict, second["id"], sentence, (first["id"],))
    return row_of(number, judgement, second["root"], second["at"])


def _unknown(number: int, sentence: str, newest: Json) -> Json:
    judgement = Judgement(AssertionVerdict.unknown, newest["id"], sentence)
    return row_of(number, judgement, newest["root"], newest["at"])


def _past_findings(
    spark: SparkSession,
    request: ReportRequest,
    period: Period,
    number: int,
    claim: Precedence,
    *,
    is_sure: bool,
) -> DataFrame:
    """Findings on whether deliveries have a message of a type in their past."""
    columns = ("id", "type", "cause_id", "candidates", "doubtful", "quiet", "recorded_at")
    events = _events_of(spark, request, period, (*columns, *TYPE_COLUMNS, *CLOCK_COLUMNS))
    if events is None:  # asked for only where there are some
        raise ValueError("a period without events")
    starts = _firsts(events, claim)
    begin, end = period.since, period.until

    def findings(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = []
            for event in batch.to_pylist():
                is_delivery = event["type"] == EventType.received and not event["quiet"]
                is_ours = is_delivery and begin <= event["recorded_at"] < end
                if is_ours and claim.subject.fits(name := type_in(event)):
                    result = past_of(event, name, claim, starts, is_sure=is_sure)
                    rows.append(row_of(number, result, None, event["recorded_at"]))
            yield batch_of(rows)

    return events.mapInArrow(findings, _FINDING_ROW)


def _firsts(events: DataFrame, claim: Precedence) -> list[First]:

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        starts: list[First] = []
        for batch in batches:
            starts = firsts([*starts, *contacts_in(batch.to_pylist(), claim)])
        columns = {name: [getattr(start, name) for start in starts] for name in First._fields}
        yield pa.RecordBatch.from_pydict(columns, schema=_FIRSTS)

    frame = events.mapInArrow(rows, from_arrow_schema(_FIRSTS))
    return firsts(First(row["interval"], row["height"], row["message"]) for row in frame.collect())


_FIRSTS = pa.schema([("interval", pa.string()), ("height", pa.int64()), ("message", pa.int64())])


def contacts_in(events: Iterable[Json], claim: Precedence) -> Iterator[First]:
    """Events that deal with a message of the type, or with an unobserved one."""
    for event in events:
        if event["quiet"]:
            continue
        interval, height = event["interval"], event["height"]
        message = _message_of(event)
        if event["doubtful"] or (message < OPEN and event["candidates"] is None):
            yield First(interval, height, OPEN)
        if claim.precursor.fits(type_in(event)):
            yield First(interval, height, message)


def _message_of(event: Json) -> int:
    """The publish of an event's message; the delivery, below 0, where that was not observed."""
    if event["type"] == EventType.published:
        return int(event["id"])
    return -int(event["id"]) if event["cause_id"] is None else int(event["cause_id"])


def past_of(
    event: Json, name: str, claim: Precedence, starts: Sequence[First], *, is_sure: bool
) -> Judgement:
    """The judgement about a delivery of the message type ``name``; see `may_follow`."""
    is_alike = claim.precursor.fits(name)
    message = _message_of(event)
    verdict = may_follow(event["clock"], message, starts, is_alike=is_alike, is_sure=is_sure)
    if verdict is AssertionVerdict.holds:
        return Judgement(verdict, event["id"], "")
    if verdict is AssertionVerdict.violated:
        sentence = f"no {claim.precursor} can have led to this delivery of {name}"
        return Judgement(verdict, event["id"], sentence)
    sentence = f"no {claim.precursor} of the period can have led to this delivery of {name}"
    return Judgement(verdict, event["id"], f"{sentence}, but one may be missing")
