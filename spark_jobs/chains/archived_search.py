"""Finding a chain that begins in an archive: its span is followed event by event (`following`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from itc import Relation
from model.doubtful import MOST_DOUBTFUL, DoubtfulDelivery, DoubtfulSpan
from model.jobs import Problem
from model.sound import MOST_LATE, MOST_QUIET, Late, Soundness, doubts_of
from model.words import Via
from spark_jobs.chains.in_memory import SpanColumns, chain_of, leads, ranges_of
from spark_jobs.chains.search import ChainQuestion, ChainResult, by_participant, numbers_of
from spark_jobs.chains.span_columns import columns_for, span_of
from spark_jobs.errors import JobError
from spark_jobs.events.archive import Archive
from spark_jobs.events.history import History
from spark_jobs.events.ranges import Flags, Longs, Range, Ranges
from spark_jobs.events.slices import Slice, parts_of_ranges, rows_per_slice
from spark_jobs.events.source import read
from spark_jobs.progress import Meter
from spark_jobs.spark.database import DatabaseAddress

REASON = "The chain begins in the archive, so it was followed event by event."


def find_archived(
    archive: Archive,
    database: DatabaseAddress,
    history: History,
    question: ChainQuestion,
    tasks: int,
    meter: Meter,
) -> ChainResult:
    """The chain between two events of one trace, the earlier of which is archived."""
    first_id, last_id = sorted(question.ends)
    meter.enter("following", 2.0)
    span, quiet = _span(archive, database, first_id, last_id, question.via)
    chain = chain_of(span, question.via)
    ranges = ranges_of(span, chain)
    relation = Relation.before if question.ends[0] == first_id else Relation.after
    doubtful = None
    if not ranges and not leads(span, Via.any):
        relation = Relation.concurrent
        doubtful = _doubtful(archive, database, first_id, last_id)
    gaps = {gap.id: gap for gap in (*archive.gaps, *history.gaps(archive.trace, first_id, last_id))}
    return ChainResult(
        vhost=archive.vhost,
        relation=relation,
        form="followed",
        reason=REASON,
        gaps=[gap for gap in gaps.values() if gap.is_spanned(first_id, last_id)],
        doubtful=doubtful,
        candidates=_candidates(archive, database, last_id),
        soundness=_soundness(archive, history, first_id, last_id, quiet),
        caused=leads(span, Via.links),
        ranges=ranges,
        slices=list(_slices(archive, span, chain, ranges, tasks)),
        names=lambda: _names(archive, history, ranges),
        heights=lambda: _heights(archive, history, span, chain, ranges),
        check=lambda: None,
    )


def _soundness(
    archive: Archive, history: History, first_id: int, last_id: int, quiet: int
) -> Soundness:
    """From the store, and from when it was archived: since then participants may have gone."""
    stored = history.assumed_participants(archive.trace, first_id, last_id)
    archived = [
        participant for participant in archive.assumed if participant.is_within(first_id, last_id)
    ]
    assumed = {participant.number: participant for participant in (*archived, *stored)}
    misfit = history.misfit(archive.trace) or archive.misfit
    uninformed = {
        participant.number: participant
        for participant in (
            *archive.missing,
            *history.split_participants(archive.trace, first_id, last_id),
        )
        if participant.is_within(first_id, last_id)
    }
    links = history.missed_links(archive.trace, [*uninformed.values()])
    late = archive.late_links(first_id, last_id)
    late |= history.late_links(archive.trace, first_id, last_id)  # some found since
    late_count = Late(archive.vhost, min(len(late), MOST_LATE))
    doubts = doubts_of([*assumed.values()], misfit, [*uninformed.values()], links, late_count)
    return Soundness(doubts, min(quiet, MOST_QUIET))


def _span(
    archive: Archive, database: DatabaseAddress, first_id: int, last_id: int, via: Via
) -> tuple[SpanColumns, int]:
    """Everything from the first event to the last, from the archive and then from the store.

    And how many of these events are of quiet traffic.
    """
    return span_of(_read(archive, database, columns_for(via), first_id, last_id), via)


def _doubtful(
    archive: Archive, database: DatabaseAddress, first_id: int, last_id: int
) -> str | None:
    """Explain why two concurrent events may be in an order after all."""
    columns = (*DoubtfulDelivery._fields, "doubtful", "quiet")
    batches = _read(archive, database, columns, first_id + 1, last_id)
    doubtful = (
        DoubtfulDelivery(*[row[name] for name in DoubtfulDelivery._fields])
        for batch in batches
        for row in batch.filter(
            pc.and_not(batch.column("doubtful").fill_null(False), batch.column("quiet"))
        ).to_pylist()
    )
    span = DoubtfulSpan([*islice(doubtful, MOST_DOUBTFUL)])
    last = _read(archive, database, ("id", "clock"), last_id, last_id)
    [clock] = [clock_bytes for batch in last for clock_bytes in batch.column("clock").to_pylist()]
    return span.doubt(first_id, last_id, clock)


def _candidates(archive: Archive, database: DatabaseAddress, event_id: int) -> int | None:
    batches = _read(archive, database, ("id", "candidates"), event_id, event_id)
    return next(
        (count for batch in batches for count in batch.column("candidates").to_pylist()), None
    )


def _read(
    archive: Archive,
    database: DatabaseAddress,
    columns: Sequence[str],
    first_id: int,
    last_id: int,
) -> Iterator[pa.RecordBatch]:
    """Columns of all events from one to another, from the archive and then from the store."""
    yield from archive.read(columns, first_id, min(last_id, archive.through))
    if last_id > archive.through:
        first = max(first_id, archive.through + 1)
        yield from read(database, columns, Slice(archive.trace, first, last_id))


def _slices(
    archive: Archive, span: SpanColumns, chain: Flags, ranges: Sequence[Range], tasks: int
) -> Iterator[Slice]:
    """Slices of the chain, none of which crosses the archive's end."""
    ids = span.ids[chain]
    if not len(ids):
        return
    participants, heights = span.participants[chain], span.heights[chain]
    arrays = Ranges.from_ranges(ranges)
    rows = rows_per_slice(archive.row_bytes, len(ids), tasks)
    archived = int(np.searchsorted(ids, archive.through, "right"))
    for begin, end in ((0, archived), (archived, len(ids))):
        for start in range(begin, end, rows):
            part = slice(start, min(start + rows, end))
            yield Slice(
                archive.trace,
                int(ids[part][0]),
                int(ids[part][-1]),
                parts_of_ranges(arrays, ids[part], participants[part], heights[part]),
                archive=archive,
            )


def _names(
    archive: Archive, history: History, ranges: Sequence[Range]
) -> Mapping[int, tuple[str, str]]:
    """Names and intervals from the store, or from events for those no longer stored."""
    names = dict(history.names(archive.trace, numbers_of(ranges)))
    first_ids = [run.first_id for run in ranges if run.participant not in names]
    rows = archive.lookup(("participant", "participant_name", "interval"), first_ids).values()
    return names | {row["participant"]: (row["participant_name"], row["interval"]) for row in rows}


def _heights(
    archive: Archive, history: History, span: SpanColumns, chain: Flags, ranges: Sequence[Range]
) -> dict[int, Longs]:
    numbers = numbers_of(ranges)
    if len(history.names(archive.trace, numbers)) < len(numbers):
        # Their intervals went back to the pool: to others, or to the base that all clocks know.
        raise JobError(
            Problem.bad_request,
            "Participants of this chain are not stored any more, so clocks no longer tell what"
            " was known of them, and it has no vector clocks. Ask for another format.",
        )
    return by_participant(numbers, span.participants[chain], span.heights[chain])
