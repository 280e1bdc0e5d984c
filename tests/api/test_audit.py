"""The audit log: a line of JSON for each request that somebody's rights decide."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.api.signin.audit import AuditFile
from app.errors import SettingsError
from tests.api.conftest import connected, make_world
from tests.api.fakes import basic


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


@asynccontextmanager
async def audited(log: Path, folder: Path) -> AsyncIterator[httpx2.AsyncClient]:
    world = make_world(folder, audit_log=log)
    async with connected(world.app()) as client:
        yield client


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


async def test_each_decision_is_a_line_that_says_who_what_where_and_why(
    log: Path, tmp_path: Path
) -> None:
    async with audited(log, tmp_path) as client:
        for method, path, who in (
            ("GET", "/itc_db?vhost=%2F&q=hush", ("watcher", "secret")),
            ("GET", "/itc_db/nowhere/undefined/undefined/undefined", ("watcher", "secret")),
            ("DELETE", "/itc_db/links/%2F/mine", ("watcher", "secret")),
            ("GET", "/itc_db/whoami", ("watcher", "guessed")),
            ("GET", "/itc_db/traces", None),
            ("GET", "/health/live", None),
        ):
            headers = {} if who is None else basic(*who)
            await client.request(method, path, headers=headers)

    rows = lines(log)
    assert [(row["method"], row["path"], row["vhost"]) for row in rows] == [
        ("GET", "/itc_db", "/"),
        ("GET", "/itc_db/nowhere/undefined/undefined/undefined", "nowhere"),
        ("DELETE", "/itc_db/links/%2F/mine", "/"),
        ("GET", "/itc_db/whoami", None),
        ("GET", "/itc_db/traces", None),
    ]
    assert [(row["user"], row["named"]) for row in rows] == [
        *3 * [("watcher", None)],
        (None, "watcher"),
        (None, None),
    ]
    assert [row["allowed"] for row in rows][1:] == 4 * [False]
    assert "no such virtual host" in rows[1]["reason"]
    assert "administrator" in rows[2]["reason"]
    assert [row["status"] for row in rows][1:] == [404, 401, 401, 401]
    text = json.dumps(rows)
    assert [word for word in ("hush", "secret", "guessed") if word in text] == []
    assert (await asyncio.to_thread(log.stat)).st_mode & 0o777 == 0o600


async def test_a_log_that_was_moved_away_begins_anew(log: Path, tmp_path: Path) -> None:
    async with audited(log, tmp_path) as client:
        await client.get("/itc_db/traces", headers=basic("watcher", "secret"))
        await asyncio.to_thread(log.rename, tmp_path / "old.jsonl")
        await client.get("/itc_db/traces", headers=basic("watcher", "secret"))
    assert [row["allowed"] for row in lines(log)] == [True]
    assert len(lines(tmp_path / "old.jsonl")) == 1


def test_a_log_that_cannot_be_opened_is_said_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="ITC_AUDIT_LOG"):
        AuditFile(tmp_path)
