"""Words between the service and its Spark process about a job."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated


class Problem(enum.StrEnum):
    """The side that has to act when a job cannot go on: the caller, the operator, or just us."""

    bad_request = "bad_request"  # the request is invalid: equal ids, two virtual hosts
    not_found = "not_found"  # an id that is not, or no longer, in the store
    outage = "outage"  # the database, the cluster, Java or the disk is away
    full = "full"  # the exports take all that they may
    cancelled = "cancelled"  # someone asked for the end of this job
    failed = "failed"  # anything else


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a running job.

    ``percent`` is of the whole job; the rows are those read from the store and those written.
    """

    stage: str
    percent: float
    rows_read: int = 0
    rows_written: int = 0


@dataclass(frozen=True, slots=True)
class OfJob:
    """The job that an answer is of, and how long it took."""

    job: int
    seconds: Annotated[dict[str, float], "That it waited, and that its stages took."]


@dataclass(frozen=True, slots=True)
class Served(OfJob):
    """The job that a file is of, and where the file is served."""

    location: Annotated[str | None, "`null` where there is no file."]
