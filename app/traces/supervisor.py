"""Erlang's supervision in Python: restart what fails, but not without end.

A failure is a bug, ours or one that some message triggers. An outage of the broker or the database
is none: the supervisor waits for its end, with growing pauses. Nor is it a failure that another
service has taken the trace: then there is nothing left to run here.

A trace that fails too often is marked as failed. Its queue fills and nobody may be there to start
it: so it is tried again all the same, with pauses that grow to some minutes.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from typing import TypeVar

from app.background import pauses
from app.errors import ItcError, LeaseLostError, OutageError, QueueInUseError, UnreachableError
from app.traces.life import Away, Life, TraceState
from model.times import said_time

T = TypeVar("T")

log = logging.getLogger(__name__)

# At most this many restarts in a period.
INTENSITY = 3
PERIOD_SECONDS = 10.0
FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 10.0
IN_USE_SECONDS = 0.5
# Pauses before a failed trace's next try, and a run's length from which it is a success.
FIRST_RETRY_SECONDS = 10.0
LONGEST_RETRY_SECONDS = 300.0
RECOVERED_SECONDS = 60.0


@dataclass(eq=False)
class Supervisor:
    """Runs one trace until it ends by itself or is cancelled.

    ``run`` returns when it is asked to stop and raises otherwise; ``life`` hears of each change.
    """

    name: str
    run: Callable[[], Awaitable[None]]
    life: Life
    _: KW_ONLY
    clock: Callable[[], float]
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    time_of_day: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._failures: deque[float] = deque(maxlen=INTENSITY + 1)  # when the last ones were
        self._has_run = False
        self._pauses = pauses(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        self._retries = pauses(FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS)

    def running(self) -> None:
        """Note that the run has started, or has got over an outage."""
        if self.life.state is not TraceState.running:
            suffix = " again" if self._has_run or self.life.standing.waiting_for else ""
            log.info("trace of %r runs%s", self.name, suffix)
        self._has_run = True
        self.life.running()
        self._pauses = pauses(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)

    def waiting(self, reason: str, away: Away | None = None) -> None:
        """Note that the run is waiting for an outage to end; the log says so once."""
        if self.life.standing.waiting_for is None:
            log.warning("trace of %r waits: %s", self.name, reason)
        self.life.waiting(reason, away)

    async def supervise(self) -> None:
        """Run, and run again; returns when the run has ended."""
        while True:
            start = self.clock()
            try:
                await self.run()
            except LeaseLostError as error:
                log.warning("the run of the trace of %r ends: %s", self.name, error)
                self.life.stopped()
                return
            except OutageError as outage:
                await self._wait_out(outage)
            except Exception as failure:  # noqa: BLE001 - a bug affects only this trace
                await self._restart_after(failure, start)
            else:
                self.life.stopped()
                return

    async def _wait_out(self, outage: OutageError) -> None:
        self.waiting(str(outage), "broker" if isinstance(outage, UnreachableError) else None)
        is_in_use = isinstance(outage, QueueInUseError)  # by one who is just leaving, mostly
        await self.pause(IN_USE_SECONDS if is_in_use else next(self._pauses))

    async def _restart_after(self, failure: Exception, start: float) -> None:
        """Note a failure of a run, and wait until it may run again."""
        log.error("trace of %r failed", self.name, exc_info=failure)
        moment, failures = self.clock(), self._failures
        failures.append(moment)
        are_few = len(failures) <= INTENSITY or moment - failures[0] > PERIOD_SECONDS
        if moment - start >= RECOVERED_SECONDS:
            self._retries = pauses(FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS)
        # A failed trace that has not run since is not restarted at once.
        if are_few and self.life.state is not TraceState.failed:
            self.life.restarting(failure_in_words(failure))
            return
        seconds = next(self._retries)
        next_try = said_time(round((self.time_of_day() + seconds) * 1_000_000))
        self.life.failed(failure_in_words(failure), f"the next try, at {next_try}")
        log.error("trace of %r failed too often; next try in %.0f s", self.name, seconds)
        await self.pause(seconds)


async def patiently(work: Callable[[], Awaitable[T]], supervisor: Supervisor | None = None) -> T:
    """The result of ``work``, which is tried again while the store is away.

    ``supervisor`` is told. Raises `LeaseLostError`, which no waiting mends.
    """
    waits, was_away = pauses(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS), False
    while True:
        try:
            result = await work()
        except LeaseLostError:
            raise
        except OutageError as outage:
            was_away = True
            if supervisor is not None:
                supervisor.waiting(str(outage), "store")
            await asyncio.sleep(next(waits))
        else:
            if was_away and supervisor is not None:
                supervisor.running()
            return result


def failure_in_words(failure: Exception) -> str:
    """The part of a failure for users. Only our own errors are known to hold no secrets."""
    if isinstance(failure, ItcError):
        return str(failure)
    *_, (frame, line) = traceback.walk_tb(failure.__traceback__)
    module = frame.f_globals.get("__name__", "?")
    return (
        f"an error in the service itself, {type(failure).__name__} at {module}:{line}; its log "
        "says more. Please report it"
    )
