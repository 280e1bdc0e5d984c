"""Policies for all queues, which apply to the trace queue too.

A service that is behind has a small prefetch: what the broker has handed over is out of reach of
its policies. A policy that is gone before the service looks again leaves no trace of itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Literal

from drills.faults.stage import Stage
from drills.faults.table import BOTH, POSTGRES, fault
from drills.proxy import is_ack

EVERY_QUEUE = ".*"
TTL: Mapping[str, object] = {"message-ttl": 1000}
LENGTH: Mapping[str, object] = {"max-length": 100}
REFUSING: Mapping[str, object] = {"max-length": 1000, "overflow": "reject-publish"}
SMALL_PREFETCH = {"ITC_PREFETCH": "500"}
ACK_SECONDS = 1.5  # how long slow acknowledgements are on their way


@asynccontextmanager
async def policy(
    stage: Stage,
    definition: Mapping[str, object],
    kind: Literal["policies", "operator-policies"] = "policies",
) -> AsyncIterator[None]:
    """Have a policy for all queues while the block runs."""
    rule = {"pattern": EVERY_QUEUE, "definition": definition, "apply-to": "queues"}
    await stage.api("PUT", kind, stage.vhost, "drill", json=rule)
    try:
        yield
    finally:
        await stage.api("DELETE", kind, stage.vhost, "drill")


@fault(
    "ttl",
    "a policy: message-ttl 1000, service behind",
    stores=BOTH,
    settings=SMALL_PREFETCH,
    short=POSTGRES,
)
async def _ttl(stage: Stage) -> None:
    async with policy(stage, TTL), stage.behind():
        await stage.pass_by(5)


@fault("ttl-away", "a policy: message-ttl 1000, while the service is away", stores=BOTH)
async def _ttl_away(stage: Stage) -> None:
    async with stage.away(), policy(stage, TTL):
        await stage.pass_by(4)


@fault("ttl-operator", "an operator policy: message-ttl 1000, found on return", stores=BOTH)
async def _ttl_operator(stage: Stage) -> None:
    async with policy(stage, TTL, "operator-policies"):
        async with stage.away():
            await stage.pass_by(4)
        await stage.pass_by(2)


@fault("length", "a policy: max-length 100, service behind", stores=BOTH, settings=SMALL_PREFETCH)
async def _length(stage: Stage) -> None:
    async with policy(stage, LENGTH), stage.behind():
        await stage.pass_by(4)


@fault(
    "length-slow",
    "a policy: max-length 100, slow acknowledgements, connections cut",
    stores=BOTH,
    proxies=True,
)
async def _length_slow(stage: Stage) -> None:
    async with policy(stage, LENGTH):
        await cut_with_slow_acknowledgements(stage)


@fault("reject", "a policy: overflow reject-publish, service behind", settings=SMALL_PREFETCH)
async def _reject(stage: Stage) -> None:
    async with policy(stage, REFUSING), stage.behind():
        await stage.pass_by(5)


async def cut_with_slow_acknowledgements(stage: Stage) -> None:
    """Cut the service's connections while what it stored is not acknowledged yet."""
    proxy = stage.broker_proxy
    proxy.delayed, proxy.delay = is_ack, ACK_SECONDS
    for _ in range(4):
        await stage.pass_by(2.5)
        proxy.cut()
    proxy.delay = 0.0
