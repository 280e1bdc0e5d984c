"""The error messages when Spark cannot start."""

from __future__ import annotations

import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from model.jobs import Problem
from spark_jobs.errors import JobError
from spark_jobs.spark.failures import in_short
from spark_jobs.spark.java import check_java, java_version
from spark_jobs.spark.session import SparkSettings, open_session, ship


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime…', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("what?", None),
    ],
)
def test_java_says_its_version(text: str, version: int | None) -> None:
    assert java_version(text) == version


def java(tmp_path: Path, says: str) -> Path:
    """A JAVA_HOME whose java says that."""
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    return tmp_path


def test_a_new_java_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, 'openjdk version "21.0.2"')))
    check_java()


def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, 'java version "11.0.2"')))
    with pytest.raises(JobError, match="is 11; Spark needs 17") as caught:
        open_session(SparkSettings())
    assert caught.value.problem is Problem.outage


def test_a_missing_java_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JobError, match=r"Java is missing: .*JAVA_HOME"):
        open_session(SparkSettings())


def test_a_java_that_does_not_run_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = java(tmp_path, "")
    (home / "bin" / "java").write_bytes(b"\x7fELF nonsense")
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(JobError, match="unknown version"):
        check_java()


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_dead_master_is_said_at_once(closed_port: int) -> None:
    with pytest.raises(JobError, match=r"No Spark master answers at 127.*ITC_SPARK_MASTER"):
        open_session(SparkSettings(master=f"spark://127.0.0.1:{closed_port}"))


def test_a_dead_connect_server_is_said_at_once(closed_port: int) -> None:
    with pytest.raises(JobError, match=r"No Spark Connect server .*ITC_SPARK_REMOTE"):
        open_session(SparkSettings(remote=f"sc://127.0.0.1:{closed_port}/;token=secret"))


def test_what_is_shipped_to_executors_imports_by_itself() -> None:
    with zipfile.ZipFile(ship()) as archive:
        names = archive.namelist()
    assert {"itc/__init__.py", "spark_jobs/events/source.py", "spark_jobs/formats/lines.py"} <= set(
        names
    )
    assert not [name for name in names if name.startswith("app")]


def test_an_error_is_told_without_its_stack() -> None:
    told = "An error occurred while calling None.X.\n: java.lang.E: too bad\n\tat a.b(C.java:1)"
    assert in_short(told) == "java.lang.E: too bad"
    assert in_short("simply bad\nmore") == "simply bad"
    assert in_short("") == ""


def test_too_few_descriptors_are_named_where_spark_does_not_start() -> None:
    """A JVM that may open no more files ends without saying so."""
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))\n"
        "from spark_jobs.errors import JobError\n"
        "from spark_jobs.spark.session import SparkSettings, open_session\n"
        "try:\n"
        "    open_session(SparkSettings())\n"
        "except JobError as error:\n"
        "    print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert "may open only 60 files" in run.stdout
