"""Kills at random moments, of the service, the broker, and PostgreSQL."""

from __future__ import annotations

import asyncio
import random

from drills.faults.stage import Stage
from drills.faults.table import BOTH, Fault

AT_A_TIME = 25  # kills in one trial
KILL_SECONDS = 25.0  # that one may take, with everything that has to come back
WEIGHTS = {"service": 12, "broker": 2, "database": 3}


def killing(kills: int) -> list[Fault]:
    """Rows that kill this often in all, on one store and the other by turns."""
    parts = [min(AT_A_TIME, kills - done) for done in range(0, kills, AT_A_TIME)]
    return [_row(number, part) for number, part in enumerate(parts)]


def _row(number: int, kills: int) -> Fault:
    async def act(stage: Stage) -> None:
        await _kill(stage, random.Random(number), kills)

    return Fault(
        f"kills-{number + 1}",
        f"{kills} kills of service, broker, database",
        act,
        stores=(BOTH[number % 2],),
        pause=0.1,
        seconds=120 + kills * KILL_SECONDS,
    )


async def _kill(stage: Stage, random_: random.Random, kills: int) -> None:
    weights = dict(WEIGHTS)
    if stage.store == "sqlite":
        del weights["database"]
    for number in range(kills):
        victim = random_.choices(list(weights), list(weights.values()))[0]
        if victim == "service":
            await stage.kill()
            stage.service.start()  # and the next kill may come before it listens
        elif victim == "broker":
            await stage.restart_broker()
        else:
            await asyncio.to_thread(stage.database.kill)
            await stage.pass_by(random_.uniform(0, 1))
            await asyncio.to_thread(stage.database.start)
        await stage.pass_by(random_.uniform(0.1, 2))
        if number % 4 == 3:
            await stage.service.listening()
            await stage.until(stage.captures, 60, f"the trace goes on after kill {number + 1}")
    await stage.service.listening()
