"""Running a job for a client, which waits for it as long as it prefers."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable
from typing import Annotated, NamedTuple, TypeVar

from fastapi import Depends, Header, Request, Response

from app.api.described import answer_of, json_answer
from app.api.openapi import LOCATION, WRITING, answers, example, link
from app.api.parameters import cap_wait
from app.api.problems import FailedJobError
from app.api.rights import while_allowed
from app.api.services import Parts
from app.api.signin.auth import User, Writer
from app.errors import ConflictError
from app.jobs.folders import ManifestedFiles
from app.jobs.reports import Documents
from app.stored.jobs import FINAL, Job, JobRequest, JobState, Json

S = TypeVar("S")

_Prefer = Annotated[
    str | None,
    Header(
        description="`respond-async` answers at once with the job, `wait=N` after N seconds.",
        openapi_examples=example("respond-async"),
    ),
]

_LOOK_SECONDS = 1.0  # between two checks of the rights of a waiting client
_SECONDS = re.compile(r"[0-9]{1,9}")


class Preference(NamedTuple):
    """The time that a client waits, and what ``Preference-Applied`` says about it."""

    seconds: float
    applied: str


# For a route's ``responses``: what a job adds, such as the answer to a client that does not wait.
JOB_ANSWERS = (
    WRITING
    | answers(500, 501)
    | {
        202: answer_of(
            Job,
            description="It takes longer than the client waits for.",
            headers=LOCATION,
            links=link("get_job", job_id="$response.body#/id")
            | link("follow_job", job_id="$response.body#/id")
            | link("cancel_job", job_id="$response.body#/id"),
        )
    }
)
OF_JOB = link("get_job", job_id="$response.body#/job")


class Asker(NamedTuple):
    """A client that asks for a job, and waits for its end as long as it prefers."""

    user: User
    parts: Parts
    request: Request
    prefer: str | None

    async def check_room(
        self, request: JobRequest, folder: ManifestedFiles[S], subject: S, file: str
    ) -> None:
        """Raise `QuotaError` if there is no room for a job's file that no job is making."""
        if self.parts.jobs.find_live(request) is None:
            await asyncio.to_thread(folder.check_room, subject, file)

    async def submit(
        self,
        request: JobRequest,
        documents: Documents | None = None,
        read: Callable[[Json], Json] = lambda result: result,
        *,
        is_new: Callable[[Json], object] = lambda result: True,
        early_result: Json | None = None,
    ) -> Response:
        """Submit a job and wait; returns its result, or 202 with the job.

        ``read`` gives the document of a job that writes one of the ``documents``. ``is_new`` says
        whether anything was made, ``early_result`` is a result that is known before the job begins.
        Raises `FailedJobError` if it fails, `ConflictError` if somebody cancels it.
        """
        if documents is not None:  # before the job, because not every client waits for its end
            await asyncio.to_thread(documents.forget_old, request.vhost)
        preference, jobs = preference_of(self.prefer), self.parts.jobs
        seconds = math.inf if preference is None else preference.seconds
        if early_result is not None:
            job = await jobs.settle(request, early_result)
        else:
            job = await jobs.submit(request)
            if seconds:
                finished = await while_allowed(
                    jobs.wait(job.id), seconds, self.parts, self.user, self.request, _LOOK_SECONDS
                )
                job = finished or await jobs.job(job.id)
        if job.state in FINAL and (seconds or early_result is None):
            result = _result(job)
            document = await asyncio.to_thread(read, result)
            headers = {"location": result["location"]} if result.get("location") else {}
            response = json_answer(document, 201 if is_new(result) else 200, headers)
        else:
            response = json_answer(job, 202, {"location": f"/itc_db/jobs/{job.id}"})
        if preference is not None:
            response.headers["preference-applied"] = preference.applied
        return response


async def _asker(request: Request, user: Writer, parts: Parts, prefer: _Prefer = None) -> Asker:
    return Asker(user, parts, request, prefer)


JobAsker = Annotated[Asker, Depends(_asker)]


def preference_of(prefer: str | None) -> Preference | None:
    """A client's preference (RFC 7240); None if it waits as long as it takes.

    If a preference appears twice, the first counts. One with an invalid value is ignored.
    """
    wishes = _wishes(prefer or "")
    seconds = wishes.get("wait", "")
    asynchronous = wishes.get("respond-async") == ""
    if _SECONDS.fullmatch(seconds):
        waits = cap_wait(float(seconds))
        applied = f"wait={math.floor(waits)}"
        return Preference(waits, f"respond-async, {applied}" if asynchronous else applied)
    return Preference(0.0, "respond-async") if asynchronous else None


def _wishes(prefer: str) -> dict[str, str]:
    wishes: dict[str, str] = {}
    for part in prefer.split(","):
        name, _, value = part.partition(";")[0].partition("=")
        wishes.setdefault(name.strip().lower(), value.strip().strip('"'))
    return wishes


def _result(job: Job) -> Json:
    if job.state is JobState.cancelled:
        raise ConflictError(f"job {job.id} was cancelled")
    if job.result is None:
        raise FailedJobError(job.error or "the job failed")
    return job.result
