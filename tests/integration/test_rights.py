"""What users of a real broker are shown by every route, whatever queues are called."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from drills.service import Service
from tests.api.test_rights import ROUTES
from tests.integration.conftest import until
from tests.integration.test_content import NUL, SPELT, manage
from tests.integration.test_plugin_bounds import NOTHING, ORDINARY, OWN
from tools.servers import Broker

QUEUES = (
    "own.",
    NUL,
    SPELT,
    "a/../%2F?x=1#y",
    "__proto__",
    "constructor",
    "\x1b[31m",
    "\u202e<img src=x onerror=pwned=1>",
    "x" * 247,  # of more a delivery cannot be traced
)
HELD = ("body", "name", "value", "id", "key")  # and the queue's number behind each
ALL = frozenset(range(len(QUEUES)))
# A user's pattern, and whose queues' messages it may read.
USERS = {"own": (OWN, {0}), "ordinary": (ORDINARY, ALL), "none": (NOTHING, set[int]())}


@pytest.fixture
async def client(rabbit: Broker, vhost: str, tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """The administrator's, of a service that traces a virtual host."""
    url = f"sqlite:///{tmp_path / 'itc.db'}"
    service = Service(rabbit, url, tmp_path, settings={"ITC_AUTH": "broker"})
    service.start()
    try:
        await service.listening()
        async with httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{service.port}",
            auth=(rabbit.user, rabbit.password),
            trust_env=False,
            timeout=60,
        ) as client:
            trace = f"/itc_db/{vhost}/undefined/undefined/undefined"
            (await client.put(trace)).raise_for_status()

            async def runs() -> bool:
                return bool((await client.get(trace)).json()["state"] == "running")

            await until(runs, "the trace runs")
            yield client
    finally:
        await asyncio.to_thread(service.end, signal.SIGTERM)


def send_and_take(broker: Broker, vhost: str, number: int, queue: str) -> None:
    """Have a message go through a queue; its parts say which."""
    body, name, value, message_id, key = (f"{held}-{number}-" for held in HELD)
    properties = {"headers": {name: value}, "message_id": message_id, "correlation_id": key}
    binding = {"routing_key": str(number)}
    message = {**binding, "properties": properties, "payload": body, "payload_encoding": "string"}
    broker.api("POST", "bindings", vhost, "e", "amq.direct", "q", queue, json=binding)
    broker.api("POST", "exchanges", vhost, "amq.direct", "publish", json=message)
    taking = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    assert broker.api("POST", "queues", vhost, queue, "get", json=taking)


def paths(vhost: str, events: list[int]) -> list[str]:
    """A request for every route that shows anything, those about an event for each."""
    shown = [path for (method, _), (path, _, _) in ROUTES.items() if method == "GET"]
    about = [path for path in shown if "/1" in path or "=1" in path]
    here = [path.replace("%2F", vhost).replace("vhost=/", f"vhost={vhost}") for path in shown]
    each = [
        path.replace("/1", f"/{event}").replace("=1", f"={event}")
        for path in about
        for event in events
    ]
    searches = [
        f"/itc_db?vhost={vhost}&{by}={held}-{number}-"
        for number in ALL
        for by, held in (("q", "body"), ("message_id", "id"), ("conversation", "key"))
    ]
    return [*here, *each, *searches]


async def answer_to(client: httpx2.AsyncClient, path: str, user: str) -> tuple[int, str]:
    """The status and the text; of an endless answer its first part."""
    async with client.stream("GET", path, auth=(user, "secret")) as answer:
        if "event-stream" in answer.headers.get("content-type", ""):
            return answer.status_code, await anext(answer.aiter_text())
        return answer.status_code, (await answer.aread()).decode()


async def test_nobody_is_shown_messages_without_the_right_to_read_their_queues(
    rabbit: Broker, vhost: str, client: httpx2.AsyncClient
) -> None:
    for number, queue in enumerate(QUEUES):
        await manage(rabbit, "PUT", "queues", vhost, queue)
        await asyncio.to_thread(send_and_take, rabbit, vhost, number, queue)

    async def stored() -> list[dict[str, Any]] | None:
        found = (await client.get(f"/itc_db?vhost={vhost}&page_size=100")).json()
        items = found["items"] if isinstance(found, dict) else found
        return items if len(items) >= 2 * len(QUEUES) else None

    events = [int(each["id"]) for each in await until(stored, "all are stored")]
    for user, (pattern, may_read) in USERS.items():
        await asyncio.to_thread(rabbit.add_user, user, "secret", ["monitoring"])
        await asyncio.to_thread(rabbit.permit, user, vhost, pattern, pattern, pattern)
        seen: set[int] = set()
        for path in paths(quote(vhost, safe=""), events):
            status, text = await answer_to(client, path, user)
            assert status < 500, (user, path, text)
            shown = {number for number in ALL for held in HELD if f"{held}-{number}-" in text}
            assert shown <= may_read, (user, path, text)
            seen |= shown
        assert seen == may_read
        await asyncio.to_thread(rabbit.delete_user, user)
