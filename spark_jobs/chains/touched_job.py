"""The touched job: every event since one, with what that one had to do with it, and the evidence.

The planner finds from which event on each participant is after the first one, and follows messages,
links and what the broker did through the index. With these, executors judge each event by itself.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql import SparkSession

from model.answers import Verdict, touched_sentence
from model.blocks import MAX_ID
from model.described import json_of
from model.evidence import Start, TouchedSummary
from model.exports import Format, Quota, manifest_of
from model.jobs import Problem
from model.ranges import Holds, first_reached
from model.sound import Soundness
from model.words import BY_BROKER, EdgeKind, EventType, how_of
from spark_jobs.errors import JobError
from spark_jobs.events.history import ChainEnd, History, lists_of
from spark_jobs.events.ranges import Range, Ranges
from spark_jobs.events.slices import spans_that_fit
from spark_jobs.events.slices_job import tasks_at_a_time
from spark_jobs.export import open_whole, write_file
from spark_jobs.formats.parquet import stream_of, write_row_groups
from spark_jobs.formats.renderer import Chain, Renderer, Sink, write_chunks
from spark_jobs.formats.renderer_job import render_slices
from spark_jobs.progress import Meter, Report, Stopwatch, silent
from spark_jobs.signature import sign
from spark_jobs.spark.database import DatabaseAddress
from spark_jobs.spark.versions import versions

Json: TypeAlias = dict[str, Any]

FORMATS = ("jsonl", "parquet")
# No more caused events are followed: the driver and each task hold a step for each.
MOST_CAUSED = 100_000
CHUNK = 2_000

COLUMNS = (
    *("id", "type", "participant", "interval", "seq", "height", "clock", "doubtful"),
    "candidates",
    "quiet",  # then nothing lies behind it
)
_STEP = pa.struct(
    [
        ("cause", pa.int64()),
        ("how", pa.string()),
        ("rule", pa.string()),
        ("kind", pa.string()),
        ("late", pa.bool_()),
    ]
)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("verdict", pa.string()),
        ("type", pa.string()),
        ("participant", pa.int64()),
        ("interval", pa.string()),
        ("seq", pa.int64()),
        ("height", pa.int64()),
        ("clock", pa.binary()),
        ("doubtful", pa.bool_()),
        ("candidates", pa.int64()),
        ("by", _STEP),
    ]
)


class CauseStep(NamedTuple):
    """The step that led to an event: from a cause, by a message, a link, or what the broker did.

    ``late``: a link that the clocks do not have.
    """

    cause: int
    rule: str | None
    kind: int | None
    late: bool

    def to_json(self) -> Json:
        """As the file has it."""
        kind = None if self.kind is None else EdgeKind(self.kind)
        step: Json = {"cause": self.cause, "how": how_of(kind), "rule": None, "kind": None}
        if kind is not None and kind not in BY_BROKER:
            step |= {"rule": self.rule, "kind": kind.name}
        return step | {"late": self.late}


@dataclass(frozen=True)
class TouchedRequest:
    """A request for what an event touched, as a file; ``key_file`` signs its manifest."""

    database: DatabaseAddress
    event_id: int
    output: Path
    format: Format
    quota: Quota | None = None
    key_file: Path | None = None


def run(spark: SparkSession, request: TouchedRequest, report: Report = silent) -> Json:
    """Write the file and its manifest; returns that. Raises `JobError`, then nothing is written."""
    watch, meter = Stopwatch(), Meter(report)
    meter.enter("planning", 0.0)
    with request.database.connect() as connection:
        history = History(connection)
        start = history.event(request.event_id)
        newest = history.newest_until(start.trace, MAX_ID)
        as_of = start.id if newest is None else newest[0]
        gaps = history.gaps(start.trace, start.id, MAX_ID)
        soundness = history.soundness(start.trace, start.id, MAX_ID)
        caused = _follow(history, start, as_of)
        rest = Verdict.unknown if gaps or soundness.doubts else Verdict.cannot_have
        doubtful = history.doubtful(start.trace, start.id, as_of).future()
        doubted = Ranges.from_ranges(_from_which(history, start, doubtful.holds))
        facts = {"caused": caused, "rest": rest.value, "behind": doubted}
        reached = _from_which(history, start, lambda mark: start.dot.is_reached(mark.clock))
        chain = Chain(facts, Ranges.from_ranges(reached))
        span = start.trace, start.id + 1, as_of, tasks_at_a_time(spark)
        slices = spans_that_fit(history, *span) if as_of > start.id else []
        seq = _seq_of(history, start.id)
        watch.lap("plan")
        meter.enter("reading", 5.0)
        meter.expect(as_of - start.id)
        renderer = RENDERERS[request.format.name]
        counts = dict.fromkeys(map(str, Verdict), 0)
        with open_whole(request.output, request.quota) as file:
            parts = render_slices(spark, request.database, renderer, chain, slices, meter)
            renderer.write(file, _count_verdicts(parts, counts), chain)
            if not history.exists(start.id):
                raise JobError(
                    Problem.not_found,
                    f"Event {start.id} was pruned while what it touched was read, so nothing was"
                    " written; choose a later event.",
                )
            summary = TouchedSummary(
                event=start.id,
                vhost=start.vhost,
                as_of=as_of,
                events=meter.rows_written,
                caused=counts[Verdict.caused],
                may_have=counts[Verdict.may_have],
                cannot_have=counts[Verdict.cannot_have],
                unknown=counts[Verdict.unknown],
                sentence=_sentence(meter.rows_written, counts, not gaps, soundness),
                starts=[_start_of(start, seq)],
                gaps=gaps,
                soundness=soundness,
                format=request.format.name,
                file=request.output.name,
                bytes=file.bytes,
                sha256=file.sha256,
                seconds=watch.lap("spark"),
                versions=versions(),
            )
            manifest = sign(json_of(summary), request.key_file)
            write_file(manifest_of(request.output), json.dumps(manifest, indent=1).encode() + b"\n")
            meter.enter("finishing", 99.0)
    return manifest


def _sentence(events: int, counts: Mapping[str, int], complete: bool, soundness: Soundness) -> str:
    caused, may_have = counts[Verdict.caused], counts[Verdict.may_have]
    sound = not soundness.doubts
    return touched_sentence(
        1,
        events,
        caused,
        may_have,
        counts[Verdict.unknown],
        cut=False,
        complete=complete,
        sound=sound,
    )


def _start_of(event: ChainEnd, seq: int) -> Start:
    clock = base64.b64encode(event.clock).decode()
    return Start(event.id, event.participant, event.interval, seq, event.height, clock)


def _seq_of(history: History, event_id: int) -> int:
    rows = history.connection.rows(f"SELECT seq FROM events WHERE id = {int(event_id)}")
    return int(rows[0]["seq"]) if rows else 0


def _from_which(history: History, start: ChainEnd, holds: Holds) -> list[Range]:
    """From which event on something holds for each participant, if it does."""
    trace = start.trace
    acting = history.participants(trace, start.id, MAX_ID)
    tops = {
        number: mark
        for number, mark in history.last_at_or_below(
            trace, [(participant.number, MAX_ID) for participant in acting]
        ).items()
        if holds(mark)
    }
    firsts = first_reached(tops, holds, lambda heights: history.first_at_or_above(trace, heights))
    # Events stored meanwhile come after these, so it holds for them too.
    return [
        Range(number, first.height, MAX_ID, first.id, MAX_ID, first.seq, MAX_ID)
        for number, first in firsts.items()
    ]


def _follow(history: History, start: ChainEnd, as_of: int) -> dict[int, CauseStep]:
    """The events that are evidently caused, each with the step that led there first."""
    steps: dict[int, CauseStep] = {}
    level = [start.id]
    while level:
        next_level: list[int] = []
        for chunk in lists_of(level, CHUNK):
            for row in history.connection.rows(_steps_from(start.trace, chunk, as_of)):
                event_id = row["id"]
                if event_id in steps or event_id == start.id:
                    continue
                is_message = row["kind"] < 0
                steps[event_id] = CauseStep(
                    row["cause"],
                    None if is_message else row["rule"],
                    None if is_message else row["kind"],
                    bool(row["late"]),
                )
                next_level.append(event_id)
        if len(steps) > MOST_CAUSED:
            raise JobError(
                Problem.bad_request,
                f"Event {start.id} caused more than {MOST_CAUSED} events, too many to give the"
                " evidence of each; choose a later event.",
            )
        level = sorted(next_level)
    return steps


def _steps_from(trace: int, ids: Iterable[int], as_of: int) -> str:
    ids_text = ", ".join(map(str, ids))
    late = (
        "CASE WHEN EXISTS (SELECT 1 FROM late_edges l WHERE l.trace_id = g.trace_id"
        " AND l.effect_id = g.effect_id AND l.cause_id = g.cause_id) THEN 1 ELSE 0 END"
    )
    return (
        "SELECT e.id AS id, e.cause_id AS cause, '' AS rule, -1 AS kind, 0 AS late FROM events e"
        f" WHERE e.cause_id IN ({ids_text}) AND e.id <= {as_of} AND NOT e.quiet"
        f" UNION ALL SELECT g.effect_id, g.cause_id, g.rule, g.kind, {late}"
        " FROM edges g JOIN events e ON e.id = g.effect_id"
        f" WHERE g.trace_id = {trace} AND g.cause_id IN ({ids_text}) AND g.effect_id <= {as_of}"
        f" AND g.kind <> {int(EdgeKind.candidate)} AND NOT e.quiet ORDER BY 1, 5, 2, 3"
    )


# Rendering. Each chunk is an Arrow stream, from which both formats are written and counted.


def _render(batch: pa.RecordBatch, chain: Chain) -> bytes:
    assert chain.ranges is not None  # noqa: S101 - filled for this renderer
    caused, rest = chain.facts["caused"], chain.facts["rest"]
    dots = batch.column("participant").to_numpy(), batch.column("height").to_numpy()
    reached = chain.ranges.hold(*dots).tolist()
    doubted = chain.facts["behind"].hold(*dots).tolist()
    rows = []
    for row, is_after, is_behind in zip(batch.to_pylist(), reached, doubted, strict=True):
        step = caused.get(row["id"])
        verdict = Verdict.unknown.value if is_behind else rest
        verdict = Verdict.may_have.value if is_after else verdict
        is_quiet = row.pop("quiet")
        rows.append(
            {
                **row,
                "type": EventType(row["type"]).name,
                "doubtful": row["doubtful"] and not is_quiet,
                "verdict": verdict if step is None else Verdict.caused.value,
                "by": None if step is None else step.to_json(),
            }
        )
    return stream_of(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))


def _count_verdicts(parts: Iterable[bytes], counts: dict[str, int]) -> Iterable[bytes]:
    for part in parts:
        for batch in pa.ipc.open_stream(part):
            for count in batch.column("verdict").value_counts().to_pylist():
                counts[count["values"]] += count["counts"]
        yield part


def _write_jsonl(file: Sink, parts: Iterable[bytes], chain: Chain) -> None:
    write_chunks(file, map(_lines, parts), chain)


def _lines(part: bytes) -> bytes:
    lines = []
    for batch in pa.ipc.open_stream(part):
        for row in batch.to_pylist():
            row["clock"] = base64.b64encode(row["clock"]).decode()
            lines.append(json.dumps(row, separators=(",", ":")))
    return "".join(f"{line}\n" for line in lines).encode()


def _write_parquet(file: Sink, parts: Iterable[bytes], chain: Chain) -> None:
    del chain
    write_row_groups(file, parts, SCHEMA)


RENDERERS: dict[str, Renderer] = {
    "jsonl": Renderer(COLUMNS, _render, _write_jsonl),
    "parquet": Renderer(COLUMNS, _render, _write_parquet),
}
