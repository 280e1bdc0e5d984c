"""The chain job: plan, read and render in executors, write one file.

The service runs it in its warm worker. It also works without the service, with the store's address
in ``ITC_DATABASE_URL``:

    spark-submit spark_jobs/chain.py --from 12 --to 40 --output chain.jsonl
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby, pairwise
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

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
from spark_jobs.archive.reader import Archive
from spark_jobs.chains.archived_search import find_archived
from spark_jobs.chains.executors import rendered, tasks_at_a_time
from spark_jobs.chains.history import History
from spark_jobs.chains.plan import Form
from spark_jobs.chains.ranges import Longs, Range, Ranges
from spark_jobs.chains.search import ChainQuestion, ChainResult, find_stored
from spark_jobs.errors import JobError
from spark_jobs.export import write_file, written_aside
from spark_jobs.formats.chain import Chain, DiagramLane
from spark_jobs.formats.renderers import RENDERERS
from spark_jobs.progress import Meter, Report, silent
from spark_jobs.spark.database import DatabaseAddress
from spark_jobs.spark.session import SparkSettings, open_session, submitted_session

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
        found = self._find(history)
        summary = self._summary(found)
        if not found.ranges:
            found.check()
            return replace(summary, seconds=self._watch.lap("plan"))
        chain = self._chain(found, summary)
        self._watch.lap("plan")
        self._meter.enter("reading", 5.0)
        self._meter.expect(found.events)
        return self._written(found, chain, summary)

    def _find(self, history: History) -> ChainResult:
        request = self._request
        ends = request.from_id, request.to_id
        wanted = ChainQuestion(ends, request.via, request.form)
        archive = request.archives and _archive_of(request.archives, history, ends)
        if archive:
            tasks = tasks_at_a_time(self._spark)
            return find_archived(archive, request.database, history, wanted, tasks, self._meter)
        return find_stored(self._spark, request.database, history, wanted, self._meter)

    def _summary(self, found: ChainResult) -> ChainSummary:
        said = said_of_chain(self._request, found)
        return ChainSummary(
            vhost=found.vhost,
            from_id=self._request.from_id,
            to_id=self._request.to_id,
            via=self._request.via,
            relation=found.relation,
            answer=said.answer,
            sentence=said.sentence,
            format=self._request.format.name,
            plan=ChainPlan(found.form, found.reason),
            gaps=found.gaps,
            soundness=found.soundness,
            events=found.events,
            participants=len(found.participants),
            seconds={},
        )

    def _chain(self, found: ChainResult, summary: ChainSummary) -> Chain:
        """The facts that the format needs to know beforehand."""
        facts = json_as(ChainFacts, summary)
        if not self._renderer.lanes:
            return Chain(facts)
        names = found.names()
        lanes = {
            number: DiagramLane(number, *names[number], *_begins(runs))
            for number, runs in groupby(found.ranges, key=lambda each: each.participant)
        }
        return Chain(facts, Ranges.of(found.ranges), lanes, self._heights(found))

    def _heights(self, found: ChainResult) -> dict[int, Longs]:
        if not self._renderer.heights:
            return {}
        if found.events > CLOCKED_EVENTS:
            raise JobError(
                Problem.bad_request,
                f"The chain has {found.events} events and {self._request.format.extension} takes"
                f" at most {CLOCKED_EVENTS}; ask for .jsonl or .parquet, or for a shorter chain.",
            )
        return found.heights()

    def _written(self, found: ChainResult, chain: Chain, summary: ChainSummary) -> ChainSummary:
        output, database, meter = self._request.output, self._request.database, self._meter
        with written_aside(output, self._request.quota) as file:
            chunks = rendered(self._spark, database, self._renderer, chain, found.slices, meter)
            self._renderer.write(file, chunks, chain)
            check_whole(found, meter.rows_written)
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


def said_of_chain(request: ChainRequest, found: ChainResult) -> Statement:
    """The sentence for the two events that a chain was asked for between."""
    ends, relation = (request.from_id, request.to_id), found.relation
    how = "by messages and links" if found.caused else None
    said = statement_of(
        *ends,
        relation,
        how,
        complete=not found.gaps,
        sound=not found.soundness.doubts,
        doubtful=found.doubtful,
        candidates=found.candidates,
    )
    if relation in IN_ORDER and not found.ranges:
        sentence = not_evident(*ends, relation, request.via)
        return said._replace(sentence=sentence + equals(max(ends), found.candidates, said.answer))
    return said


def _begins(runs: Iterable[Range]) -> tuple[int, dict[int, int]]:
    """The height of a lane's first event; at those of later runs, the seq of the event before."""
    first, *later = runs
    return first.low, {run.low: last.last_seq for last, run in pairwise([first, *later])}


def _archive_of(root: Path, history: History, ends: tuple[int, int]) -> Archive | None:
    """The archive that the chain begins in; None if the store has all of it.

    Raises JobError for an event that is in neither, and for events of two virtual hosts.
    """
    first_id, last_id = sorted(ends)
    if first_id == last_id or history.find(first_id):
        return None  # if the other is missing, the planner says so
    archive = Archive.holding(root, first_id)
    if archive is None:
        return None
    archive.check_of(history, archive.trace)
    last = history.find(last_id)
    if last is None and not archive.has(last_id):
        other = Archive.holding(root, last_id)
        if other is None:
            raise JobError(Problem.not_found, f"There is no event {last_id}, archived or not.")
        last = other.trace, other.vhost
    if last is not None and last[0] != archive.trace:
        raise JobError(
            Problem.bad_request,
            f"Event {first_id} is of virtual host {archive.vhost} and event {last_id} of"
            f" {last[1]}: a chain lies within one.",
        )
    return archive


class Stopwatch:
    """Seconds that a job's stages took, and the whole job."""

    def __init__(self) -> None:
        self._began = self._last = time.monotonic()
        self._laps: dict[str, float] = {}

    def lap(self, stage: str) -> dict[str, float]:
        """End a stage; returns the times known so far."""
        now = time.monotonic()
        self._laps[stage] = round(now - self._last, 3)
        self._last = now
        return {**self._laps, "total": round(now - self._began, 3)}


def check_whole(found: ChainResult, written: int) -> None:
    """Raise JobError unless every event of the chain was still there when it was read."""
    found.check()
    if written != found.events:
        raise JobError(
            Problem.failed,
            f"The chain has {found.events} events by their numbers, and {written} of them could be"
            " read: the store is half-written or damaged. Nothing was written.",
        )


def versions() -> dict[str, str]:
    """The versions of what wrote an export."""
    try:
        own = version("rabbitmq-itc")
    except PackageNotFoundError:  # run from a folder, as on a cluster's driver
        own = "unknown"
    return {
        "rabbitmq-itc": own,
        "python": platform.python_version(),
        "pyspark": pyspark.__version__,
        "pyarrow": pa.__version__,
    }


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
        "--via", choices=[each.value for each in Via], default=Via.any.value, help="along what"
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
        spark = submitted_session() or SparkSession.getActiveSession() or open_session(settings)
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
    chosen = FORMATS[options.format] if options.format else format_of(options.output.name)
    if chosen is None:
        known = " ".join(each.extension for each in FORMATS.values())
        raise JobError(Problem.bad_request, f"No format writes that file; there are {known}.")
    database = DatabaseAddress.from_url(options.database_url)
    return ChainRequest(
        database=database,
        from_id=options.from_id,
        to_id=options.to_id,
        output=options.output,
        format=chosen,
        form=options.form,
        archives=options.archives,
        via=Via(options.via),
    )


if __name__ == "__main__":
    sys.exit(main())
