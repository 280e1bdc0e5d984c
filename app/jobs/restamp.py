"""The job that restamps, in a process of its own, which ends with it.

The process puts new stamps aside while the trace runs on. When it has caught up, the trace pauses,
the process does the rest and swaps the stamps in one transaction, and the trace goes on by the new
rules. A process that is killed leaves the old stamps, or has left the new.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import KW_ONLY, dataclass
from typing import TypeAlias

from app.children import Child
from app.errors import ConflictError, NotFoundError, OutageError
from app.jobs.children import open_child, wait_for
from app.jobs.folders import Archives
from app.stored.jobs import Answer, JobRequest, Json, Report

KIND = "restamp"
MODULE = "app.restamp.process"
_DEATH = "the process that restamps the trace died"

Pause: TypeAlias = Callable[[str], AbstractAsyncContextManager[tuple[object, int]]]
"""Pauses a virtual host's trace; gives the trace, and the epoch to write under meanwhile."""


@dataclass(eq=False)
class RestampProcess:
    """Runs the jobs that restamp.

    The process gets the service's ``settings``, one line of JSON, on its stdin. Jobs that read
    messages again get the ``link_rules`` of all virtual hosts. Tests start another ``command``.
    """

    settings: bytes
    pause: Pause
    archives: Archives
    command: Sequence[str] = (sys.executable, "-m", MODULE)
    _: KW_ONLY
    link_rules: Sequence[Json] = ()

    async def run(self, job_id: int, kind: str, work: Json, report: Report) -> Json:
        """Run one job to its end, and return its result; cancelling kills its process.

        Raises an `ItcError` whose text says why it failed.
        """
        del job_id, kind
        await asyncio.to_thread(check_not_archived, self.archives, work["vhost"])
        order = {**work, "link_rules": self.link_rules} if work.get("links") else work
        async with open_child(self.command, self.settings, order) as child:
            return await self._attend(child, work["vhost"], report)

    async def _attend(self, child: Child[Answer], vhost: str, report: Report) -> Json:
        start = time.monotonic()
        await wait_for("caught up", child, report, f"{_DEATH}: nothing has changed, so ask again")
        replayed = time.monotonic()
        async with self.pause(vhost) as (_, epoch):
            try:
                child.write(epoch)
                death = f"{_DEATH}: it has either the old stamps or the new"
                answer = await wait_for("done", child, report, death)
            except BaseException:
                await child.kill()  # or the new stamps could come after the trace goes on
                raise
        seconds = {"replay": replayed - start, "pause": time.monotonic() - replayed}
        with contextlib.suppress(OutageError):  # the next process tidies up too
            await wait_for("tidy", child, report, _DEATH)
        return {
            **answer.result,
            "seconds": {name: round(lap, 3) for name, lap in seconds.items()},
        }


def restamp_request(
    vhost: str, trace_id: int, policy: str, quiet: Sequence[str], owner: str, *, links: bool = False
) -> JobRequest:
    """The job that restamps a virtual host's trace by these rules.

    With ``links`` it also reads the messages again, by the rules of links that hold when it begins.
    """
    options: Json = {"vhost": vhost, "participant": policy, "quiet": list(quiet), "links": links}
    work = {**options, "trace_id": trace_id}
    return JobRequest(KIND, vhost, owner, options, work, is_alone=True)


def check_not_archived(archives: Archives, vhost: str) -> None:
    """Raise `ConflictError` if anything of a virtual host is archived. Blocks on the disk."""
    try:
        archives.through(vhost)
    except NotFoundError:
        return
    raise ConflictError(
        f"events of {vhost} are archived, and would keep their old stamps: "
        "a trace with an archive cannot be restamped"
    )
