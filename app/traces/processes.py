"""Traces spread over processes of their own, so that more than one core can be used.

Each process runs the supervised pipelines of some virtual hosts, with its own connections to the
broker and the database; the registry, the API and everything else stay here. Event ids are assigned
inside the transaction that stores a batch, so they follow commit order across all processes.

The two sides exchange lines of JSON over the child's stdin and stdout: orders go down, and each
trace's status comes up, at once when events were stored and also every second. A process that
dies is started again with the traces it had: to them it is a crash like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from app.children import Child
from app.errors import OutageError
from app.stored.capture import Trace
from app.traces.feed import Feed
from app.traces.life import Life, TraceState
from app.traces.running import RunningTrace
from app.traces.status import Snapshot
from app.tracker import RestorePoint

log = logging.getLogger(__name__)

MODULE = "app.trace_process"
# Beside the settings of such a process: the id of the service that it belongs to.
SERVICE = "of_service"
RESTART_SECONDS = 1.0
# A process says every second how its traces are. After so many seconds of silence that is old, and
# one that starts, or restores a trace, may say nothing for so many.
OLD_SECONDS = 4
STARTING_SECONDS = 60
LINE_BYTES = 16 << 20


class TraceOrder(msgspec.Struct, frozen=True):
    """One line to the child: what to do with a trace; "read" is to read ahead of its run.

    ``drain`` and ``deadline`` (seconds) are those of `RunningTrace.end`, and only "end" has them.
    """

    do: Literal["read", "run", "drain", "prove", "end"]
    trace: Trace
    drain: bool = False
    deadline: float = 0.0


class Notice(msgspec.Struct, frozen=True):
    """One line from the child: a trace's status, and whether its run is over."""

    trace_id: int
    snapshot: Snapshot
    is_alive: bool
    of_run: bool = True  # else its reading ahead is over, and it is alive if all was read


class RemoteTrace:
    """A trace that runs in another process, or is read there to run, as far as is known here."""

    def __init__(self, trace: Trace, process: TraceProcess, do: Literal["read", "run"]) -> None:
        self.trace = trace
        self._process = process
        self._snapshot = Snapshot(Life().standing, last_event_id=trace.last_event_id)
        self._over = asyncio.Event()
        self.is_heard_of = asyncio.Event()
        self.is_to_run = do == "run"
        # Everything its process was told about it: a new process has to be told again.
        self.orders: list[TraceOrder] = []
        self._tell(TraceOrder(do, trace))

    @property
    def is_alive(self) -> bool:
        """Tell whether it runs, or tries to."""
        return not self._over.is_set()

    @property
    def is_running(self) -> bool:
        """Tell whether it ran, or had been read ahead, when it was last heard of."""
        return self._snapshot.standing.state in (TraceState.running, TraceState.stopped)

    def snapshot(self) -> Snapshot:
        """Its last known status; that of a process which says nothing is old."""
        was, silent = self._snapshot, self._process.silent
        if silent < OLD_SECONDS or not self.is_running:
            return was
        standing = msgspec.structs.replace(
            was.standing,
            state=TraceState.waiting,
            waiting_for=f"its process, which has said nothing for {silent} s",
        )
        return msgspec.structs.replace(was, standing=standing, rate=0.0, lag=None, is_old=True)

    def run(self, trace: Trace) -> RemoteTrace:
        """Have it run, which was read ahead."""
        return self._process.take(trace, "run")

    def leave(self) -> None:
        """Let go of it, which was read ahead and is not to run."""
        if self._process.forget(self):
            self._process.order(TraceOrder("end", self.trace))

    def drain(self) -> None:
        """Ask the run to end once the queue is empty, and to leave tracing alone until then."""
        self._tell(TraceOrder("drain", self.trace))

    def prove(self) -> None:
        """Have its status soon say of this moment that all is stored which was traced before."""
        self._process.order(TraceOrder("prove", self.trace))  # a new process need not know

    async def end(self, *, drain: bool, deadline: float) -> None:
        """End the run within ``deadline`` seconds."""
        self._tell(TraceOrder("end", self.trace, drain, deadline))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), deadline + RESTART_SECONDS)
        self._process.forget(self)

    def heard(self, notice: Notice) -> None:
        self._snapshot = notice.snapshot
        self.is_heard_of.set()
        if not notice.is_alive:
            self._over.set()

    def _tell(self, order: TraceOrder) -> None:
        self.orders.append(order)
        self._process.order(order)

    def orphaned(self) -> None:
        """Note that its process died; it will be run again."""
        life = Life.run_again(self._snapshot.standing, "its process, which ended")
        self._snapshot = msgspec.structs.replace(self._snapshot, standing=life.standing)


Running: TypeAlias = RunningTrace | RemoteTrace
"""A trace that runs here, or in another process."""
Ahead: TypeAlias = RestorePoint | RemoteTrace
"""What a trace is restored from, read ahead of its run here, or in another process."""


class TraceProcess:
    """One child process and the traces it runs."""

    def __init__(
        self, settings: bytes, feed: Feed, command: Sequence[str], most_silent: float
    ) -> None:
        """Start it in the background; ``settings`` is the one line that it reads first.

        One that says nothing for ``most_silent`` seconds is ended, and started again.
        """
        self._most_silent = most_silent
        self.silent = 0  # seconds since it last said something
        self._settings = settings
        self._feed = feed
        self._command = command
        self._traces: dict[int, RemoteTrace] = {}
        self._child: Child[Notice] | None = None  # None between one and the next
        self._task = asyncio.create_task(self._keep_running())

    def __len__(self) -> int:
        return len(self._traces)

    def take(self, trace: Trace, do: Literal["read", "run"]) -> RemoteTrace:
        if known := self._traces.get(trace.id):  # whoever waits for its reading need not
            known.heard(Notice(trace.id, known.snapshot(), False, known.is_to_run))
        remote = self._traces[trace.id] = RemoteTrace(trace, self, do)
        return remote

    def order(self, order: TraceOrder) -> None:
        """Send an order; not needed without a child, since the next one is told everything."""
        if self._child is not None:
            self._child.write(order)

    def forget(self, remote: RemoteTrace) -> bool:
        """Forget a trace; False if it is forgotten already, or was taken anew."""
        known, trace_id = self._traces, remote.trace.id
        return known.get(trace_id) is remote and known.pop(trace_id) is remote

    async def close(self) -> None:
        """End the child; its traces continue where they stopped when they are run again."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _keep_running(self) -> None:
        while True:
            child = await Child.start(self._command, Notice, line_bytes=LINE_BYTES)
            try:
                await self._attend(child)
            finally:
                self._child = None
                await child.kill()
            log.error("a trace process ended with %s; starting it again", child.exit_code)
            for remote in self._traces.values():
                remote.orphaned()
            await asyncio.sleep(RESTART_SECONDS)

    async def _attend(self, child: Child[Notice]) -> None:
        """Tell a new child what to run, and listen until it ends."""
        child.write(msgspec.Raw(self._settings))
        self._child = child
        for remote in self._traces.values():
            for order in remote.orders:
                self.order(order)
        while notice := await self._heard(child):
            known = self._traces.get(notice.trace_id)
            if known and known.is_to_run == notice.of_run:  # else it crossed an order
                known.heard(notice)
            self._feed.advance(notice.snapshot.last_event_id)

    async def _heard(self, child: Child[Notice]) -> Notice | None:
        """The child's next notice; None if it has ended, or hangs.

        Seconds are counted one by one: a service that was itself stopped for long finds what its
        child has said meanwhile before it has waited for two of them.
        """
        self.silent = 0
        while self.silent < self._patience:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    return await child.read()
            is_due = any(each.is_to_run for each in self._traces.values())
            self.silent = self.silent + 1 if is_due else 0
        log.error("a trace process has said nothing for %d s: ending it", self.silent)
        return None

    @property
    def _patience(self) -> float:
        """The seconds for which it may say nothing: more while it starts, or restores a trace."""
        if all(each.is_running for each in self._traces.values()):
            return self._most_silent
        return max(self._most_silent, STARTING_SECONDS)


class TraceProcesses:
    """Several such processes; a new trace goes to the one with the fewest."""

    def __init__(
        self,
        count: int,
        settings: bytes,
        command: Sequence[str] = (),
        most_silent: float = 10.0,
    ) -> None:
        self._count = count
        self._settings = settings
        self._command = command or (sys.executable, "-m", MODULE)
        self._most_silent = most_silent
        self._processes: list[TraceProcess] = []

    def start(self, feed: Feed) -> None:
        """Start them all, which takes seconds; ``feed`` hears of their traces' events."""
        self._processes = [
            TraceProcess(self._settings, feed, self._command, self._most_silent)
            for _ in range(self._count)
        ]

    def run(self, trace: Trace, ahead: RemoteTrace | None = None) -> RemoteTrace:
        """Have a trace run in one of them: in the one that has read it ``ahead``."""
        if ahead is not None:
            return ahead.run(trace)
        return min(self._processes, key=len).take(trace, "run")

    async def read(self, trace: Trace) -> RemoteTrace:
        """Have one read what it needs to run a trace at once; raises `OutageError` if it cannot."""
        remote = min(self._processes, key=len).take(trace, "read")
        try:
            await remote.is_heard_of.wait()
        except asyncio.CancelledError:
            remote.leave()
            raise
        if not remote.is_alive:
            remote.leave()
            raise OutageError(f"the trace of {trace.vhost!r} was not read ahead")
        return remote

    async def close(self) -> None:
        await asyncio.gather(*(process.close() for process in self._processes))
