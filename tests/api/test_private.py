"""What the service writes nobody else may read, whatever the umask."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.private import tighten
from tools.servers import Child, free_port, port_answers

ROOT = Path(__file__).parents[2]
START_SECONDS = 90


def modes(folder: Path) -> dict[str, str]:
    """The mode of each file and folder in a folder, and its own under a dot."""
    paths = [folder, *folder.rglob("*")]
    return {str(p.relative_to(folder)): f"{p.stat().st_mode & 0o777:o}" for p in paths}


@contextmanager
def serving(data: Path, log: Path) -> Iterator[None]:
    """A service started by somebody who lets everybody do everything."""
    port = free_port()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ITC_")}
    service = Child(
        "the service",
        ["sh", "-c", 'umask 0; exec "$0" -m app.cli serve', sys.executable],
        log=log,
        cwd=log.parent,
        env={
            **kept,
            "PYTHONPATH": str(ROOT),
            "ITC_AUTH": "none",
            "ITC_PORT": str(port),
            "ITC_DATA_DIR": str(data),
            "ITC_AMQP_URL": "amqp://guest:guest@127.0.0.1:1",
            "ITC_MANAGEMENT_URL": "http://127.0.0.1:1",
        },
    )
    try:
        # It listens before it opens its store, and answers after that.
        service.wait_until(lambda: port_answers(port), START_SECONDS, "listening")
        service.wait_until(lambda: "listening on" in log.read_text(), START_SECONDS, "serving")
        yield
    finally:
        service.stop()


def test_what_the_service_makes_is_its_own_whatever_the_umask(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data, tmp_path / "log"):
        made = modes(data)
    assert {"itc.db", "itc.db-wal", "itc.db-shm"} <= set(made)
    assert made.pop(".") == "700"
    assert set(made.values()) == {"600"}


def test_what_an_earlier_service_left_open_is_closed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data, tmp_path / "log"):
        pass
    data.chmod(0o755)
    (data / "itc.db").chmod(0o644)
    folders = ("exports", "archives", "reports", "topologies")
    for name in folders:
        (data / name).mkdir(mode=0o755)
    with serving(data, tmp_path / "log"):
        made = modes(data)
    assert (made["."], made["itc.db"]) == ("700", "600")
    assert {made[name] for name in folders} == {"700"}


def test_a_folder_that_holds_other_things_is_left_and_said_to_be_open(tmp_path: Path) -> None:
    data, elsewhere = tmp_path / "projects", tmp_path / "exports"
    (data / "thesis").mkdir(parents=True)
    elsewhere.mkdir()
    for folder in (data, elsewhere):
        folder.chmod(0o755)
    said = list(tighten(data, [elsewhere], None))
    assert [line.partition(" ")[0] for line in said] == [str(data), str(elsewhere)]
    assert all("0755" in line and "chmod go=" in line for line in said)
    assert modes(data)["."] == modes(elsewhere)["."] == "755"


@pytest.mark.parametrize("kind", ["sticky", "link"])
def test_what_others_may_have_put_there_is_not_touched(tmp_path: Path, kind: str) -> None:
    data, target = tmp_path / "data", tmp_path / "target"
    data.mkdir()
    target.write_text("")
    target.chmod(0o644)
    if kind == "sticky":
        data.chmod(0o1777)
    (data / "itc.db").symlink_to(target)
    list(tighten(data, [], str(data / "itc.db")))
    assert f"{target.stat().st_mode & 0o777:o}" == "644"
    if kind == "sticky":
        assert f"{data.stat().st_mode & 0o7777:o}" == "1777"
