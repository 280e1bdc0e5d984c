"""A process that restamps one trace: ``python -m app.restamp.process``.

Reads its settings from the first line of stdin, its order from the second, and when the trace
pauses a third: the epoch under which it may write. Reports its progress on stdout (see
`app.jobs.restamp`). It ends at once when its stdin does: then nobody holds the trace any more.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import uvloop

from app.children import orders_of_service, tell_service
from app.errors import ItcError
from app.garbage import tune_garbage_collection
from app.restamp.replay import Replay
from app.settings import Settings
from app.store.opening import open_store
from app.stored.capture import ParticipantSettings, RestampedTrace
from app.traces.opening import pipeline_settings
from app.tracker import Policy
from app.tracker.links import Rule, merge_rules
from model.described import json_of
from model.jobs import Progress

# An order may hold all rules of a file.
ORDER_BYTES = 1 << 24


class RestampOrder(msgspec.Struct, frozen=True):
    """An order to restamp a trace by these rules."""

    vhost: str
    trace_id: int
    participant: str
    quiet: tuple[str, ...]
    # Read the messages again, too, by the rules of all virtual hosts and its own.
    link_rules: list[dict[str, Any]] | None = None


async def _restamp(order: RestampOrder, settings: Settings, paused: asyncio.Future[int]) -> None:
    pipeline = pipeline_settings(settings, tuple(map(Rule.from_json, order.link_rules or ())))
    async with AsyncExitStack() as stack:
        store = await open_store(stack, settings)
        links = None
        if order.link_rules is not None:
            links = merge_rules(
                pipeline.rules_of_all, await store.link_rules.list_own(order.trace_id)
            )
        rules = ParticipantSettings(order.participant, order.quiet, links)
        replay = Replay(store.restamps, order.trace_id, rules, _tell, pipeline)
        await replay.catch_up()
        _say("caught up")
        outcome = await replay.finish(await paused)
        trace = RestampedTrace(order.vhost, Policy(order.participant), order.quiet)
        _say("done", result=json_of(trace) | json_of(outcome))
        await replay.tidy()
        _say("tidy")


def _tell(progress: Progress) -> None:
    _say("progress", **msgspec.to_builtins(progress))


def _say(word: str, **fields: Any) -> None:
    tell_service({"say": word, **fields})


async def _watch(orders: asyncio.StreamReader, paused: asyncio.Future[int]) -> None:
    """Wait for the pause, and then for the end of stdin, at which the process ends at once."""
    if line := await orders.readline():
        paused.set_result(msgspec.json.decode(line, type=int))
        await orders.read()
    os._exit(1)


async def _main() -> None:
    orders = await orders_of_service(ORDER_BYTES)
    settings = Settings.model_validate(msgspec.json.decode(await orders.readline()))
    order = msgspec.json.decode(await orders.readline(), type=RestampOrder)
    paused: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    watching = asyncio.create_task(_watch(orders, paused))
    try:
        await _restamp(order, settings, paused)
    except ItcError as error:
        _say("error", reason=str(error))
    finally:
        watching.cancel()


def main() -> None:
    tune_garbage_collection()
    uvloop.run(_main())


if __name__ == "__main__":
    main()
