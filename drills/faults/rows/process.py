"""The service's own process: signals, and the system's clock."""

from __future__ import annotations

import asyncio
import signal
import time

from drills.faults.stage import Stage
from drills.faults.table import POSTGRES, SQLITE, fault
from tools.servers import ServerError

SHUTDOWN_SECONDS = 5.0
SLACK_SECONDS = 3.0
PATIENCE_SECONDS = 30.0
A_DAY = 86_400.0


@fault(
    "sigterm",
    "SIGTERM while the database stalls",
    stores=POSTGRES,
    keeps=True,
    settings={"ITC_SHUTDOWN_SECONDS": f"{SHUTDOWN_SECONDS:g}"},
)
async def _sigterm(stage: Stage) -> None:
    with stage.frozen_database():
        await stage.pass_by(2)
        await _ends(stage, signal.SIGTERM)
    await stage.restart()


@fault(
    "sighup",
    "SIGHUP while the database stalls",
    stores=POSTGRES,
    keeps=True,
    settings={"ITC_SHUTDOWN_SECONDS": f"{SHUTDOWN_SECONDS:g}"},
)
async def _sighup(stage: Stage) -> None:
    with stage.frozen_database():
        await stage.pass_by(2)
        await _ends(stage, signal.SIGHUP)
    await stage.restart()


@fault("sighup-running", "SIGHUP", stores=SQLITE, keeps=True)
async def _sighup_running(stage: Stage) -> None:
    await _ends(stage, signal.SIGHUP)
    await stage.restart()


async def _ends(stage: Stage, number: signal.Signals) -> None:
    began, most = time.monotonic(), SHUTDOWN_SECONDS + SLACK_SECONDS
    try:
        await asyncio.to_thread(stage.service.end, number, PATIENCE_SECONDS)
    except ServerError:
        stage.notes.append(f"after {number.name} it runs on for {PATIENCE_SECONDS:g} s and more")
        await stage.kill()
        return
    if (took := time.monotonic() - began) > most:
        stage.notes.append(f"after {number.name} it ran on for {took:.0f} s")


@fault(
    "clock",
    "the system's clock set forward by a day, with copies waiting",
    own_clock=True,
    keeps=True,
)
async def _clock(stage: Stage) -> None:
    """Messages lie in a queue; a day later, by the clock, they are received."""
    clients = stage.clients
    await clients.rest()
    await stage.pass_by(1.0)
    if not await stage.caught_up(20):
        stage.notes.append("what was published is not stored before the clock is set")
    stage.set_clock_forward(A_DAY)
    await stage.pass_by(3)
    clients.receive()


@fault(
    "clock-back",
    "the system's clock a day ahead, and set back while the service is down",
    own_clock=True,
    keeps=True,
    short=SQLITE,
)
async def _clock_back(stage: Stage) -> None:
    await stage.kill()
    stage.set_clock_forward(A_DAY)
    await stage.restart()
    await stage.until(stage.captures, PATIENCE_SECONDS, "the trace goes on a day ahead")
    await stage.kill()
    stage.set_clock_forward(0.0)
    await stage.restart()
    await stage.until(stage.captures, PATIENCE_SECONDS, "the trace goes on when the clock is back")
