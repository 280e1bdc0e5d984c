"""Faults that were never known to cost anything: they show that the drill itself loses nothing."""

from __future__ import annotations

from drills.faults.stage import Stage
from drills.faults.table import BOTH, fault


@fault("nothing", "nothing", stores=BOTH, keeps=True)
async def _nothing(stage: Stage) -> None:
    await stage.pass_by(2)


@fault("kills", "the service killed, three times", stores=BOTH, keeps=True, short=BOTH)
async def _kills(stage: Stage) -> None:
    for _ in range(3):
        async with stage.away():
            await stage.pass_by(0.3)
        await stage.pass_by(0.7)


@fault(
    "cuts",
    "the service's connections to the broker cut, six times",
    stores=BOTH,
    proxies=True,
    keeps=True,
)
async def _cuts(stage: Stage) -> None:
    for _ in range(6):
        stage.broker_proxy.cut()
        await stage.pass_by(1.5)
