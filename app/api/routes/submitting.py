"""Running a job for a client, which waits for it as long as it prefers."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Header, Request, Response

from app.api.described import answer_of, json_answer
from app.api.openapi import LOCATION, example, link
from app.api.parameters import waiting
from app.api.problems import FailedJobError
from app.api.rights import check_rights
from app.api.services import Services
from app.api.signin.auth import Writer
from app.errors import ConflictError
from app.jobs.requests import JobRequest
from app.stored.jobs import ENDED, Job, JobState, Json

_Prefer = Annotated[
    str | None,
    Header(
        description="`respond-async` answers at once with the job, `wait=N` after N seconds.",
        openapi_examples=example("respond-async"),
    ),
]


class Patience(NamedTuple):
    """A client's preference, and ``check``, which raises once it has lost its rights."""

    prefer: str | None
    check: Callable[[], Awaitable[None]]


async def _patience(request: Request, user: Writer, prefer: _Prefer = None) -> Patience:
    return Patience(prefer, lambda: check_rights(user, request))


Prefer = Annotated[Patience, Depends(_patience)]

_LOOK_SECONDS = 1.0  # between two checks of the rights of a waiting client
_SECONDS = re.compile(r"[0-9]{1,9}")


class Preference(NamedTuple):
    """The time that a client waits, and what ``Preference-Applied`` says about it."""

    seconds: float
    applied: str


# For a route's ``responses``: the answer to a client that does not wait for the end.
ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: answer_of(
        Job,
        description="It takes longer than the client waits for.",
        headers=LOCATION,
        links=link("get_job", job_id="$response.body#/id")
        | link("follow_job", job_id="$response.body#/id")
        | link("cancel_job", job_id="$response.body#/id"),
    )
}


async def submitted(
    request: JobRequest,
    patience: Patience,
    parts: Services,
    answer: Callable[[Json], Awaitable[Response]],
) -> Response:
    """Submit a job and wait; returns what ``answer`` makes of its result, or 202 with the job.

    Raises `FailedJobError` if it fails, `ConflictError` if somebody cancels it.
    """
    preference = preference_of(patience.prefer)
    job = await parts.jobs.submit(request)
    if preference is None or preference.seconds:
        seconds = math.inf if preference is None else preference.seconds
        job = await _waited(parts, job, seconds, patience.check)
    response = await answer(_result(job)) if job.state in ENDED else _accepted(job)
    if preference is not None:
        response.headers["preference-applied"] = preference.applied
    return response


async def settled(
    request: JobRequest,
    result: Json,
    patience: Patience,
    parts: Services,
    answer: Callable[[Json], Awaitable[Response]],
) -> Response:
    """As `submitted`, for a job whose result is known before it begins."""
    preference = preference_of(patience.prefer)
    job = await parts.jobs.settle(request, result)
    at_once = preference is not None and not preference.seconds  # and expects a job
    response = _accepted(job) if at_once else await answer(_result(job))
    if preference is not None:
        response.headers["preference-applied"] = preference.applied
    return response


def preference_of(prefer: str | None) -> Preference | None:
    """A client's preference (RFC 7240); None if it waits as long as it takes.

    If a preference appears twice, the first counts. One with an invalid value is ignored.
    """
    wishes = _wishes(prefer or "")
    seconds = wishes.get("wait", "")
    asynchronous = wishes.get("respond-async") == ""
    if _SECONDS.fullmatch(seconds):
        waits = waiting(float(seconds))
        applied = f"wait={math.floor(waits)}"
        return Preference(waits, f"respond-async, {applied}" if asynchronous else applied)
    return Preference(0.0, "respond-async") if asynchronous else None


def _wishes(prefer: str) -> dict[str, str]:
    """Preferences by name, without their parameters."""
    wishes: dict[str, str] = {}
    for part in prefer.split(","):
        name, _, value = part.partition(";")[0].partition("=")
        wishes.setdefault(name.strip().lower(), value.strip().strip('"'))
    return wishes


async def _waited(
    parts: Services, job: Job, seconds: float, check: Callable[[], Awaitable[None]]
) -> Job:
    """The job at its end, or as it is when the time is up or the service stops."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    waiting = asyncio.ensure_future(parts.jobs.wait(job.id))
    stopping = asyncio.ensure_future(parts.stopping.wait())
    try:
        while not waiting.done() and not stopping.done() and (left := deadline - loop.time()) > 0:
            look = min(left, _LOOK_SECONDS)
            await asyncio.wait({waiting, stopping}, timeout=look, return_when="FIRST_COMPLETED")
            await check()
        return waiting.result() if waiting.done() else await parts.jobs.job(job.id)
    finally:
        waiting.cancel()
        stopping.cancel()


def _result(job: Job) -> Json:
    if job.state is JobState.cancelled:
        raise ConflictError(f"job {job.id} was cancelled")
    if job.result is None:
        raise FailedJobError(job.error or "the job failed")
    return job.result


def _accepted(job: Job) -> Response:
    return json_answer(job, 202, {"location": f"/itc_db/jobs/{job.id}"})
