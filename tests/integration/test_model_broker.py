"""A broker's firehose shows what that of its model does; ``python -m tests.model_broker.real``."""

from __future__ import annotations

import pytest

from tests.model_broker.real import differences
from tools.servers import Broker


@pytest.mark.parametrize(
    "seed", [3, *(pytest.param(n, marks=pytest.mark.long(20)) for n in (4, 9))]
)
async def test_a_broker_does_what_its_model_does(rabbit: Broker, seed: int) -> None:
    assert await differences(rabbit, seed) == []
