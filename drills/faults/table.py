"""The faults, a row each: what is done, on which store, and what it needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from drills.faults.stage import BODY, Stage

Act: TypeAlias = Callable[[Stage], Awaitable[None]]
Store: TypeAlias = Literal["sqlite", "postgres"]

SQLITE: tuple[Store, ...] = ("sqlite",)
POSTGRES: tuple[Store, ...] = ("postgres",)
BOTH: tuple[Store, ...] = ("sqlite", "postgres")

TRACE_QUEUE = "itc.trace"
EVERY_QUEUE = "^(?!observer).*$"  # a policy for all queues, which spares the observer's


@dataclass(frozen=True)
class Fault:
    """A row: ``act`` does it, while clients work.

    ``broker``: which one it needs. ``settings`` are the service's. ``pause`` and ``body`` are
    those of the clients; ``proxies``: the service reaches its broker and its database through
    `Proxy`. ``short``: in the short form.
    """

    name: str
    title: str
    act: Act
    stores: tuple[Store, ...] = SQLITE
    broker: Literal["node", "cluster", "no statistics"] = "node"
    settings: Mapping[str, str] = field(default_factory=dict)
    pause: float = 0.025
    body: bytes = BODY
    proxies: bool = False
    processes: int = 0
    short: bool = False


FAULTS: dict[str, Fault] = {}


def fault(name: str, title: str, **options: object) -> Callable[[Act], Act]:
    """Make a row of a function."""

    def row(act: Act) -> Act:
        if name in FAULTS:
            raise ValueError(f"two faults are called {name}")
        FAULTS[name] = Fault(name, title, act, **options)  # type: ignore[arg-type]
        return act

    return row


# Controls


@fault("nothing", "nothing", stores=BOTH, short=True)
async def _nothing(stage: Stage) -> None:
    await stage.pass_by(2)


@fault("kills", "the service killed, 4 times", stores=BOTH, short=True)
async def _kills(stage: Stage) -> None:
    for _ in range(4):
        async with stage.away():
            await stage.pass_by(0.3)
        await stage.pass_by(0.7)


# Tracing


@fault("tracing", "tracing switched off and on", short=True)
async def _tracing(stage: Stage) -> None:
    await _off_and_on(stage)


@fault("tracing-away", "tracing switched off and on while the service is away")
async def _tracing_away(stage: Stage) -> None:
    async with stage.away():
        await _off_and_on(stage)


async def _off_and_on(stage: Stage) -> None:
    await stage.api("PUT", "vhosts", stage.vhost, json={"tracing": False})
    await stage.pass_by(2)
    await stage.api("PUT", "vhosts", stage.vhost, json={"tracing": True})


# The trace queue


@fault("ttl", "a policy with message-ttl 1000, service away", stores=BOTH)
async def _ttl(stage: Stage) -> None:
    await _policy(stage, "policies", {"message-ttl": 1000})
    async with stage.away():
        await stage.pass_by(4)


@fault("purge-away", "the trace queue purged while the service is away", short=True)
async def _purge_away(stage: Stage) -> None:
    async with stage.away():
        await stage.pass_by(2)
        await stage.api("DELETE", "queues", stage.vhost, TRACE_QUEUE, "contents")


async def _policy(stage: Stage, kind: str, definition: Mapping[str, object]) -> None:
    rule = {"pattern": EVERY_QUEUE, "definition": definition, "apply-to": "queues"}
    await stage.api("PUT", kind, stage.vhost, "drill", json=rule)
