"""The trace queue: full, purged, unbound, made by somebody else."""

from __future__ import annotations

from collections.abc import Mapping

from drills.faults.rows.policies import cut_with_slow_acknowledgements
from drills.faults.stage import Stage
from drills.faults.table import BOTH, SQLITE, fault

TRACE_QUEUE = "itc.trace"
TRACE_EXCHANGE = "amq.rabbitmq.trace"
SMALL_QUEUE = {"ITC_TRACE_QUEUE_MAX_MESSAGES": "500"}
SMALL_PREFETCH = {"ITC_PREFETCH": "100"}
BIND_SECONDS = 20.0  # the service looks every 15 s


@fault(
    "full-slow",
    "the queue's own limit, slow acknowledgements, connections cut",
    stores=BOTH,
    short=SQLITE,
    proxies=True,
    settings=SMALL_QUEUE,
)
async def _full_slow(stage: Stage) -> None:
    await cut_with_slow_acknowledgements(stage)


@fault(
    "full-unseen",
    "the queue's own limit, on a broker without statistics",
    broker="no statistics",
    settings={**SMALL_QUEUE, **SMALL_PREFETCH},
)
async def _full_unseen(stage: Stage) -> None:
    async with stage.behind():
        await stage.pass_by(5)


@fault(
    "full-thirds",
    "messages of a third of the limit: the queue drops and is never 95 % full",
    settings={"ITC_TRACE_QUEUE_MAX_BYTES": "300000", "ITC_PREFETCH": "2"},
    body=b"x" * 110_000,
    pause=0.2,
)
async def _full_thirds(stage: Stage) -> None:
    async with stage.behind():
        await stage.pass_by(3)


@fault("purge-away", "the trace queue purged while the service is away")
async def _purge_away(stage: Stage) -> None:
    async with stage.away():
        await stage.pass_by(2)
        await _purge(stage)


@fault(
    "purge-behind",
    "the trace queue purged while the service is behind",
    settings=SMALL_PREFETCH,
    short=SQLITE,
)
async def _purge_behind(stage: Stage) -> None:
    async with stage.behind():
        await stage.pass_by(3)
        await _purge(stage)
        await stage.pass_by(0.5)


async def _purge(stage: Stage) -> None:
    await stage.api("DELETE", "queues", stage.vhost, TRACE_QUEUE, "contents")


@fault("unbound", "the trace queue's binding removed, and made again by hand")
async def _unbound(stage: Stage) -> None:
    await _unbind(stage)
    await stage.pass_by(3)
    await _bind(stage)


@fault("unbound-left", "the trace queue's binding removed")
async def _unbound_left(stage: Stage) -> None:
    await _unbind(stage)
    await stage.until(stage.captures, BIND_SECONDS, "the queue is bound again")


@fault("remade", "the trace queue deleted, and made again by somebody else")
async def _remade(stage: Stage) -> None:
    await _remake(stage)
    await stage.pass_by(3)


@fault("remade-away", "the same, while the service is away")
async def _remade_away(stage: Stage) -> None:
    async with stage.away():
        await stage.pass_by(1)
        await _remake(stage)
        await stage.pass_by(1)


async def _remake(stage: Stage) -> None:
    there = await stage.api("GET", "queues", stage.vhost, TRACE_QUEUE)
    await stage.api("DELETE", "queues", stage.vhost, TRACE_QUEUE)
    same: Mapping[str, object] = {"durable": True, "arguments": there["arguments"]}
    await stage.api("PUT", "queues", stage.vhost, TRACE_QUEUE, json=same)
    await _bind(stage)


async def _bind(stage: Stage) -> None:
    path = ("bindings", stage.vhost, "e", TRACE_EXCHANGE, "q", TRACE_QUEUE)
    await stage.api("POST", *path, json={"routing_key": "#"})


async def _unbind(stage: Stage) -> None:
    path = ("bindings", stage.vhost, "e", TRACE_EXCHANGE, "q", TRACE_QUEUE)
    for binding in await stage.api("GET", *path):
        await stage.api("DELETE", *path, binding["properties_key"])
