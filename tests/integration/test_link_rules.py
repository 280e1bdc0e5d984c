"""Rules of links that are set while messages flow: taken up, and the same after kill -9."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aio_pika
import pytest
from sqlalchemy import select

from app.store import Store
from app.store.database import tables
from app.tracker import Bounds, Policy, Record, Tracker
from app.tracker.links import BUILT_IN, Rule, Rules, merge_rules, of_all
from drills.judge import Key, _key, _key_of, opened, oracle, settled, stored_events
from drills.service import Service
from tests.integration.conftest import until
from tools.servers import Broker

RULE: dict[str, Any] = {
    "name": "shipped-for",
    "kind": "parent",
    "child": ["$message.payload#/caused_by"],
    "parent": ["$message.payload#/event/id"],
}


class Flow:
    """Two programs that answer each other: each message names the one that it answers."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._number = 0
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        for here, there in (("ping", "pong"), ("pong", "ping")):
            connection = await self._stack.enter_async_context(await aio_pika.connect(self._url))
            channel = await connection.channel(publisher_confirms=False)
            await channel.set_qos(4)
            queue = await channel.declare_queue(here)
            await queue.consume(self._answering(channel, there))
        connection = await self._stack.enter_async_context(await aio_pika.connect(self._url))
        channel = await connection.channel()
        for _ in range(4):
            await self._say(channel, "ping", None)

    async def stop(self) -> None:
        await self._stack.aclose()

    def _answering(self, channel: Any, to: str) -> Any:
        async def take(message: Any) -> None:
            with contextlib.suppress(aio_pika.exceptions.AMQPError):
                await self._say(channel, to, json.loads(message.body)["event"]["id"])
                await message.ack()

        return take

    async def _say(self, channel: Any, to: str, cause: int | None) -> None:
        self._number += 1
        body = {"event": {"id": self._number}, "caused_by": cause}
        message = aio_pika.Message(json.dumps(body).encode(), content_type="application/json")
        await channel.default_exchange.publish(message, to, mandatory=False)
        await asyncio.sleep(0.005)


@asynccontextmanager
async def flowing(rabbit: Broker, vhost: str) -> AsyncIterator[None]:
    flow = Flow(rabbit.amqp_url(vhost))
    await flow.start()
    try:
        yield
    finally:
        await flow.stop()


async def edges_of(store: Store) -> dict[int, set[tuple[int, str]]]:
    its = tables.edges.c
    rows = await store.link_rules.database.read(
        lambda connection: connection.execute(select(its.effect_id, its.cause_id, its.rule))
    )
    found: defaultdict[int, set[tuple[int, str]]] = defaultdict(set)
    for effect, cause, rule in rows:
        found[effect].add((cause, rule))
    return found


async def judged(store: Store, records: list[Record], since: int) -> tuple[int, list[str]]:
    """How many links there are, and what differs from a tracker that was never killed."""
    expected: defaultdict[Key, deque[Record]] = defaultdict(deque)
    for record in records:
        expected[_key(record)].append(record)
    edges, wrong, links = await edges_of(store), [], 0
    base = of_all(BUILT_IN)
    tracker = Tracker(Policy.channel, Bounds(), rules=Rules(each.rule for each in base))
    is_taken_up = False
    async for event in stored_events(store):
        if event.id >= since and not is_taken_up:
            is_taken_up = True
            own = merge_rules(base, [Rule.from_json(RULE)])
            tracker.take_up(Rules(each.rule for each in own))
        same = expected.get(_key_of(event))
        if not same:
            wrong.append(f"event {event.id} is stored twice, or never was")
            continue
        (right,) = tracker.apply(same.popleft(), event.recorded_at)
        right.reference.id = event.id
        tracker.checkpoint()
        named = {(edge.cause.id, edge.rule) for edge in right.edges}
        links += len(named)
        if (event.stamp.trees(), event.lamport) != (right.stamp.trees(), right.lamport):
            wrong.append(f"event {event.id} has another stamp")
        if edges[event.id] != named:
            wrong.append(f"event {event.id} has the links {edges[event.id]}, not {named}")
    wrong += [f"{len(each)} events are lost" for each in expected.values() if each]
    return links, wrong


async def the_rule(service: Service, vhost: str) -> dict[str, Any]:
    listed = await service.get("links", vhost=vhost)
    return next(each for each in listed if each["name"] == "shipped-for")


@pytest.mark.parametrize("waits", [False, pytest.param(True, marks=pytest.mark.long(15))])
async def test_a_rule_set_while_messages_flow_holds_from_one_event_on_also_after_a_kill(
    rabbit: Broker, vhost: str, tmp_path: Path, waits: bool
) -> None:
    url = f"sqlite:///{tmp_path / 'itc.db'}"
    service = Service(rabbit, url, tmp_path)
    quoted = vhost.replace("/", "%2F")
    async with oracle(rabbit, vhost) as records, service.tracing(vhost, "channel"):
        async with flowing(rabbit, vhost):

            async def has_events() -> bool:
                (trace,) = await service.get("traces")
                return bool(trace["events"])

            await until(has_events, "events are stored")
            await service.get(f"links/{quoted}/shipped-for", method="PUT", json=RULE)
            if waits:

                async def holds() -> bool:
                    return bool((await the_rule(service, vhost))["state"] == "holds")

                await until(holds, "the rule is taken up")
            await asyncio.to_thread(service.end, signal.SIGKILL)
            service.start()
            await service.listening()

            async def has_links() -> bool:
                (trace,) = await service.get("traces")
                return bool(trace["links"].get("shipped-for", {}).get("found", 0) > 20)

            await until(has_links, "messages name their causes")
        async with opened(url) as store:
            await settled(store, records)
            since = (await the_rule(service, vhost))["from_event_id"]
            code = await asyncio.to_thread(service.end, signal.SIGTERM)
            links, wrong = await judged(store, records, since)
        assert code == 0
        assert wrong == []
        assert links > 20


async def test_a_change_is_taken_up_wherever_the_trace_runs(
    rabbit: Broker, vhost: str, postgres_url: str, tmp_path: Path
) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    one, two = (Service(rabbit, postgres_url, folder) for folder in folders)
    quoted = vhost.replace("/", "%2F")
    async with one.tracing(vhost):
        two.start()
        try:
            await two.listening()
            await two.get(f"links/{quoted}/shipped-for", method="PUT", json=RULE)

            async def holds() -> bool:
                return bool((await the_rule(two, vhost))["state"] == "holds")

            await until(holds, "the other service has taken the rule up")
            await two.get(f"links/{quoted}/shipped-for", method="DELETE")

            async def is_gone() -> bool:
                listed = await one.get("links", vhost=vhost)
                return all(each["name"] != "shipped-for" for each in listed)

            await until(is_gone, "the other service holds the rule no more")
        finally:
            await asyncio.to_thread(two.end, signal.SIGTERM)


async def test_a_file_s_changes_are_taken_up_at_the_next_start(
    rabbit: Broker, vhost: str, tmp_path: Path
) -> None:
    file = tmp_path / "rules.json"
    file.write_text(json.dumps([RULE]))
    settings = {"ITC_LINK_RULES": str(file), "ITC_LINKS": "false"}
    url = f"sqlite:///{tmp_path / 'itc.db'}"
    service = Service(rabbit, url, tmp_path, settings=settings)

    async def shown() -> list[tuple[str, str]] | None:
        listed = await service.get("links", vhost=vhost)
        if any(each["state"] != "holds" for each in listed):
            return None
        return [(each["name"], each["rule"]["kind"]) for each in listed]

    async with service.tracing(vhost):
        assert await until(shown, "the rule holds") == [("shipped-for", "parent")]
        await asyncio.to_thread(service.end, signal.SIGTERM)
        file.write_text(json.dumps([{**RULE, "kind": "reply"}, {**RULE, "name": "more"}]))
        service.start()
        await service.listening()

        async def changed() -> bool:
            return await shown() == [("shipped-for", "reply"), ("more", "parent")]

        await until(changed, "the file's changes hold")
