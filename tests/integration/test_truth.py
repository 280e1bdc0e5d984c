"""The service's clocks against clocks that the clients kept themselves.

``python -m drills.truth``, a part of ``make soak``, is the large one.
"""

from __future__ import annotations

import pytest

from drills.hearsay import Hearsay
from drills.truth import judged
from drills.workload import work
from tests.integration.conftest import Service
from tools.servers import Broker

PAIRS = 50_000


@pytest.mark.parametrize(
    ("workers", "actions"),
    [
        pytest.param(3, 60, marks=pytest.mark.long(4)),
        (12, 25),
        pytest.param(50, 8, marks=pytest.mark.long(15)),
    ],
)
async def test_every_relation_is_the_one_that_the_clients_know(
    service: Service, rabbit: Broker, vhost: str, workers: int, actions: int
) -> None:
    await service.running(vhost)
    history = await work(rabbit.amqp_url(vhost), seed=workers, workers=workers, actions=actions)
    await service.registry.stop(vhost)
    verdict = judged(await service.events(vhost), history, PAIRS, seed=workers)
    assert (verdict.disagreements, verdict.missing) == ([], 0)
    assert (await service.registry.status(vhost)).participants == workers
    assert verdict.pairs == PAIRS
    assert set(verdict.relations) == {"before", "after", "equal", "concurrent"}


@pytest.mark.parametrize(
    ("workers", "actions"), [pytest.param(3, 60, marks=pytest.mark.long(8)), (12, 25)]
)
async def test_so_is_every_relation_where_messages_name_causes(
    service: Service, rabbit: Broker, vhost: str, workers: int, actions: int
) -> None:
    """Clients at two places name messages of which they heard outside the broker."""
    await service.running(vhost)
    hearsay = Hearsay()
    history = await work(rabbit.amqp_url(vhost), workers, workers, actions, hearsay)
    await service.registry.stop(vhost)
    verdict = judged(await service.events(vhost), history, PAIRS, seed=workers)
    assert (verdict.disagreements, verdict.missing) == ([], 0)
    found = (await service.registry.status(vhost)).links
    assert sum(counts.found for counts in found.values()) >= hearsay.named > 10
