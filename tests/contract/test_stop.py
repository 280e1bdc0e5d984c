"""A trace stops whatever the broker says; what is left there is tidied up later."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from app.errors import OutageError
from app.store import Store
from app.traces.holding import here
from app.traces.life import TraceState
from app.traces.pipeline import PipelineSettings
from app.traces.registry import TraceRegistry
from tests.introductions import NOBODY

VHOST = "shop"


class Away:
    """A broker that is away until it is ``back``."""

    def __init__(self) -> None:
        self.is_back = False
        self.asked: list[str] = []

    @asynccontextmanager
    async def open(self, vhost: str, *more: Any) -> AsyncIterator[Any]:
        raise OutageError("nothing listens there")
        yield

    async def check_firehose(self) -> None:
        pass

    async def has_vhost(self, vhost: str) -> bool:
        return True

    async def switch_off(self, vhost: str) -> None:
        self._answer("switch off")

    async def delete_queue(self, vhost: str) -> None:
        self._answer("delete queue")

    def _answer(self, what: str) -> None:
        if not self.is_back:
            raise OutageError("nothing listens there")
        self.asked.append(what)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "TIDY_SECONDS", 0.01)


async def test_a_trace_stops_while_the_broker_is_away_and_leaves_nothing_when_it_is_back(
    store: Store,
) -> None:
    broker = Away()
    traces = TraceRegistry(store, broker, PipelineSettings(), NOBODY)  # type: ignore[arg-type]
    await traces.start(VHOST, None)
    await traces.stop(VHOST)
    status = await traces.status(VHOST)
    tidying = traces.here._tidying[VHOST]
    broker.is_back = True
    await tidying
    trace = await store.traces.find(VHOST)
    await traces.shutdown(1)

    assert (status.state, status.wanted) == (TraceState.stopped, False)
    assert [gap.reason for gap in status.gaps] == ["the trace was stopped"]
    assert broker.asked == ["switch off", "delete queue"]
    assert trace is not None
    assert trace.holder is None


async def test_what_a_stopped_trace_left_is_tidied_up_by_the_next_service(store: Store) -> None:
    broker = Away()
    first = TraceRegistry(store, broker, PipelineSettings(), NOBODY)  # type: ignore[arg-type]
    await first.start(VHOST, None)
    await first.stop(VHOST)
    await first.shutdown(1)
    broker.is_back = True
    second = TraceRegistry(store, broker, PipelineSettings(), NOBODY, service="another")  # type: ignore[arg-type]
    await second.resume()
    await second.here._tidying[VHOST]
    trace = await store.traces.find(VHOST)
    await second.shutdown(1)

    assert broker.asked == ["switch off", "delete queue"]
    assert trace is not None
    assert trace.holder is None


async def test_a_trace_that_is_started_again_is_left_alone(store: Store) -> None:
    broker = Away()
    traces = TraceRegistry(store, broker, PipelineSettings(), NOBODY)  # type: ignore[arg-type]
    await traces.start(VHOST, None)
    await traces.stop(VHOST)
    tidying = traces.here._tidying[VHOST]
    await traces.start(VHOST, None)
    broker.is_back = True
    await tidying
    wanted = (await traces.status(VHOST)).wanted
    await traces.shutdown(1)

    assert wanted
    assert broker.asked == []
