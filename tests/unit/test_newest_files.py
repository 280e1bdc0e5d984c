"""Files that jobs made, the newest first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.jobs.exports import Exports
from app.jobs.reports import Topologies
from model.exports import Quota, manifest_of


def test_documents_of_one_time_are_in_the_order_of_their_paths(tmp_path: Path) -> None:
    made = {"b": 1, "d": 1, "a": 1, "c": 2, "e": 0}
    for name, seconds in made.items():
        file = tmp_path / "shop" / f"{name}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"{}")
        os.utime(file, (seconds, seconds))
    found = Topologies(tmp_path).newest_first("*.json")
    assert [each.stem for each in found] == ["c", "d", "b", "a", "e"]


def test_a_document_is_passed_over_only_if_it_is_gone(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "gone.json").symlink_to("nowhere")
    assert Topologies(tmp_path).newest_first("*.json") == []
    (tmp_path / "shop" / "loop.json").symlink_to("loop.json")
    with pytest.raises(OSError, match="symbolic links"):
        Topologies(tmp_path).newest_first("*.json")


def test_an_export_that_cannot_be_looked_at_keeps_none_from_the_list(tmp_path: Path) -> None:
    file = tmp_path / "1-2" / "loop.json"
    file.parent.mkdir()
    file.symlink_to(file.name)
    manifest_of(file).write_bytes(b"{}")
    exports = Exports(tmp_path, tmp_path, Quota(files=1, bytes=1))
    assert exports.newest_first("*-*") == []
    assert exports.list() == []
