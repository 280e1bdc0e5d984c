"""The chain job: plan, read and render in executors, write one file.

The service runs it in its warm worker. It also works without the service, with the store's address
in ``ITC_DATABASE_URL``:

    spark-submit spark_jobs/chain.py --from 12 --to 40 --output chain.jsonl
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import get_args

from pyspark.sql import SparkSession

from spark_jobs.progress import Stopwatch
from spark_jobs.spark.versions import versions

if __name__ == "__main__":  # spark-submit puts this file's folder on the path, not the package's
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from model.answers import IN_ORDER, Statement, equals, not_evident, statement_of
from model.described import json_as, json_of
from model.exports import (
    FORMATS,
    ChainFacts,
    ChainPlan,
    ChainSummary,
    Format,
    Quota,
    format_of,
    manifest_of,
)
from model.jobs import Problem
from model.words import Via
from spark_jobs.chains.archived_search import find_archived
from spark_jobs.chains.plan import Form
from spark_jobs.chains.search import ChainQuestion, ChainResult
from spark_jobs.chains.search_job import find_stored
from spark_jobs.errors import JobError
from spark_jobs.events.archive import Archive
from spark_jobs.events.history import History
from spark_jobs.events.ranges import Longs, Range, Ranges
from spark_jobs.events.slices_job import tasks_at_a_time
from spark_jobs.export import open_whole, write_file
from spark_jobs.formats import RENDERERS
from spark_jobs.formats.renderer import Chain, DiagramLane
from spark_jobs.formats.renderer_job import render_slices
from spark_jobs.progress import Meter, Report, silent
from spark_jobs.spark.database import DatabaseAddress
from spark_jobs.spark.session import SparkSettings, open_session, session_of_submit

# A format with clocks holds a number per event; ShiViz itself gives up well before this.
CLOCKED_EVENTS = 200_000


@dataclass(frozen=True)
class ChainRequest:
    """The chain between two events of a store, as a file of one format.

    ``archives`` is the folder of archives to look into for events that the store has no more,
    ``quota`` how much all exports beside this one may take together with it.
    """

    database: DatabaseAddress
    from_id: int
    to_id: int
    output: Path
    format: Format
    form: Form | None = None
    archives: Path | None = None
    quota: Quota | None = None
    via: Via = Via.any


def run(spark: SparkSession, request: ChainRequest, report: Report = silent) -> ChainSummary:
    """Find the chain and write it, with a manifest beside it.

    If there is no chain, nothing is written and the summary's ``file`` is None.
    ``report`` is called at every step; what it raises ends the job. Raises `JobError`, and then
    nothing is written either.
    """
    job = _Job(spark, request, Meter(report))
    with request.database.connect() as connection:
        return job.run(History(connection))


class _Job:
    """One run, with the times of its stages."""

    def __init__(self, spark: SparkSession, request: ChainRequest, meter: Meter) -> None:
        self._spark = spark
        self._request = request
        self._meter = meter
        self._renderer = RENDERERS[request.format.name]
        self._watch = Stopwatch()

    def run(self, history: History) -> ChainSummary:
        self._meter.enter("planning", 0.0)
        result = self._find(history)
        summary = self._summary(result)
        if not result.ranges:
            result.check()
            return replace(summary, seconds=self._watch.lap("plan"))
        chain = self._chain(result, summary)
        self._watch.lap("plan")
        self._meter.enter("reading", 5.0)
        self._meter.expect(result.events)
        return self._write(result, chain, summary)

    def _find(self, history: History) -> ChainResult:
        request = self._request
        ends = request.from_id, request.to_id
        question = ChainQuestion(ends, request.via, request.form)
        archive = request.archives and _archive_of(request.archives, history, ends)
        if archive:
            tasks = tasks_at_a_time(self._spark)
            return find_archived(archive, request.database, history, question, tasks, self._meter)
        return find_stored(self._spark, request.database, history, question, self._meter)

    def _summary(self, result: ChainResult) -> ChainSummary:
        statement = chain_statement(self._request, result)
        return ChainSummary(
            vhost=result.vhost,
            from_id=self._request.from_id,
            to_id=self._request.to_id,
            via=self._request.via,
            relation=result.relation,
            answer=statement.answer,
            sentence=statement.sentence,
            format=self._request.format.name,
            plan=ChainPlan(result.form, result.reason),
            gaps=result.gaps,
            soundness=result.soundness,
            events=result.events,
            participants=len(result.participants),
            seconds={},
        )

    def _chain(self, result: ChainResult, summary: ChainSummary) -> Chain:
        """The facts that the format needs to know beforehand."""
        facts = json_as(ChainFacts, summary)
        if not self._renderer.lanes:
            return Chain(facts)
        names = result.names()
        lanes = {
            number: DiagramLane(number, *names[number], *_begins(runs))
            for number, runs in groupby(result.ranges, key=lambda run: run.participant)
        }
        return Chain(facts, Ranges.from_ranges(result.ranges), lanes, self._heights(result))

    def _heights(self, result: ChainResult) -> dict[int, Longs]:
        if not self._renderer.heights:
            return {}
        if result.events > CLOCKED_EVENTS:
            raise JobError(
                Problem.bad_request,
                f"The chain has {result.events} events and {self._request.format.extension} takes"
                f" at most {CLOCKED_EVENTS}; ask for .jsonl or .parquet, or for a shorter chain.",
            )
        return result.heights()

    def _write(self, result: ChainResult, chain: Chain, summary: ChainSummary) -> ChainSummary:
        output, database, meter = self._request.output, self._request.database, self._meter
        with open_whole(output, self._request.quota) as file:
            chunks = render_slices(
                self._spark, database, self._renderer, chain, result.slices, meter
            )
            self._renderer.write(file, chunks, chain)
            check_whole(result, meter.rows_written)
            summary = replace(
                summary,
                file=output.name,
                bytes=file.bytes,
                sha256=file.sha256,
                seconds=self._watch.lap("spark"),
            )
            manifest = {**json_of(summary), "versions": versions()}
            write_file(manifest_of(output), json.dumps(manifest, indent=1).encode() + b"\n")
            meter.enter("finishing", 99.0)
        return summary


def chain_statement(request: ChainRequest, result: ChainResult) -> Statement:
    """The sentence for the two events that a chain was asked for between."""
    ends, relation = (request.from_id, request.to_id), result.relation
    evidence = "by messages and links" if result.caused else None
    statement = statement_of(
        *ends,
        relation,
        evidence,
        complete=not result.gaps,
        sound=not result.soundness.doubts,
        doubtful=result.doubtful,
        candidates=result.candidates,
    )
    if relation in IN_ORDER and not result.ranges:
        sentence = not_evident(*ends, relation, request.via)
        return statement._replace(
            sentence=sentence + equals(max(ends), result.candidates, statement.answer)
        )
    return statement


def _begins(runs: Iterable[Range]) -> tuple[int, dict[int, int]]:
    """The height of a lane's first event; at those of later runs, the seq of the event before."""
    first, *rest = runs
    return first.low, {run.low: last.last_seq for last, run in pairwise([first, *rest])}


def _archive_of(root: Path, history: History, ends: tuple[int, int]) -> Archive | None:
    """The archive that the chain begins in; None if the store has all of it.

    Raises JobError for an event that is in neither, and for events of two virtual hosts.
    """
    first_id, last_id = sorted(ends)
    if first_id == last_id or history.find(first_id):
        return None  # if the other is missing, the planner says so
    archive = Archive.find(root, first_id)
    if archive is None:
        return None
    archive.check_of(history, archive.trace)
    last = history.find(last_id)
    if last is None and not archive.holds(last_id):
        last_archive = Archive.find(root, last_id)
        if last_archive is None:
            raise JobError(Problem.not_found, f"There is no event {last_id}, archived or not.")
        last = last_archive.trace, last_archive.vhost
    if last is not None and last[0] != archive.trace:
        raise JobError(
            Problem.bad_request,
            f"Event {first_id} is of virtual host {archive.vhost} and event {last_id} of"
            f" {last[1]}: a chain lies within one.",
        )
    return archive


def check_whole(result: ChainResult, count: int) -> None:
    """Raise JobError unless every event of the chain was still there when it was read."""
    result.check()
    if count != result.events:
        raise JobError(
            Problem.failed,
            f"The chain has {result.events} events by their numbers, and {count} of them could be"
            " read: the store is half-written or damaged. Nothing was written.",
        )


# Exit codes of the job on its own: the same as those of `rabbitmq-itc chain`.
EXIT_CODES = {
    Problem.bad_request: 2,
    Problem.not_found: 4,
    Problem.outage: 6,
    Problem.full: 1,
    Problem.cancelled: 1,
    Problem.failed: 1,
}
NO_CHAIN, UNDECIDED = 3, 9


def arguments() -> argparse.ArgumentParser:
    """The command line of the job on its own."""
    parser = argparse.ArgumentParser(description="Export the chain between two events.")
    parser.add_argument(
        "--database-url",
        default=os.environ.get("ITC_DATABASE_URL"),
        help="the store; better in ITC_DATABASE_URL, where no list of processes shows it",
    )
    parser.add_argument("--from", dest="from_id", type=int, required=True, help="an event's id")
    parser.add_argument("--to", dest="to_id", type=int, required=True, help="another's")
    parser.add_argument("--output", type=Path, required=True, help="file to write")
    parser.add_argument("--format", choices=FORMATS, help="default: by the file's extension")
    parser.add_argument(
        "--via", choices=[way.value for way in Via], default=Via.any.value, help="along what"
    )
    parser.add_argument("--form", choices=get_args(Form), help="default: the cheapest that fits")
    parser.add_argument("--archives", type=Path, help="folder of archives to look into as well")
    parser.add_argument("--master", default=os.environ.get("ITC_SPARK_MASTER", "local[*]"))
    parser.add_argument("--remote", default=os.environ.get("ITC_SPARK_REMOTE"))
    parser.add_argument("--memory", default=os.environ.get("ITC_SPARK_MEMORY", "1g"))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one job and print its summary as JSON; returns the exit code."""
    options = arguments().parse_args(argv)
    try:
        request = _request(options)
        settings = SparkSettings(options.master, options.remote, options.memory)
        spark = session_of_submit() or SparkSession.getActiveSession() or open_session(settings)
        summary = run(spark, request)
    except JobError as error:
        print(error, file=sys.stderr)
        return EXIT_CODES[error.problem]
    print(json.dumps(json_of(summary)))
    if summary.file:
        return 0
    return UNDECIDED if summary.answer == "unknown" else NO_CHAIN


def _request(options: argparse.Namespace) -> ChainRequest:
    if not options.database_url:
        raise JobError(Problem.bad_request, "Which store? Set ITC_DATABASE_URL.")
    format_chosen = FORMATS[options.format] if options.format else format_of(options.output.name)
    if format_chosen is None:
        extensions = " ".join(form.extension for form in FORMATS.values())
        raise JobError(Problem.bad_request, f"No format writes that file; there are {extensions}.")
    database = DatabaseAddress.from_url(options.database_url)
    return ChainRequest(
        database=database,
        from_id=options.from_id,
        to_id=options.to_id,
        output=options.output,
        format=format_chosen,
        form=options.form,
        archives=options.archives,
        via=Via(options.via),
    )


if __name__ == "__main__":
    sys.exit(main())
