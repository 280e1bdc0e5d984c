"""Traces spread over processes of their own, so that more than one core can be used.

Each process runs the supervised pipelines of some virtual hosts, with its own connections to the
broker and the database; the registry, the API and everything else stay here. Event ids are dealt
inside the transaction that stores a batch, so they keep to commit order over all processes.

The two sides speak in lines of JSON over the child's stdin and stdout: orders go down, and how
each trace stands comes up, at once when events were stored and every second besides. A process
that dies is started anew, with the traces that it had: to them it is a crash like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import Literal

import msgspec

from app.environment import needed
from app.store.traces import Trace
from app.traces.feed import Feed
from app.traces.status import Snapshot, TraceState

log = logging.getLogger(__name__)

MODULE = "app.trace_process"
RESTART_SECONDS = 1.0
LINE_BYTES = 16 << 20


class Order(msgspec.Struct, frozen=True):
    """One line to the child: what to do with a trace.

    ``drain`` and ``deadline`` (seconds) are those of `RunningTrace.end`, and go with "end" alone.
    """

    do: Literal["run", "drain", "end"]
    trace: Trace
    drain: bool = False
    deadline: float = 0.0


class Notice(msgspec.Struct, frozen=True):
    """One line from the child: how a trace stands, and whether its run is over."""

    trace_id: int
    snapshot: Snapshot
    is_alive: bool


class RemoteTrace:
    """A trace that runs in another process, as far as is known here."""

    def __init__(self, trace: Trace, process: TraceProcess) -> None:
        self.trace = trace
        self._process = process
        self._snapshot = Snapshot(TraceState.starting, last_event_id=trace.last_event_id)
        self._over = asyncio.Event()

    @property
    def is_alive(self) -> bool:
        """Whether it runs, or tries to."""
        return not self._over.is_set()

    def snapshot(self) -> Snapshot:
        """Return how it stood when last heard of."""
        return self._snapshot

    def drain(self) -> None:
        """Ask the run to end once the queue is empty, and to leave tracing alone till then."""
        self._process.order(Order("drain", self.trace))

    async def end(self, *, drain: bool, deadline: float) -> None:
        """End the run within ``deadline`` seconds."""
        self._process.order(Order("end", self.trace, drain, deadline))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), deadline + RESTART_SECONDS)
        self._process.forget(self.trace)

    def heard(self, notice: Notice) -> None:
        """Take in how it stands."""
        self._snapshot = notice.snapshot
        if not notice.is_alive:
            self._over.set()

    def orphaned(self) -> None:
        """Note that its process died; it will be run anew."""
        self._snapshot = msgspec.structs.replace(
            self._snapshot, state=TraceState.waiting, waiting_for="its process, which ended"
        )


class TraceProcess:
    """One child process and the traces it runs."""

    def __init__(self, settings: bytes, feed: Feed, command: Sequence[str]) -> None:
        """Start it in the background; ``settings`` is the one line that it reads first."""
        self._settings = settings
        self._feed = feed
        self._command = command
        self._traces: dict[int, RemoteTrace] = {}
        self._child: asyncio.subprocess.Process | None = None
        self._task = asyncio.create_task(self._keep_running())

    def __len__(self) -> int:
        return len(self._traces)

    @property
    def pid(self) -> int | None:
        """The child, where it runs."""
        return self._child.pid if self._child else None

    def run(self, trace: Trace) -> RemoteTrace:
        """Have a trace run there."""
        remote = self._traces[trace.id] = RemoteTrace(trace, self)
        self.order(Order("run", trace))
        return remote

    def order(self, order: Order) -> None:
        """Send a line down; without a child it is not needed, as the next one is told all."""
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.write(msgspec.json.encode(order) + b"\n")

    def forget(self, trace: Trace) -> None:
        """Let go of a trace that has ended."""
        self._traces.pop(trace.id, None)

    async def close(self) -> None:
        """End the child; its traces go on where they are when they are run again."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _keep_running(self) -> None:
        while True:
            child = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=LINE_BYTES,
                env=needed(os.environ),
                # A Ctrl-C is for the service, which then ends its children in good order.
                start_new_session=True,
            )
            try:
                await self._attend(child)
            finally:
                self._child = None
                with contextlib.suppress(ProcessLookupError):
                    child.kill()
                await child.wait()
            log.error("a trace process ended with %s; it is started anew", child.returncode)
            for remote in self._traces.values():
                remote.orphaned()
            await asyncio.sleep(RESTART_SECONDS)

    async def _attend(self, child: asyncio.subprocess.Process) -> None:
        """Tell a new child what to run, and listen until it ends."""
        if child.stdin is None or child.stdout is None:
            raise RuntimeError("a child is started with pipes")
        child.stdin.write(self._settings + b"\n")
        self._child = child
        for remote in self._traces.values():
            self.order(Order("run", remote.trace))
        while line := await child.stdout.readline():
            notice = msgspec.json.decode(line, type=Notice)
            if known := self._traces.get(notice.trace_id):
                known.heard(notice)
            self._feed.advance(notice.snapshot.last_event_id)


class TraceProcesses:
    """Several such processes; a trace goes to the one with the fewest."""

    def __init__(self, count: int, settings: bytes, command: Sequence[str] = ()) -> None:
        self._count = count
        self._settings = settings
        self._command = command or (sys.executable, "-m", MODULE)
        self._processes: list[TraceProcess] = []

    def run(self, trace: Trace, feed: Feed) -> RemoteTrace:
        """Have a trace run in one of them; ``feed`` hears of its events."""
        if len(self._processes) < self._count:
            self._processes.append(TraceProcess(self._settings, feed, self._command))
        return min(self._processes, key=len).run(trace)

    @property
    def pids(self) -> list[int]:
        """The children that run."""
        return [process.pid for process in self._processes if process.pid is not None]

    async def close(self) -> None:
        """End all children."""
        await asyncio.gather(*(process.close() for process in self._processes))
