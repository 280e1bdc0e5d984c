"""Several services on one trace, one after another and at a time."""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import time

from drills.faults.stage import Stage, frozen
from drills.faults.table import BOTH, POSTGRES, fault
from drills.service import Service
from tools.servers import ServerError

WAY_SECONDS = 0.4  # of everything that the slow service says
ATTEMPT_SECONDS = 12.0  # in which it tries to get the queue
LOOK_SECONDS = 0.05
TAKEOVERS = 3
STRIKES = 8
HOLD_SECONDS = 5.0
NOTICED_SECONDS = 20.0  # that the broker says nothing
TAKEN_OVER_SECONDS = 12.0  # 10, and some for the event to be stored
REPLACED_SECONDS = 5.0  # 3, and some
STANDSTILLS, STANDSTILL_SECONDS = 3, 15.0  # three leases


@fault(
    "takeover",
    "a service that takes over slowly while the one before still writes",
    stores=BOTH,
    keeps=True,
)
async def _takeover(stage: Stage) -> None:
    """The one that comes restores from the store long before it has the queue."""
    for number in range(TAKEOVERS):
        old = stage.service
        new, proxy = await stage.another_slow(f"takeover{number}", WAY_SECONDS)
        if not await starts(stage, new):  # refused, as on SQLite: it has to be alone
            stage.services.remove(new)
            async with stage.away():
                await stage.pass_by(1)
            continue
        await stage.pass_by(1)
        before = proxy.taken
        for _ in range(int(ATTEMPT_SECONDS / LOOK_SECONDS)):
            if proxy.taken > before:  # it has restored, and is on its way to the queue
                break
            await stage.pass_by(LOOK_SECONDS)
        await stage.pass_by(random.uniform(1, 3) * WAY_SECONDS)
        await stage.kill(old)
        stage.services.remove(old)
        await stage.until(stage.captures, 30, "the trace goes on with the next service")


@fault("two-databases", "two services with two databases and one queue name", keeps=True)
async def _two_databases(stage: Stage) -> None:
    """The second must not take any of what is the first one's."""
    (stage.folder / "other").mkdir()
    url = f"sqlite:///{stage.folder / 'other' / 'other.db'}"
    other = stage.another("other", database_url=url)
    if await starts(stage, other):
        await other.start_trace(stage.vhost, "channel")
        await stage.pass_by(3)
        async with stage.away():
            await stage.pass_by(3)
        await stage.pass_by(3)
        await stage.kill(other)
    stage.services.remove(other)


@fault(
    "three-services",
    "three services, killed, paused, cut off and ended by turns",
    stores=POSTGRES,
    proxies=True,
    keeps=True,
    seconds=480,
)
async def _three_services(stage: Stage) -> None:
    if await _are_three(stage):
        strikes = itertools.cycle((_killed, _paused, _cut_off, _ended))
        for _ in range(STRIKES):
            await next(strikes)(stage)
            await stage.pass_by(1)


@fault(
    "rolling",
    "three services replaced one by one, each when the one before is back",
    stores=POSTGRES,
    proxies=True,
    keeps=True,
)
async def _rolling(stage: Stage) -> None:
    if await _are_three(stage):
        for service in stage.services:
            await _replaced(stage, service)
            await stage.pass_by(1)


@fault(
    "standstill",
    "the service that runs the trace stands still for 15 s, beside another, three times",
    stores=POSTGRES,
    keeps=True,
)
async def _standstill(stage: Stage) -> None:
    if not await starts(stage, stage.another("second")):
        stage.notes.append("the second service does not start")
        return
    for _ in range(STANDSTILLS):
        await _paused(stage, STANDSTILL_SECONDS)
        await stage.pass_by(1)


async def _are_three(stage: Stage) -> bool:
    for number in (2, 3):
        if not await starts(stage, await stage.another_proxied(f"service{number}")):
            stage.notes.append(f"service {number} does not start")
            return False
    return True


async def _killed(stage: Stage) -> None:
    holder = await _holder(stage)
    await stage.kill(holder)
    with stage.without(holder):
        await _goes_on(stage, "kill")
    await stage.restart(holder)


async def _paused(stage: Stage, least: float = 0.0) -> None:
    holder, began = await _holder(stage), time.monotonic()
    with stage.without(holder), frozen(holder.process.pid):
        await _goes_on(stage, "pause")
        await stage.pass_by(began + least - time.monotonic())


async def _cut_off(stage: Stage) -> None:
    holder = await _holder(stage)
    with stage.without(holder), stage.partition(holder):
        await _goes_on(stage, "partition")


async def _ended(stage: Stage) -> None:
    await _replaced(stage, await _holder(stage))


async def _replaced(stage: Stage, service: Service) -> None:
    """End a service in order, whereupon it hands its traces over, and start it again."""
    with stage.without(service):
        ending = asyncio.create_task(asyncio.to_thread(service.end, signal.SIGTERM))
        await _goes_on(stage, "replacement", REPLACED_SECONDS)
        await ending
    await stage.restart(service)


async def _goes_on(stage: Stage, after: str, seconds: float = TAKEN_OVER_SECONDS) -> None:
    began = time.monotonic()
    if not await stage.caught_up(seconds):
        stage.notes.append(f"after a {after} no other goes on within {seconds:g} s")
    stage.remarks.append(f"captured {time.monotonic() - began:.1f} s after a {after}")


@fault(
    "broker-alone",
    "the service that runs the trace cut off from the broker alone, beside another",
    stores=POSTGRES,
    proxies=True,
    keeps=True,
    settings={"ITC_HOLD_SECONDS": f"{HOLD_SECONDS:g}"},
)
async def _broker_alone(stage: Stage) -> None:
    if not await starts(stage, await stage.another_proxied("second")):
        stage.notes.append("the second service does not start")
        return
    holder = await _holder(stage)
    with stage.without(holder), stage.partition(holder, database=False):
        await _goes_on(stage, "partition", NOTICED_SECONDS + HOLD_SECONDS + TAKEN_OVER_SECONDS)


async def _holder(stage: Stage) -> Service:
    """The service that runs the trace, by its port in the holder's name; the first if unknown."""
    name = str((await stage.trace()).get("holder"))
    return next((each for each in stage.services if name.endswith(f":{each.port}")), stage.service)


async def starts(stage: Stage, service: Service) -> bool:
    """Start one more service and tell whether it runs; if not, it must have ended by itself."""
    service.start()
    try:
        await service.listening()
    except ServerError:
        if service.is_running:
            stage.notes.append("a service neither starts nor ends")
        service.end(signal.SIGKILL)
        return False
    return True
