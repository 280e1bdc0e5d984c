"""Jobs in child processes, each of which does one order and ends with it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec

from app.children import Child
from app.errors import OutageError
from app.jobs.process import error_of
from app.stored.jobs import Answer, Json, Report

LINE_BYTES = 1 << 20
SENDER = (sys.executable, "-m", "app.collector.process")


@asynccontextmanager
async def open_child(
    command: Sequence[str], settings: bytes, order: object
) -> AsyncIterator[Child[Answer]]:
    """A child that does an order by these settings (`app.orders`); it ends with the context."""
    child = await Child.start(command, Answer, line_bytes=LINE_BYTES)
    try:
        child.write(msgspec.Raw(settings))
        child.write(order)
        yield child
    finally:
        await child.kill()


async def wait_for(say: str, child: Child[Answer], report: Report, death: str) -> Answer:
    """The child's last word; ``death`` is the sentence for one that dies earlier."""
    while (answer := await child.read()) is not None:
        if answer.say == "error":
            raise error_of(answer)
        if answer.say == say:
            return answer
        report(answer.progress)
    raise OutageError(death)


@dataclass(eq=False)
class SpanJobs:
    """Runs the jobs that send a period's spans."""

    settings: bytes

    async def run(self, job_id: int, kind: str, work: Json, report: Report) -> Json:
        """Run one job to its end, and return its result; cancelling kills its process.

        Raises an `ItcError` whose text says why it failed.
        """
        del job_id, kind
        async with open_child(SENDER, self.settings, {"period": work}) as child:
            death = "the process that sends spans died: ask again"
            return (await wait_for("done", child, report, death)).result
