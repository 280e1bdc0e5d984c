"""No password leaves the service: not by its most talkative log, its answers or its store."""

from __future__ import annotations

import asyncio
import base64
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest

from tests.integration.conftest import until
from tools.servers import Broker, without_settings

USER, PASSWORD, GUESS = "silent", "hush/hush:42", "guessed@43"
SECRETS = (
    PASSWORD,
    quote(PASSWORD, safe=""),
    GUESS,
    quote(GUESS, safe=""),
    base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode(),
    base64.b64encode(f"{USER}:{GUESS}".encode()).decode(),
)


@pytest.fixture
def account(rabbit: Broker, vhost: str) -> Iterator[str]:
    rabbit.add_user(USER, PASSWORD, ["administrator"])
    rabbit.permit(USER, vhost)
    yield USER
    rabbit.delete_user(USER)


async def address_in(log: Path, process: asyncio.subprocess.Process) -> str:
    """The address that the service says it listens on."""

    async def listening() -> str | None:
        text = await asyncio.to_thread(log.read_text)
        assert process.returncode is None, text
        found = re.search(r"listening on (\S+)", text)
        return found and found[1]

    return await until(listening, "the service listens")


async def served(environment: dict[str, str], folder: Path) -> asyncio.subprocess.Process:
    with (folder / "log").open("wb") as log:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "app.cli", "serve"),
            env={**without_settings(), **environment, "PYTHONPATH": str(Path(__file__).parents[2])},
            cwd=folder,
            stdout=log,
            stderr=log,
        )


async def answers(url: str, vhost: str, words: str) -> list[str]:
    """What the service tells a user, one with a wrong password, and nobody."""
    trace = f"/itc_db/{quote(vhost, safe='')}/undefined/undefined/undefined"
    async with httpx2.AsyncClient(base_url=url, auth=(USER, PASSWORD), timeout=60) as client:

        async def says_so() -> bool:
            told = (await client.get(trace)).json()
            return words in str(told["state"]) + str(told["waiting_for"])

        assert (await client.put(trace)).status_code == 201
        await until(says_so, f"the trace says: {words}")
        wrong = await client.get("/itc_db", auth=(USER, GUESS))
        assert wrong.status_code == 401
        paths = (trace, "/itc_db", "/itc_db/whoami", "/metrics", "/health/ready", "/openapi.json")
        return [wrong.text, *[(await client.get(path)).text for path in paths]]


def contents(folder: Path) -> list[bytes]:
    """Every file, the log and the database among them."""
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize(("password", "words"), [(PASSWORD, "running"), (GUESS, "refuses user")])
async def test_nothing_tells_a_password(
    rabbit: Broker, vhost: str, account: str, tmp_path: Path, password: str, words: str
) -> None:
    signed = f"://{USER}:{quote(PASSWORD, safe='')}@"
    process = await served(
        {
            "ITC_AMQP_URL": rabbit.amqp_url("/", USER, password),
            "ITC_MANAGEMENT_URL": rabbit.management_url.replace("://", signed),
            "ITC_DATA_DIR": str(tmp_path / "data"),
            "ITC_PORT": "0",
            "ITC_LOG_LEVEL": "debug",
            "ITC_ACCESS_LOG": "true",
        },
        tmp_path,
    )
    try:
        told = await answers(await address_in(tmp_path / "log", process), vhost, words)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), 60)
    kept = await asyncio.to_thread(contents, tmp_path)

    assert any(b"GET /itc_db" in content for content in kept)
    for secret in SECRETS:
        assert not any(secret in text for text in told), secret
        assert not any(secret.encode() in content for content in kept), secret
