"""The whole service with assertions: a webhook that hangs, and kill -9 while events wait."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import shutil
import signal
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from drills.service import Service
from tests.integration.conftest import until
from tests.integration.test_assertions import shop
from tools.servers import Broker

IN_TIME = {"every": "order.new", "leads_to": "invoice", "within": "2s"}


class Hook:
    """Somebody who is told: takes requests, and answers only once it is ``awake``."""

    def __init__(self) -> None:
        self.awake = False
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.address = ""

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        self.address = f"http://me:s3cret@127.0.0.1:{port}/hook"
        try:
            yield
        finally:
            server.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:-2]
            headers = {name.lower(): value for name, _, value in (a.partition(": ") for a in head)}
            body = await reader.readexactly(int(headers["content-length"]))
            self.requests.append((headers, body))
            if self.awake:
                writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
            else:
                await reader.read()  # until the service gives up
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    hook = Hook()
    async with hook.listening():
        yield hook


@pytest.mark.long(30)
async def test_a_webhook_that_hangs_harms_nothing_and_a_kill_tells_each_once(
    rabbit: Broker, vhost: str, tmp_path: Path, migrated_file: Path, hook: Hook
) -> None:
    (tmp_path / "secret").write_text("key\n")
    shutil.copy(migrated_file, tmp_path / "itc.db")
    service = Service(
        rabbit,
        f"sqlite:///{tmp_path / 'itc.db'}",
        tmp_path,
        {
            "ITC_WEBHOOK_URL": hook.address,
            "ITC_WEBHOOK_SECRET_FILE": str(tmp_path / "secret"),
        },
    )
    async with service.tracing(vhost), shop(rabbit, vhost) as its:
        await until(lambda: _runs(service), "it is traced")
        file = {"assertions": [{"name": "in-time", **IN_TIME}]}
        await service.get(f"assertions/{vhost}", method="PUT", json=file)
        await its.order(1)
        await until(lambda: _found(service, 1), "the first is overdue")
        await until(lambda: _is(hook.requests), "the webhook is asked, and hangs")
        await its.order(2)
        await its.invoice(2)
        await until(lambda: _stored(service, 6), "events are stored meanwhile")
        await its.order(3)
        await until(lambda: _stored(service, 8), "the third waits for its time")
        await asyncio.to_thread(service.end, signal.SIGKILL)
        hook.awake = True
        service.start()
        await service.listening()
        found = await until(lambda: _found(service, 2), "the third is found after the kill")
        await until(lambda: _delivered(service), "both are told")
        (held,) = await service.get("assertions")
    assert [held[name] for name in ("held", "violated")] == [1, 2]
    assert len({each["event"] for each in found}) == 2
    told: dict[str, set[bytes]] = {}
    for headers, body in hook.requests:
        event = msgspec.json.decode(body)
        told.setdefault(event["id"], set()).add(body)
        said = f"{event['id']}.{headers['webhook-timestamp']}.".encode() + body
        mark = b64encode(hmac.digest(b"key", said, hashlib.sha256)).decode()
        assert headers["webhook-signature"] == f"v1,{mark}"
        assert event["specversion"] == "1.0"
    assert {each: len(bodies) for each, bodies in told.items()} == {
        "violation-1": 1,
        "violation-2": 1,
    }, "an event that is sent again is the same"
    assert "s3cret" not in service.log.read_text()


async def _is(value: Any) -> Any:
    return value


async def _found(service: Service, count: int) -> Any:
    items = (await service.get("violations"))["items"]
    return items if len(items) >= count else None


async def _delivered(service: Service) -> bool:
    items = (await service.get("violations"))["items"]
    return {each["delivery"] for each in items} == {"delivered"}


async def _runs(service: Service) -> bool:
    (trace,) = await service.get("traces")
    return bool(trace["state"] == "running")


async def _stored(service: Service, count: int) -> bool:
    (trace,) = await service.get("traces")
    return bool(trace["events"] >= count)
