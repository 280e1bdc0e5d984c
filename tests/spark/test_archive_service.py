"""Archived and pruned through the service, a chain still gives the same file."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest

from app.jobs.process import SparkProcess
from app.store import Store
from app.traces.life import TraceState
from app.traces.retention import PruneCount, RetentionLimits, retain
from app.tracker import Bounds, Channel, Policy, Record, Tracker
from tests.api.conftest import World, connected, make_world
from tests.api.fakes import FakeTraces, trace_status
from tests.api.story import deliver, publish

MESSAGES = 120
FIRST, LAST = 9, 8 + 2 * MESSAGES  # after the events that each world begins with
CUT = 100


@dataclass
class PruningTraces(FakeTraces):
    """Traces that are not running, pruned as the registry would."""

    store: Store = field(init=False)

    async def remove(self, vhost: str, retention: RetentionLimits) -> PruneCount:
        trace = await self.store.traces.find(vhost)
        assert trace is not None
        restored = await self.store.checkpoints.restore(trace.id, Bounds().handovers)
        tracker = Tracker(Policy(trace.policy), Bounds(), restored)
        return await retain(self.store.retention, trace.id, tracker, retention)


def gossip() -> list[Record]:
    """Each sends to the next."""
    chance = random.Random(4)
    actors = [Channel("rabbit@one", f"10.0.1.{n}:1 -> 10.0.0.9:5672", 1, f"u{n}") for n in range(5)]
    records: list[Record] = []
    actor = actors[0]
    for number in range(MESSAGES):
        body, queue = str(number).encode(), "q"
        records.append(publish(actor, "step", queue, body=body))
        actor = chance.choice(actors)
        records.append(deliver(actor, "step", queue, body))
    return records


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    world: World = make_world(tmp_path)
    world.traces = traces = PruningTraces(
        frozenset({"/"}), {"/": trace_status("/", TraceState.stopped)}
    )
    world.spark = SparkProcess(f"sqlite:///{tmp_path / 'itc.db'}", master="local[1]", memory="512m")
    async with connected(world.app(), auth=("admin", "secret"), timeout=300) as client:
        traces.store = world.store
        await world.tell(*gossip())
        yield client


async def test_a_chain_survives_the_pruning_of_its_beginning(client: httpx2.AsyncClient) -> None:
    before = (await client.put(f"/itc_db/undefined/{FIRST}/{LAST}/before.csv")).json()
    time = (await client.get(f"/itc_db/events/{CUT}")).json()["recorded_at"]
    archived = await client.put("/itc_db/archive", params={"vhost": "/", "before": time})
    pruned = await client.delete("/itc_db", params={"vhost": "/", "archived": True})
    after = (await client.put(f"/itc_db/undefined/{FIRST}/{LAST}/after.csv")).json()
    gone = await client.get(f"/itc_db/events/{CUT - 1}")
    stays = await client.get(f"/itc_db/events/{CUT}")

    assert (archived.status_code, archived.json()["through"]) == (201, CUT - 1)
    assert pruned.json()["events"] == archived.json()["events"]
    assert (gone.status_code, stays.status_code) == (404, 200)
    assert (before["plan"]["form"], after["plan"]["form"]) == ("ranges", "followed")
    assert before["events"] == after["events"] > MESSAGES
    assert before["sha256"] == after["sha256"]
