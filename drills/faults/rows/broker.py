"""Tracing, nodes, and connections to the broker."""

from __future__ import annotations

import time

from drills.faults.stage import Stage
from drills.faults.table import BOTH, SQLITE, fault
from tools.servers import RabbitCluster

BACK_SECONDS = 25.0  # heartbeats show a half-open connection within 20 s
PATIENCE_SECONDS = 60.0


@fault("tracing", "tracing switched off and on again between two checks", short=SQLITE)
async def _tracing(stage: Stage) -> None:
    await _off_and_on(stage)


@fault("tracing-away", "the same, while the service is away")
async def _tracing_away(stage: Stage) -> None:
    async with stage.away():
        await _off_and_on(stage)


async def _off_and_on(stage: Stage) -> None:
    await stage.api("PUT", "vhosts", stage.vhost, json={"tracing": False})
    await stage.pass_by(2)
    await stage.api("PUT", "vhosts", stage.vhost, json={"tracing": True})


@fault("broker-killed", "the broker killed and started again", stores=BOTH)
async def _broker_killed(stage: Stage) -> None:
    await stage.restart_broker()
    await stage.until(stage.captures, PATIENCE_SECONDS, "the trace goes on")


@fault("node-killed", "a node of a three-node cluster killed, twice", broker="cluster")
async def _node_killed(stage: Stage) -> None:
    if not isinstance(stage.broker, RabbitCluster):
        raise TypeError("no cluster")
    for node in stage.broker.nodes[1:]:
        await stage.restart_broker(node)
        await stage.pass_by(4)


@fault("half-open", "a half-open connection to the broker", proxies=True, keeps=True)
async def _half_open(stage: Stage) -> None:
    began = time.monotonic()
    stage.broker_proxy.stall()
    if not await stage.caught_up(PATIENCE_SECONDS):
        stage.notes.append(f"the trace has not gone on within {PATIENCE_SECONDS:g} s")
        stage.broker_proxy.cut()
    elif (took := time.monotonic() - began) > BACK_SECONDS:
        stage.notes.append(f"the trace went on after {took:.0f} s, not within {BACK_SECONDS:g} s")
