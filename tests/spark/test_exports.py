"""The folder of exports: plain names, whole files, nothing else visible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO

import pytest

from app.errors import BadRequestError, NotFoundError, QuotaError
from app.jobs.exports import Exports
from model.described import json_of
from model.exports import FORMATS, Quota, manifest_of
from model.jobs import Problem
from spark_jobs.errors import JobError
from spark_jobs.export import open_whole, write_file


@pytest.fixture
def exports(tmp_path: Path) -> Exports:
    return Exports(tmp_path / "exports", tmp_path / "archives", Quota(files=5, bytes=1_000))


def put(exports: Exports, file: str, from_id: int = 1, to_id: int = 2, vhost: str = "/") -> Path:
    """An export as a worker writes it."""
    target = Path(exports.request(vhost, from_id, to_id, file, "ann").work["output"])
    with open_whole(target) as out:
        out.write(b"content")
        write_file(manifest_of(target), json.dumps({"vhost": vhost, "events": 3}).encode())
    return target


@pytest.mark.parametrize(
    "file",
    ["", ".", "..", ".hidden", "a/b", "a\\b", "a\0b", "a b.json", "é.json", "x" * 201, "a\n.json"],
)
def test_a_name_that_is_not_plain_is_refused(exports: Exports, file: str) -> None:
    for refused in (
        lambda: Exports.check_format(file),
        lambda: exports.request("/", 1, 2, file, "ann"),
        lambda: exports.find((1, 2), file),
        lambda: exports.delete((1, 2), file),
    ):
        with pytest.raises(BadRequestError, match="letters"):
            refused()


@pytest.mark.parametrize("file", ["a.exe", "a.json.gz", "a.jsonl.manifest.json"])
def test_an_unknown_extension_is_refused(file: str) -> None:
    with pytest.raises(BadRequestError, match=r"\.parquet"):
        Exports.check_format(file)


@pytest.mark.parametrize("file", ["a", "order.jsonl", "A-1_b.c.trace.json", "x" * 200, "-.csv"])
def test_plain_names_are_taken(file: str) -> None:
    assert Exports.check_format(file)


def test_equal_ids_are_refused(exports: Exports) -> None:
    with pytest.raises(BadRequestError, match="two events"):
        exports.request("/", 3, 3, "a", "ann")


def test_a_request_says_where_the_file_will_be(exports: Exports, tmp_path: Path) -> None:
    request = exports.request("/", 12, 40, "order.csv", "ann")
    assert request.shown == {"from": 12, "to": 40, "file": "order.csv"}
    assert request.work["output"] == str(tmp_path / "exports" / "12-40" / "order.csv")
    assert request.work["format"] == "csv"
    finished = request.finish(7, {"file": "order.csv"})
    assert finished["location"] == "/itc_db/undefined/12/40/order.csv"
    assert request.finish(7, {"file": None})["location"] is None


def test_the_same_export_asked_for_by_two_is_one_request(exports: Exports) -> None:
    ann = exports.request("/", 1, 2, "a", "ann")
    assert ann.key == exports.request("/", 1, 2, "a", "ben").key
    assert ann.key != exports.request("/", 2, 1, "a", "ann").key
    assert ann.key != exports.request("/", 1, 2, "a.json", "ann").key


def test_an_export_is_found_listed_and_removed(exports: Exports) -> None:
    target = put(exports, "b.csv", 3, 4, "shop")
    put(exports, "a.jsonl")
    one = exports.find((3, 4), "b.csv")
    assert (one.path, one.vhost, one.media_type) == (target, "shop", FORMATS["csv"].media_type)
    [export] = [each for each in exports.list() if each.file == "b.csv"]
    assert (export.vhost, export.bytes, export.events) == ("shop", 7, 3)
    assert export.location == "/itc_db/undefined/3/4/b.csv"
    assert {(e.from_id, e.to_id, e.file) for e in exports.list()} == {
        (3, 4, "b.csv"),
        (1, 2, "a.jsonl"),
    }
    exports.delete((3, 4), "b.csv")
    assert [e.file for e in exports.list()] == ["a.jsonl"]
    assert not target.parent.exists()
    with pytest.raises(NotFoundError):
        exports.delete((3, 4), "b.csv")


def test_no_folder_means_no_exports(exports: Exports) -> None:
    assert exports.list() == []
    assert exports.sweep() == 0
    with pytest.raises(NotFoundError):
        exports.find((1, 2), "a")


def test_what_is_half_written_is_never_visible_and_swept_away(exports: Exports) -> None:
    target = put(exports, "a.jsonl")
    leftover = target.with_name(".b.jsonl.0123456789ab.part")
    leftover.write_bytes(b"half")
    (target.parent / "no-manifest.jsonl").write_bytes(b"who wrote this?")
    manifest_of(target.with_name("gone.jsonl")).write_bytes(b"{}")
    assert [e.file for e in exports.list()] == ["a.jsonl"]
    with pytest.raises(NotFoundError):
        exports.find((1, 2), "no-manifest.jsonl")
    assert exports.sweep() == 1
    assert not leftover.exists()
    assert exports.find((1, 2), "a.jsonl")


def test_other_peoples_files_in_the_folder_are_left_alone(exports: Exports, tmp_path: Path) -> None:
    put(exports, "a.jsonl")
    (tmp_path / "exports" / "notes").mkdir()
    (tmp_path / "exports" / "README").write_text("mine")
    exports.sweep()
    assert [e.file for e in exports.list()] == ["a.jsonl"]
    assert (tmp_path / "exports" / "README").exists()


def write_half(target: Path) -> None:
    with open_whole(target) as file:
        file.write(b"half")
        raise RuntimeError


def test_a_file_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "1-2" / "a"
    with pytest.raises(RuntimeError):
        write_half(target)
    assert list(target.parent.iterdir()) == []


def test_a_file_that_fails_half_way_leaves_the_one_before(tmp_path: Path) -> None:
    target = tmp_path / "a"
    write_file(target, b"before")
    with pytest.raises(RuntimeError):
        write_half(target)
    assert target.read_bytes() == b"before"


def test_a_full_disk_is_said_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, mode: str) -> IO[bytes]:
        del path, mode
        return open("/dev/full", "wb")  # noqa: PTH123 - Path.open is what this stands for

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(JobError, match="full; free some space") as caught:
        write_file(tmp_path / "a", b"x" * 100_000)
    assert caught.value.problem is Problem.outage
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(JobError, match="could not be written"):
        write_file(tmp_path / "file" / "1-2" / "a", b"x")


def test_formats_are_listed_for_the_api() -> None:
    rows = json_of([*FORMATS.values()])
    assert rows[0].keys() == {"extension", "media_type", "title"}
    assert {".jsonl", ".json", ".csv", ".txt", ".parquet"} <= {row["extension"] for row in rows}


def write_within(quota: Quota, target: Path, *parts: bytes) -> None:
    with open_whole(target, quota) as file:
        for part in parts:
            file.write(part)


def test_an_export_ends_at_the_quota_and_leaves_nothing(exports: Exports, tmp_path: Path) -> None:
    put(exports, "a.jsonl")
    used = exports.usage()
    quota = Quota(files=9, bytes=used.bytes + 100)
    target = tmp_path / "exports" / "3-4" / "b.jsonl"
    with pytest.raises(JobError, match="ITC_EXPORTS_MAX_BYTES") as caught:
        write_within(quota, target, b"x" * 100, b"x")
    assert caught.value.problem is Problem.full
    assert list(target.parent.iterdir()) == []
    assert exports.usage() == used

    write_within(quota, target, b"x" * 100)
    assert target.read_bytes() == b"x" * 100


def test_a_full_folder_is_said_before_a_job_runs(exports: Exports, tmp_path: Path) -> None:
    for number in range(5):
        put(exports, f"{number}.jsonl")
    with pytest.raises(QuotaError, match="5 files"):
        exports.check_room((3, 4), "b.jsonl")
    with (
        pytest.raises(JobError, match="5 files"),
        open_whole(tmp_path / "exports" / "3-4" / "b.jsonl", Quota(files=5, bytes=1_000)),
    ):
        pass
    exports.check_room((1, 2), "0.jsonl")  # in the place of itself


def test_half_written_files_count_by_their_bytes(exports: Exports, tmp_path: Path) -> None:
    put(exports, "a.jsonl")
    before = exports.usage()
    (tmp_path / "exports" / "1-2" / ".b.jsonl.0123.part").write_bytes(b"x" * 50)
    after = exports.usage()
    assert (after.files, after.bytes) == (before.files, before.bytes + 50)
