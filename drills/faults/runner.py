"""Runs rows of the table, and writes the table of results."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from drills.faults.judge import Verdict
from drills.faults.stage import Stage, staged
from drills.faults.table import Fault, Store
from tools.servers import Broker, PostgresServer, RabbitCluster, RabbitNode, ServerError

WARM_SECONDS = 1.5
AFTER_SECONDS = 1.5

HEAD = (
    "fault",
    "store",
    "trials",
    "events",
    "lost",
    "lost outside gaps",
    "doubled",
    "wrong outside gaps",
    "gaps",
    "else",
    "seconds",
)


class Result(msgspec.Struct):
    """A row of the result: sums over its trials; ``seconds`` are those of one trial, the mean."""

    fault: str
    store: str
    trials: int = 0
    events: int = 0
    lost: int = 0
    lost_outside: int = 0
    doubled: int = 0
    wrong_outside: int = 0
    gaps: int = 0
    notes: int = 0
    seconds: float = 0.0
    remarks: list[str] = []

    @property
    def errors(self) -> int:
        """The number of errors."""
        return self.lost_outside + self.doubled + self.wrong_outside + self.notes

    def add(self, verdict: Verdict, notes: Sequence[str], remarks: Sequence[str]) -> None:
        """Add a trial."""
        self.trials += 1
        self.events += verdict.events
        self.lost += verdict.lost
        self.lost_outside += len(verdict.lost_outside)
        self.doubled += len(verdict.doubled)
        self.wrong_outside += len(verdict.wrong_outside)
        self.gaps += len(verdict.gaps)
        self.fail(*notes)
        self.remarks += remarks
        if verdict.strange:
            self.fail(f"{len(verdict.strange)} stored events that no client made")

    def fail(self, *notes: str) -> None:
        """Add what went wrong beside the record."""
        self.notes += len(notes)
        self.remarks += [f"error: {note}" for note in notes]

    def cells(self) -> list[str]:
        """Return the cells of the row in the table."""
        counts = (
            self.trials,
            self.events,
            self.lost,
            self.lost_outside,
            self.doubled,
            self.wrong_outside,
            self.gaps,
            self.notes,
        )
        return [
            self.fault,
            self.store,
            *(f"{count:,}" for count in counts),
            f"{self.seconds / max(1, self.trials):.0f}",
        ]

    def line(self) -> str:
        """It as a line of a Markdown table."""
        return f"| {' | '.join(self.cells())} |"


def report(results: Sequence[Result]) -> str:
    """The whole table, in Markdown."""
    lines = [f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD)]
    return "\n".join(lines + [result.line() for result in results])


def chosen(
    faults: Iterable[Fault],
    names: Sequence[str] = (),
    store: Store | None = None,
    *,
    short: bool = False,
) -> list[tuple[Fault, Store]]:
    """The rows that are asked for, in their order."""
    return [
        (fault, each)
        for fault in faults
        for each in fault.stores
        if (not names or fault.name in names)
        and (store is None or each == store)
        and (not short or each in fault.short)
    ]


class Runner:
    """Has the servers, each started when it is first needed; all end with the block."""

    def __init__(
        self, broker: Broker | None = None, postgres: PostgresServer | None = None
    ) -> None:
        self._stack = AsyncExitStack()
        self._brokers: dict[str, Broker] = {}
        self._postgres = postgres
        if given := broker or Broker.from_environment(os.environ):
            self._brokers["node"] = given

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def row(self, fault: Fault, store: Store, trials: int = 1) -> Result:
        """Run one row."""
        result = Result(fault.name, store)
        for _ in range(trials):
            broker = await self._broker(fault.broker)
            postgres = await self._database() if store == "postgres" else None
            began = time.monotonic()
            try:
                async with asyncio.timeout(fault.seconds):
                    await self._trial(fault, store, result, broker, postgres)
            except (ServerError, TimeoutError, RuntimeError) as error:
                result.trials += 1
                result.fail(f"the trial broke off: {type(error).__name__} {error}")
            result.seconds += time.monotonic() - began
        return result

    async def _trial(
        self,
        fault: Fault,
        store: Store,
        result: Result,
        broker: Broker,
        postgres: PostgresServer | None,
    ) -> None:
        with tempfile.TemporaryDirectory(prefix="rabbitmq-itc-fault-") as place:
            async with staged(
                broker,
                store,
                Path(place),
                postgres=postgres,
                settings=fault.settings,
                pause=fault.pause,
                body=fault.body,
                proxies=fault.proxies,
                own_clock=fault.own_clock,
            ) as stage:
                verdict = await self._played(fault, stage)
                if fault.keeps and (verdict.lost or verdict.gaps):
                    stage.notes.append(
                        f"{verdict.lost} events lost and {len(verdict.gaps)} gaps recorded,"
                        " where everything can be kept"
                    )
                result.add(verdict, stage.notes, stage.remarks)

    async def _played(self, fault: Fault, stage: Stage) -> Verdict:
        await stage.pass_by(WARM_SECONDS)
        await fault.act(stage)
        await stage.pass_by(AFTER_SECONDS)
        await stage.clients.stop()
        return await stage.verdict()

    async def _broker(self, kind: str) -> Broker:
        if kind not in self._brokers:
            made = _made(kind)
            self._stack.callback(made.close)
            self._brokers[kind] = await asyncio.to_thread(made.start)
        return self._brokers[kind]

    async def _database(self) -> PostgresServer:
        if self._postgres is None:
            made = PostgresServer()
            self._stack.callback(made.close)
            self._postgres = await asyncio.to_thread(made.start)
        return self._postgres


def _made(kind: str) -> Broker:
    if kind == "cluster":
        return RabbitCluster()
    if kind == "no statistics":
        return RabbitNode(settings={"management_agent.disable_metrics_collector": "true"})
    return RabbitNode()
