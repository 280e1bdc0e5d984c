"""A process that restamps one trace: ``python -m app.restamp.process``.

Reads orders as `app.orders` says, and when the trace pauses a further line: the epoch under which
it may write. Reports its progress (see `app.jobs.restamp`). When its stdin ends, nobody holds the
trace any more.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import msgspec

from app.orders import Lines, obey, tell_progress, tell_service
from app.restamp.replay import Replay
from app.settings import Settings
from app.store.opening import open_store
from app.stored.capture import ParticipantSettings, RestampedTrace
from app.traces.opening import pipeline_settings
from app.tracker import Policy
from app.tracker.links import Rule, merge_rules
from model.described import json_of


class RestampOrder(msgspec.Struct, frozen=True):
    """An order to restamp a trace by these rules."""

    vhost: str
    trace_id: int
    participant: str
    quiet: tuple[str, ...]
    # Read the messages again, too, by the rules of all virtual hosts and its own.
    link_rules: list[dict[str, Any]] | None = None


async def _restamp(settings: Settings, order: RestampOrder, lines: Lines) -> None:
    pipeline = pipeline_settings(settings, tuple(map(Rule.from_json, order.link_rules or ())))
    async with AsyncExitStack() as stack:
        store = await open_store(stack, settings)
        links = None
        if order.link_rules is not None:
            links = merge_rules(
                pipeline.rules_of_all, await store.link_rules.list_own(order.trace_id)
            )
        rules = ParticipantSettings(order.participant, order.quiet, links)
        replay = Replay(store.restamps, order.trace_id, rules, tell_progress, pipeline)
        await replay.catch_up()
        tell_service("caught up")
        outcome = await replay.finish(msgspec.json.decode(await lines.get(), type=int))
        trace = RestampedTrace(order.vhost, Policy(order.participant), order.quiet)
        tell_service("done", result=json_of(trace) | json_of(outcome))
        await replay.tidy()
        tell_service("tidy")


if __name__ == "__main__":
    obey(RestampOrder, _restamp)
