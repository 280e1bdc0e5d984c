"""The chain job: plan, read and render in executors, write one file.

The service runs it in its warm worker. It needs no service: ``spark-submit spark_jobs/chain.py
--from 12 --to 40 --output chain.jsonl`` with the store's address in ``ITC_DATABASE_URL`` does the
same.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

if __name__ == "__main__":  # spark-submit puts this file's folder on the path, not the package's
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from spark_jobs.database import Database
from spark_jobs.errors import JobError, Problem
from spark_jobs.executors import rendered, scan, tasks_at_a_time
from spark_jobs.export import manifest_of, write_file, written_aside
from spark_jobs.formats import FORMATS, Format, format_of
from spark_jobs.formats.chain import Chain, Lane
from spark_jobs.formats.renderers import RENDERERS
from spark_jobs.history import History
from spark_jobs.plan import Form, Plan, make_plan
from spark_jobs.progress import Meter, Report, silent
from spark_jobs.ranges import Longs, Range, Ranges
from spark_jobs.session import SparkSettings, open_session, submitted_session
from spark_jobs.slices import Slice, cut

# A format with clocks holds one number an event; ShiViz itself gives up well before this.
CLOCKED_EVENTS = 200_000


@dataclass(frozen=True)
class ChainRequest:
    """The chain between two events of a store, as a file of one format."""

    database: Database
    from_id: int
    to_id: int
    output: Path
    format: Format
    form: Form | None = None


@dataclass
class Summary:
    """What came out. ``file`` is None where there is no chain between the two events."""

    vhost: str
    from_id: int
    to_id: int
    relation: str
    format: str
    plan: dict[str, str]
    gaps: list[dict[str, Any]]
    file: str | None = None
    events: int = 0
    participants: int = 0
    bytes: int = 0
    sha256: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The API's chain summary, but for what only the service knows."""
        values = asdict(self)
        ends = {"from": values.pop("from_id"), "to": values.pop("to_id")}
        return {**ends, **values, "complete": not self.gaps}


def run(spark: SparkSession, request: ChainRequest, report: Report = silent) -> Summary:
    """Find the chain and write it, with a manifest beside it.

    Args:
        spark: where to run.
        request: what to do.
        report: told of every step; raises to end the job.

    Returns:
        The summary. Where the events are concurrent nothing is written and ``file`` is None.

    Raises:
        JobError: and nothing is written.
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

    def run(self, history: History) -> Summary:
        request, meter = self._request, self._meter
        meter.enter("planning", 0.0)
        plan = make_plan(history, request.from_id, request.to_id, request.form)
        summary = self._summary(history, plan)
        if plan.is_empty:
            summary.seconds = self._watch.lap("plan")
            return summary
        ranges = plan.ranges
        if ranges is None:
            ranges = scan(self._spark, request.database, plan, meter)
        summary.events = sum(each.events for each in ranges)
        summary.participants = len(ranges)
        slices = cut(history, plan.start.trace, ranges, tasks_at_a_time(self._spark))
        chain = self._chain(history, plan, ranges, summary)
        self._watch.lap("plan")
        meter.enter("reading", 5.0)
        meter.expect(summary.events)
        self._write(history, plan, slices, chain, summary)
        return summary

    def _summary(self, history: History, plan: Plan) -> Summary:
        gaps = history.gaps(plan.start.trace, plan.start.id, plan.end.id)
        return Summary(
            vhost=plan.start.vhost,
            from_id=self._request.from_id,
            to_id=self._request.to_id,
            relation=plan.relation.value,
            format=self._request.format.name,
            plan={"form": plan.form, "reason": plan.reason},
            gaps=[gap.to_json() for gap in gaps],
        )

    def _chain(
        self, history: History, plan: Plan, ranges: Sequence[Range], summary: Summary
    ) -> Chain:
        """What the format wants to know beforehand."""
        known = summary.to_json()
        facts = {name: known[name] for name in FACTS}
        if not self._renderer.lanes:
            return Chain(facts)
        names = history.names(plan.start.trace, [each.participant for each in ranges])
        lanes = {
            each.participant: Lane(each.participant, *names[each.participant], each.low)
            for each in ranges
        }
        arrays = Ranges.of(ranges)
        return Chain(facts, arrays, lanes, self._heights(history, plan, arrays, summary.events))

    def _heights(
        self, history: History, plan: Plan, ranges: Ranges, events: int
    ) -> dict[int, Longs]:
        if not self._renderer.heights:
            return {}
        if events > CLOCKED_EVENTS:
            raise JobError(
                Problem.bad_request,
                f"The chain has {events} events and {self._request.format.extension} takes at"
                f" most {CLOCKED_EVENTS}; ask for .jsonl or .parquet, or for a shorter chain.",
            )
        _, participants, heights = history.members(plan.start.trace, ranges)
        return {number: heights[participants == number] for number in ranges.participants.tolist()}

    def _write(
        self,
        history: History,
        plan: Plan,
        slices: Sequence[Slice],
        chain: Chain,
        summary: Summary,
    ) -> None:
        request, meter = self._request, self._meter
        with written_aside(request.output) as file:
            chunks = rendered(self._spark, request.database, self._renderer, chain, slices, meter)
            self._renderer.write(file, chunks, chain)
            check_whole(history, plan, summary.events, meter.rows_written)
            summary.file, summary.bytes, summary.sha256 = (
                request.output.name,
                file.bytes,
                file.sha256,
            )
            summary.seconds = self._watch.lap("spark")
            manifest = {**summary.to_json(), "versions": versions()}
            write_file(manifest_of(request.output), json.dumps(manifest, indent=1).encode() + b"\n")
            meter.enter("finishing", 99.0)


# What formats may put into the file: known before the first event is read.
FACTS = ("from", "to", "vhost", "relation", "complete", "gaps")


class Stopwatch:
    """Seconds of a job's stages and of all of it."""

    def __init__(self) -> None:
        self._began = self._last = time.monotonic()
        self._laps: dict[str, float] = {}

    def lap(self, stage: str) -> dict[str, float]:
        """A stage ended; returns what is known so far."""
        now = time.monotonic()
        self._laps[stage] = round(now - self._last, 3)
        self._last = now
        return {**self._laps, "total": round(now - self._began, 3)}


def check_whole(history: History, plan: Plan, expected: int, written: int) -> None:
    """Raise JobError unless the store still had every event of the chain when it was read.

    Retention takes the smallest ids first, so where the first event still is, all were.
    """
    if not history.exists(plan.start.id):
        raise JobError(
            Problem.not_found,
            f"Event {plan.start.id} was pruned while its chain was read, so nothing was written;"
            " choose a later event.",
        )
    if written != expected:
        raise JobError(
            Problem.failed,
            f"The chain has {expected} events by their numbers, and {written} of them could be"
            " read: the store is half-written or damaged. Nothing was written.",
        )


def versions() -> dict[str, str]:
    """What made an export."""
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


# Exit codes of the job on its own: those of `rabbitmq-itc chain`.
EXIT_CODES = {
    Problem.bad_request: 2,
    Problem.not_found: 4,
    Problem.outage: 5,
    Problem.cancelled: 6,
    Problem.failed: 1,
}
CONCURRENT = 3


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
    parser.add_argument("--form", choices=("ranges", "scan"), help="default: the cheaper")
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
    print(json.dumps(summary.to_json()))
    return 0 if summary.file else CONCURRENT


def _request(options: argparse.Namespace) -> ChainRequest:
    if not options.database_url:
        raise JobError(Problem.bad_request, "Which store? Set ITC_DATABASE_URL.")
    chosen = FORMATS[options.format] if options.format else format_of(options.output.name)
    if chosen is None:
        known = " ".join(each.extension for each in FORMATS.values())
        raise JobError(Problem.bad_request, f"No format writes that file; there are {known}.")
    database = Database.from_url(options.database_url)
    return ChainRequest(
        database, options.from_id, options.to_id, options.output, chosen, options.form
    )


if __name__ == "__main__":
    sys.exit(main())
