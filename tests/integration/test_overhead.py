"""The bench of what tracing costs, in small: that it runs, not what it measures."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import overhead


@pytest.mark.long(24)
def test_the_bench_measures_every_state_and_tabulates_it() -> None:
    words = "--bodies 100 --clients 2 --queues classic --seconds 0.5 --rounds 1"
    version, seen = overhead.measured(overhead.arguments(words.split()))
    assert version
    assert [one.state for one in seen] == list(overhead.STATES)
    assert all(one.traffic.rate > 0 and one.memory > 0 for one in seen)
    heads, _, row = overhead.table(seen)
    assert heads.count("|") == row.count("|")


def test_a_table_replaces_what_stood_between_the_markers_of_its_series(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    begin, end = overhead.markers("3.10.8")
    document.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    overhead.write_between(document, "3.10.25", ["new"])
    assert document.read_text() == f"before\n{begin}\n\nnew\n\n{end}\nafter\n"


def test_a_document_without_markers_of_the_series_is_left_alone(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    before = "\n".join(("before", *overhead.markers("3.10.8"), ""))
    document.write_text(before)
    with pytest.raises(ValueError, match="no markers"):
        overhead.write_between(document, "4.3.1", ["new"])
    assert document.read_text() == before


@pytest.mark.parametrize("version", ["3.10.8", "4.3.6"])
def test_the_document_has_a_place_for_each_series_that_is_measured(version: str) -> None:
    assert all(marker in overhead.PAGE.read_text() for marker in overhead.markers(version))
