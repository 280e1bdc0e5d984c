"""Values that a rule of redaction names are nowhere but at the broker."""

from __future__ import annotations

import asyncio
import gzip
import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aio_pika
import pytest

from drills.service import Service
from tests.integration.conftest import until
from tools.servers import Broker

SECRET = "4929-hushhush-0042"
KEY = "a key that nobody guesses"
RULES: dict[str, Any] = {
    "card": {"places": ["$message.payload#/card", "$message.header#/caused_by"]},
    "lines": {"places": ["$message.payload#/lines/*/card", "$message.property#/message_id"]},
    "note": {"places": ["$message.header#/note"], "keep": "nothing"},
}
OTHER = {"places": "$message.header#/other"}
LINK = {
    "kind": "parent",
    "child": "$message.header#/caused_by",
    "parent": "$message.payload#/card",
}


async def exchange_messages(broker: Broker, vhost: str) -> int:
    """Have messages with the value published, handed over, rejected; returns how many events."""
    body = {"card": SECRET, "lines": [{"card": SECRET}]}
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    async with await aio_pika.connect(broker.amqp_url(vhost)) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("cards", arguments=arguments)
        dead = await channel.declare_queue("dead")
        for content, options in (
            (json.dumps(body).encode(), {"message_id": SECRET}),
            (
                gzip.compress(json.dumps({"card": f"{SECRET}!"}).encode()),
                {"content_encoding": "gzip"},
            ),
            (b"no JSON: " + SECRET.encode(), {"headers": {"note": SECRET}}),
            (b"{}", {"headers": {"caused_by": SECRET}}),
        ):
            message = aio_pika.Message(content, **options)  # type: ignore[arg-type]
            await channel.default_exchange.publish(message, "cards")
            received = await queue.get()
            assert received.body == content, "clients get what was sent"
            await received.reject(requeue=False)
            message_there = await until(lambda: dead.get(fail=False), "it is a dead letter")
            await message_there.ack()
        bad = aio_pika.Message(SECRET.encode(), headers={"note": SECRET})
        await channel.default_exchange.publish(bad, "itc.trace")
    return 13


@pytest.mark.parametrize("fixture", ["rabbit", pytest.param("broker", marks=pytest.mark.long(15))])
async def test_a_value_that_a_rule_names_is_stored_logged_and_shown_nowhere(
    fixture: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    broker: Broker = request.getfixturevalue(fixture)  # the second has the plugin
    settings = {"ITC_REDACTION_KEY": KEY, "ITC_LOG_LEVEL": "debug"}
    service = Service(broker, f"sqlite:///{tmp_path / 'itc.db'}", tmp_path, settings)
    with broker.fresh_vhost() as vhost:
        where = quote(vhost, safe="")
        async with service.tracing(vhost):
            await service.get(f"links/{where}/by-card", method="PUT", json=LINK)
            for name, rule in RULES.items():
                await service.get(f"redactions/{where}/{name}", method="PUT", json=rule)

            async def hold() -> bool:
                log = await asyncio.to_thread(service.log.read_text)
                (link,) = [
                    each
                    for each in await service.get("links", vhost=vhost)
                    if each["name"] == "by-card"
                ]
                return "other rules of redaction hold" in log and link["state"] == "holds"

            await until(hold, "the rules are taken up")
            count = await exchange_messages(broker, vhost)
            await until(lambda: is_stored(service, vhost, count), "everything is stored")
            await asyncio.to_thread(service.end, signal.SIGKILL)
            service.start()
            await service.listening()
            await service.get(f"redactions/{where}/other", method="PUT", json=OTHER)
            await until(lambda: is_stored(service, vhost, count), "it is stored once")
            more = count + await exchange_messages(broker, vhost)
            await until(lambda: is_stored(service, vhost, more), "it goes on")
            events = await service.get("", vhost=vhost, page_size=100, links="true")
            answers = [
                *events,
                *(quarantine := await service.get("quarantine", vhost=vhost)),
                await service.get("failures", vhost=vhost),
                await service.get("conversations", vhost=vhost),
            ]
        assert SECRET not in json.dumps(answers)
        assert [(each["headers"], each["body"]) for each in quarantine] == 2 * [("{}", "")]
        names = Counter(tuple(event["redactions"] or ()) for event in events)
        left_out = ("lines", "note", "body not JSON: left out")
        assert names == {("lines", "card"): 12, ("card", "lines"): 6, left_out: 8}
        assert {event["match"] for event in events if event["type"] == "received"} == {
            "routed",
            "dead_lettered",
        }
        assert "by-card" in json.dumps([event["links"] for event in events]), "digests are equal"
        assert await asyncio.to_thread(files_with, SECRET, tmp_path) == []


def files_with(text: str, folder: Path) -> list[Path]:
    files = filter(Path.is_file, folder.rglob("*"))
    return [file for file in files if text.encode() in file.read_bytes()]


async def is_stored(service: Service, vhost: str, count: int) -> bool:
    (trace,) = [each for each in await service.get("traces") if each["vhost"] == vhost]
    assert trace["events"] <= count, "a message is stored twice"
    return bool(trace["events"] == count and trace["state"] == "running")
