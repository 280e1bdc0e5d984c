"""The service's answers where the broker acts too; ``python -m drills.acts`` asks for more."""

from __future__ import annotations

from pathlib import Path

import pytest

from drills.acts.rounds import Round
from tools.servers import Broker


@pytest.mark.parametrize(
    ("seed", "kills"),
    [
        pytest.param(1, 0, marks=pytest.mark.long(10)),
        pytest.param(2, 0, marks=pytest.mark.long(10)),
        pytest.param(3, 1, marks=pytest.mark.long(15)),
    ],
)
async def test_nothing_false_is_said_of_what_a_broker_did(
    rabbit: Broker, tmp_path: Path, seed: int, kills: int
) -> None:
    url = f"sqlite:///{tmp_path / 'itc.db'}"
    found = await Round(rabbit, url, tmp_path, seed, kills=kills, actions=150).run()
    assert found.wrong == 0, found.lines()
    assert found.pairs > 3_000
    assert found.answers["cannot have"] > 0
    assert {"rejected", "returned", "dead letter"} <= found.steps.keys()
