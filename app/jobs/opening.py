"""Opens the jobs of a service, and the folders that they write to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from app.jobs.children import SpanJobs
from app.jobs.exports import SPANS, Exports, PeriodFiles, TouchedFiles
from app.jobs.folders import Archives
from app.jobs.manager import JobManager, JobRunner
from app.jobs.process import SparkProcess
from app.jobs.reports import Reports, Topologies
from app.jobs.restamp import KIND as RESTAMP
from app.jobs.restamp import Pause, RestampProcess
from app.stored.jobs import Json
from model.exports import Quota

if TYPE_CHECKING:
    from app.settings import Settings
    from app.store.jobs import Jobs


class Folders(NamedTuple):
    """The folders that jobs write to."""

    exports: Exports
    touched: TouchedFiles
    periods: PeriodFiles
    topologies: Topologies
    reports: Reports
    archives: Archives


def open_folders(settings: Settings, *, quota: Quota | None = None) -> Folders:
    quota = quota or Quota(settings.exports_max_bytes)
    data = settings.data_dir.absolute()
    return Folders(
        Exports(settings.exports, settings.archives, quota),
        TouchedFiles(settings.exports, quota, settings.signing_key_file),
        PeriodFiles(settings.exports, quota, can_send=settings.collector is not None),
        Topologies(data / "topologies"),
        Reports(data / "reports"),
        Archives(settings.archives),
    )


def open_jobs(
    settings: Settings, store: Jobs, pause: Pause, archives: Archives, link_rules: Sequence[Json]
) -> JobManager:
    """The queue of jobs, and what runs them; ``link_rules`` are of all virtual hosts."""
    portable = msgspec.json.encode(settings.portable())
    others: dict[str, JobRunner] = {
        RESTAMP: RestampProcess(portable, pause, archives, link_rules=link_rules),
        SPANS: SpanJobs(portable),
    }
    remote, secret = settings.spark_remote, settings.spark_secret
    spark = SparkProcess(
        settings.database.reveal(),
        master=settings.spark_master,
        remote=remote.reveal() if remote else None,
        memory=settings.spark_memory,
        secret=secret.get_secret_value() if secret else None,
    )
    return JobManager(store, spark, others=others, start_spark=settings.spark_at_boot)
