"""A request for a job: its kind, what the API shows of it, what the worker needs for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from app.errors import BadRequestError
from app.stored.jobs import Json
from model.jobs import Progress

Report: TypeAlias = Callable[[Progress], None]
"""A runner calls it with the progress of a job."""


def times_of(period: tuple[int, int], what: str) -> Json:
    """A period as a job's request has it (µs); raises `BadRequestError` for an invalid one."""
    since, until = period
    if not 0 <= since < until:
        raise BadRequestError(f"{what} needs a time: since must be before until")
    return {"since": since, "until": until}


class JobRequest(msgspec.Struct, frozen=True):
    """A job that somebody asks for.

    Attributes:
        kind: ``chain``, ``touched``, ``topology``, ``report``, ``period``, ``archive`` or
            ``restamp``; the runner's part for it runs it.
        vhost: whose events it is about; decides who may see it.
        owner: the user who asks; waiting jobs are taken in turns between users.
        shown: the request as ``GET /itc_db/jobs`` shows it. Two requests of one kind that show
        the same are the same request.
        work: what the worker gets.
        location: where the API serves the file, if there is one.
        is_alone: whether it is refused while its virtual host has another of its kind.
    """

    kind: str
    vhost: str
    owner: str
    shown: Json
    work: Json
    location: str | None = None
    is_alone: bool = False

    def finished(self, job_id: int, result: Json) -> Json:
        finished = {"job": job_id, **result}
        if "file" in result:
            finished["location"] = self.location if result["file"] else None
        return finished

    @property
    def key(self) -> bytes:
        return msgspec.json.encode([self.kind, self.vhost, self.shown], order="sorted")
