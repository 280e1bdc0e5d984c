"""A running trace is restamped: it pauses, goes on by the new rules, and loses nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from app.jobs.folders import Archives
from app.jobs.restamp import RestampProcess
from app.secret_url import SecretUrl
from app.settings import Settings
from app.stored.jobs import Json
from itc import Relation, compare
from model.jobs import Progress
from tests.integration.conftest import Service
from tests.integration.test_capture import send_and_receive
from tools.servers import Broker


async def test_a_running_trace_loses_nothing(
    service: Service, rabbit: Broker, vhost: str, tmp_path: Path
) -> None:
    await service.running(vhost, "channel")
    await send_and_receive(rabbit, vhost, 20)
    trace = await service.store.traces.find(vhost)
    assert trace is not None
    settings = Settings(
        amqp_url=SecretUrl(rabbit.amqp_url("/")), data_dir=tmp_path, database_migrate=False
    )
    process = RestampProcess(
        msgspec.json.encode(settings.portable()),
        service.registry.here.paused,
        Archives(tmp_path / "archives"),
    )
    work: Json = {"vhost": vhost, "trace_id": trace.id, "participant": "user", "quiet": []}
    ended = asyncio.Event()
    said: list[Progress] = []

    async def traffic() -> int:
        rounds = 0
        while not ended.is_set():
            await send_and_receive(rabbit, vhost, 5, f"q{rounds}")
            rounds += 1
        return rounds

    busy = asyncio.create_task(traffic())
    result = await process.run(1, "restamp", work, said.append)
    ended.set()
    rounds = await busy
    await send_and_receive(rabbit, vhost, 5, "last")

    events = await service.stored(vhost, 50 + 10 * rounds)
    assert len(events) == 50 + 10 * rounds
    assert result["participants"] == 1
    assert said[-1].percent == 100.0
    # One user: everything is in order, what came later with what was stored before.
    assert {event.participant_name for event in events} == {rabbit.user}
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert compare(events[0].stamp, events[-1].stamp) is Relation.before
    status = await service.registry.status(vhost)
    assert (status.policy, status.quiet, status.gaps) == ("user", (), [])
    assert (status.counters.published, status.counters.received) == (len(events) // 2,) * 2
