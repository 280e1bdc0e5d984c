"""Where trace messages are read, by the cores that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from app import main
from app.cores import usable_cores
from app.settings import Settings


@pytest.mark.parametrize(
    ("limit", "cores"),
    [("200000 100000", 2), ("50000 100000", 1), ("max 100000", 8), ("odd", 8), (None, 8)],
)
def test_a_container_s_limit_counts(
    limit: str | None, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    quota = tmp_path / "cpu.max"
    if limit is not None:
        quota.write_text(f"{limit}\n")
    assert usable_cores(quota) == cores


@pytest.mark.parametrize(
    ("how", "cores", "processes", "apart"),
    [
        ("auto", 2, 0, False),
        ("auto", 3, 0, True),
        ("auto", 4, 2, False),
        ("auto", 5, 2, True),
        ("on", 1, 0, True),
        ("off", 64, 0, False),
    ],
)
def test_reading_has_a_process_of_its_own_if_that_is_set_or_there_are_cores_to_spare(
    how: str, cores: int, processes: int, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "usable_cores", lambda: cores)
    settings = Settings.model_validate({"reading_process": how, "trace_processes": processes})
    assert main._is_read_apart(settings) == apart
