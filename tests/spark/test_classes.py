"""The archive of Spark's classes: used where it fits, and never missed where it does not."""

from __future__ import annotations

import fcntl
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.find_spark_home import _find_spark_home

from spark_jobs import worker
from spark_jobs.spark.classes import main, make, make_in_background
from spark_jobs.spark.java import archive_of, check_java, java_options, java_program

MAKE = (
    "import sys, pathlib, spark_jobs.spark.classes as c; print(c.make(pathlib.Path(sys.argv[1])))"
)
SEEN_WHERE_USED = "shared objects file (top)"


def started(options: str) -> subprocess.CompletedProcess[str]:
    """What Java does with options."""
    command = [java_program() or "java", *shlex.split(options), "-Xlog:class+load", "-version"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_each_java_has_its_own(tmp_path: Path) -> None:
    ours = archive_of("17.0.15", tmp_path)
    assert ours == archive_of("17.0.15", tmp_path)
    assert ours != archive_of("17.0.16", tmp_path)


def test_without_an_archive_java_is_told_nothing(tmp_path: Path) -> None:
    assert java_options(tmp_path / "none.jsa") == ""


@pytest.mark.parametrize("content", [b"", b"garbage" * 10_000])
def test_java_starts_with_an_archive_that_does_not_fit(tmp_path: Path, content: bytes) -> None:
    archive = tmp_path / "a b.jsa"
    archive.write_bytes(content)
    java = started(java_options(archive))
    assert java.returncode == 0, java.stderr
    assert SEEN_WHERE_USED not in java.stdout


@pytest.mark.long(40)
def test_an_archive_is_made_once_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "classes"
    left = folder / "making-killed"
    left.mkdir(parents=True)
    old = folder / "spark-1.0-old.jsa"
    old.touch()
    made = subprocess.run(
        [sys.executable, "-c", MAKE, folder], capture_output=True, text=True, check=False
    )
    archive = archive_of(check_java(), folder)
    assert made.stdout.splitlines()[-1:] == [str(archive)], made.stderr
    assert {each.name for each in folder.iterdir()} == {".lock", archive.name}
    assert SEEN_WHERE_USED in java_with_sparks_jars(java_options(archive))
    assert make(folder) == archive


def java_with_sparks_jars(options: str) -> str:
    """Which classes Java loads, and from where, when it says Spark's version."""
    submit = Path(_find_spark_home(), "bin", "spark-submit")
    told = f"{options} -Xlog:class+load:stdout"
    command = [str(submit), "--driver-java-options", told, "--version"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_while_another_process_makes_it_none_is_made(tmp_path: Path) -> None:
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert make(tmp_path) is None
    assert [each.name for each in tmp_path.iterdir()] == [".lock"]


def test_a_folder_that_cannot_be_written_to_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setattr("spark_jobs.spark.classes.make", lambda: make(file / "inside"))
    assert main() == 1
    assert "Not a directory" in capsys.readouterr().err
    assert make_in_background(file / "inside") is None


def test_nothing_is_made_where_there_is_an_archive(tmp_path: Path) -> None:
    archive_of(check_java(), tmp_path).touch()
    assert make_in_background(tmp_path) is None


def test_a_worker_has_it_made_when_no_job_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as nothing, open(os.devnull, "w") as nowhere:  # noqa: PTH123
        idle = worker.Worker(nothing, nowhere)
    jobs = [{"id": 2}, {"id": 1}]
    monkeypatch.setattr(worker, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(worker, "make_in_background", lambda: idle._queue.put(jobs.pop()))
    assert idle._next() == {"id": 1}
    idle._queue.put({"id": 3})
    assert idle._next() == {"id": 3}
    assert jobs == [{"id": 2}]
