"""The bench of what tracing costs, in small: that it runs, not what it measures."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import overhead


@pytest.mark.long(16)
def test_the_bench_measures_every_state_and_tabulates_it() -> None:
    words = "--bodies 100 --clients 2 --queues classic --seconds 0.5 --rounds 1"
    version, seen = overhead.measured(overhead.arguments(words.split()))
    assert version
    assert [one.state for one in seen] == list(overhead.STATES)
    assert all(one.traffic.rate > 0 and one.memory > 0 for one in seen)
    assert len(overhead.table(seen)) == 2 + len(overhead.STATES)


def test_the_table_replaces_what_stood_between_the_markers(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text(f"before\n{overhead.BEGIN}\nold\n{overhead.END}\nafter\n")
    overhead.write_between(document, ["new"])
    assert document.read_text() == (f"before\n{overhead.BEGIN}\n\nnew\n\n{overhead.END}\nafter\n")


def test_a_document_without_markers_is_left_alone(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("before\n")
    with pytest.raises(ValueError, match="no markers"):
        overhead.write_between(document, ["new"])
    assert document.read_text() == "before\n"
