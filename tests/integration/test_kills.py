"""The service killed under load, on both databases; ``python -m drills.kills`` does more."""

from __future__ import annotations

from pathlib import Path

import pytest

from drills.judge import Report
from drills.kills import drill
from tools.servers import Broker


def is_right(report: Report, kills: int) -> None:
    assert (report.lost, report.doubled, report.wrong_stamps) == (0, 0, 0), report
    assert report.kills == kills
    assert report.events > 100


@pytest.mark.parametrize("kills", [2, pytest.param(5, marks=pytest.mark.long(30))])
async def test_nothing_is_lost_doubled_or_wrong_after_kills_on_sqlite(
    rabbit: Broker, tmp_path: Path, kills: int
) -> None:
    is_right(await drill(rabbit, f"sqlite:///{tmp_path / 'itc.db'}", kills, tmp_path), kills)


@pytest.mark.long(20)
async def test_nothing_is_lost_doubled_or_wrong_after_kills_on_postgresql(
    rabbit: Broker, postgres_url: str, tmp_path: Path
) -> None:
    is_right(await drill(rabbit, postgres_url, 3, tmp_path), 3)
