"""The service's clocks against clocks that the clients kept themselves."""

from __future__ import annotations

import random

import pytest

from itc import compare
from tests.integration.conftest import Service
from tests.integration.workload import event_name, relation, work
from tools.servers import Broker

PAIRS = 50_000


@pytest.mark.parametrize(("workers", "actions"), [(3, 60), (12, 25), (50, 8)])
async def test_every_relation_is_the_one_that_the_clients_know(
    service: Service, rabbit: Broker, vhost: str, workers: int, actions: int
) -> None:
    await service.running(vhost)
    history = await work(rabbit.amqp_url(vhost), seed=workers, workers=workers, actions=actions)
    await service.registry.stop(vhost)
    events = await service.events(vhost)
    assert sorted(map(event_name, events)) == sorted(history)
    assert (await service.registry.status(vhost)).participants == workers
    clocks = [history[event_name(event)] for event in events]
    sample = random.Random(workers)
    disagreements = []
    seen = set()
    for _ in range(PAIRS):
        a, b = sample.randrange(len(events)), sample.randrange(len(events))
        service_says = compare(events[a].stamp, events[b].stamp).name
        seen.add(service_says)
        if service_says != relation(clocks[a], clocks[b]):
            disagreements.append((event_name(events[a]), event_name(events[b]), service_says))
    assert disagreements == []
    assert seen == {"before", "after", "equal", "concurrent"}
