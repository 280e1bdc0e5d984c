"""The service's answers where the broker acts too; ``python -m drills.acts`` asks for more."""

from __future__ import annotations

from pathlib import Path

import pytest

from drills.acts.rounds import Round
from tools.servers import Broker


@pytest.mark.parametrize(
    ("seed", "kills", "restamps"),
    [
        pytest.param(1, 0, False, marks=pytest.mark.long(10)),
        pytest.param(2, 0, True, marks=pytest.mark.long(20)),
        pytest.param(3, 1, False, marks=pytest.mark.long(15)),
    ],
)
async def test_nothing_false_is_said_of_what_a_broker_did(
    rabbit: Broker, tmp_path: Path, seed: int, kills: int, restamps: bool
) -> None:
    url = f"sqlite:///{tmp_path / 'itc.db'}"
    round_ = Round(rabbit, url, tmp_path, seed, kills=kills, actions=150, restamps=restamps)
    outcomes = await round_.run()
    assert len(outcomes) == 1 + restamps
    for found in outcomes:
        assert found.wrong == 0, found.lines()
        assert found.pairs > 3_000
        assert found.answers["cannot have"] > 0
        assert {"rejected", "returned", "dead letter"} <= found.steps.keys()


@pytest.mark.parametrize("seed", [2, pytest.param(5, marks=pytest.mark.long(20))])
async def test_clocks_say_just_what_is_true_where_nothing_dies(
    rabbit: Broker, tmp_path: Path, seed: int
) -> None:
    """Programs at two places name messages of which they heard outside the broker."""
    url = f"sqlite:///{tmp_path / 'itc.db'}"
    round_ = Round(rabbit, url, tmp_path, seed, actions=300, is_plain=True)
    [found] = await round_.run()
    assert found.wrong == 0, found.lines()
    assert found.pairs > 10_000
    assert set(found.relations) == {"before", "concurrent"}
    assert sum(len(act.causes) for act in round_.log.acts) > 10
