"""Documents that jobs make of periods: reports and topologies.

A report's facts are written last, so a listed report is whole.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import ClassVar

import msgspec

from app.errors import NotFoundError
from app.jobs.folders import folder_of, newest_first, times_of
from app.stored.jobs import JobRequest, Json
from model.remaining import Norm
from model.times import Microseconds, microseconds_of


class ReportKind(enum.StrEnum):
    """The subject of a report."""

    assertions = "assertions"
    correlations = "correlations"
    expectations = "expectations"
    comparison = "comparison"


MOST_DOCUMENTS = 100  # of a virtual host, the newest


class Documents:
    """JSON documents of virtual hosts, under one folder.

    The newest `MOST_DOCUMENTS` with ``listed`` names are kept, with the files ``beside`` them.
    """

    listed: ClassVar[str]
    beside: ClassVar[tuple[str, ...]] = ()

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, vhost: str, name: str) -> Path:
        return self.folder / folder_of(vhost) / name

    def newest_first(self, pattern: str, vhost: str | None = None) -> list[Path]:
        folder = "*" if vhost is None else folder_of(vhost)
        return [path for path, _ in newest_first(self.folder.glob(f"{folder}/{pattern}"))]

    def read(self, paths: Iterable[Path]) -> Iterator[Json]:
        """The content of documents; those that were removed just now are left out."""
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                yield msgspec.json.decode(path.read_bytes())

    def forget_old(self, vhost: str) -> None:
        for path in self.newest_first(self.listed, vhost)[MOST_DOCUMENTS:]:
            for file in (path, *map(path.with_suffix, self.beside)):
                file.unlink(missing_ok=True)


class Reports(Documents):
    """The reports under one folder."""

    listed = "*.facts"
    beside = (".json",)

    def request(
        self, kind: ReportKind, vhost: str, since: int, until: int, owner: str, asked: Json
    ) -> JobRequest:
        """The job that makes a report of a period, from ``since`` to before ``until`` (µs).

        ``asked`` are the other fields of the kind. Raises `BadRequestError` for an invalid period.
        """
        times = times_of((since, until), "a report")
        period: Json = {"report": kind.value, "vhost": vhost, **times}
        fields = {**period, **asked}
        report_id = hashlib.sha256(msgspec.json.encode(fields)).hexdigest()[:16]
        output = str(self.path(vhost, f"{report_id}.json"))
        work = {**period, "asked": asked, "id": report_id, "output": output}
        return JobRequest("report", vhost, owner, fields, work)

    def get(self, report_id: str) -> Json:
        for report in self.read(self.newest_first(f"{report_id}.json")):
            return report
        raise NotFoundError("no such report")

    def norms(self, vhost: str) -> tuple[list[Norm], Microseconds]:
        """The norms that were learnt last of a virtual host, and the end of their period.

        None, and 0, where no report on expectations was made.
        """
        for facts in self.read(self.newest_first("*.facts", vhost)):
            if facts["report"] == ReportKind.expectations:
                for report in self.read([self.path(vhost, f"{facts['id']}.json")]):
                    until = datetime.fromisoformat(report["until"])
                    return [*_norms_in(report)], microseconds_of(until)
        return [], Microseconds(0)

    def newest(self) -> list[Json]:
        return [*self.read(self.newest_first("*.facts"))]


def _norms_in(report: Json) -> Iterator[Norm]:
    """The effects that nearly always came, of enough cases."""
    for learnt in report["types"]:
        for effect in learnt["leads_to"]:
            if effect["share"] >= report["share"] and effect["cases"] >= report["cases"]:
                slow_from = effect["within"]["slow_from"]
                limit = None if slow_from is None else round(slow_from * 1e6)
                yield Norm(learnt["type"], effect["type"], limit)


class Topologies(Documents):
    """The topologies under one folder: who sent what where, one for each period."""

    listed = "*.json"

    def request(self, vhost: str, since: int, until: int, owner: str) -> JobRequest:
        """The job that counts the flows from ``since`` to before ``until`` (µs).

        Raises `BadRequestError` for an invalid period.
        """
        request: Json = {"vhost": vhost, **times_of((since, until), "a topology")}
        work = {**request, "output": str(self.path(vhost, f"{since}-{until}.json"))}
        return JobRequest("topology", vhost, owner, request, work)

    def get(self, vhost: str, since: int | None = None, until: int | None = None) -> Json:
        """The topology of a period, or the one counted last; raises `NotFoundError`."""
        ends = ["*" if end is None else f"{end}" for end in (since, until)]
        for topology in self.read(self.newest_first(f"{'-'.join(ends)}.json", vhost)):
            return topology
        raise NotFoundError(f"no topology of {vhost} was counted for that time")
