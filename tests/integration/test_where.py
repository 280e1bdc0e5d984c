"""Was it ever here? The word of `where` at each place where a message can get lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import pytest

from app.store import migrate
from drills.service import Service
from tests.integration.conftest import until
from tests.integration.test_cases import Clients
from tools.servers import RabbitNode

QUARANTINED = {"message_id": "hidden", "headers": {"deep": None}}


class Answer(NamedTuple):
    """An answer of the command line."""

    code: int
    word: str
    sentence: str
    body: dict[str, Any]


class Place:
    """A service process on a broker with the plugin, and clients of one virtual host."""

    def __init__(self, service: Service, clients: Clients) -> None:
        self.service = service
        self.clients = clients
        self.vhost = clients.vhost

    async def where(self, *arguments: str) -> Answer:
        """Ask of the virtual host by the command line, which is a program of its own."""
        url = f"http://127.0.0.1:{self.service.port}"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "app.cli", "where", *arguments, "--vhost", self.vhost),
            *("--json", "--url", url),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "NO_PROXY": "*"},
        )
        output, _ = await process.communicate()
        body = json.loads(output)
        assert process.returncode is not None
        return Answer(process.returncode, body["word"], body["sentence"], body)

    async def becomes(self, word: str, *arguments: str) -> Answer:
        """Ask until the word is this one: the broker's numbers are some seconds old."""

        async def asked() -> Answer | None:
            answer = await self.where(*arguments)
            return answer if answer.word == word else None

        return await until(asked, f"{arguments} is {word}")

    async def stored(self, count: int) -> None:
        """Wait until this many events are stored."""

        async def enough() -> bool:
            return len(await self.service.get("", vhost=self.vhost, page_size=100)) >= count

        await until(enough, f"{count} events are stored")


@pytest.fixture(scope="module")
def service(broker: RabbitNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One for all tests here, each of which has a virtual host of its own."""
    folder = tmp_path_factory.mktemp("where")
    database = f"sqlite:///{folder / 'itc.db'}"
    asyncio.run(migrate(database))
    running = Service(broker, database, folder)
    running.start()
    yield running
    running.end(signal.SIGTERM)


@pytest.fixture
async def place(broker: RabbitNode, vhost: str, service: Service) -> AsyncIterator[Place]:
    await service.listening()
    await service.start_trace(vhost)
    await service.until_running(vhost)
    async with AsyncExitStack() as stack:
        yield Place(service, Clients(broker, vhost, stack))
    await service.stop_trace(vhost)


@pytest.fixture
def vhost(broker: RabbitNode) -> str:
    name = f"where-{os.urandom(4).hex()}"
    broker.add_vhost(name)
    return name


async def test_a_client_that_lost_it_never_published(place: Place) -> None:
    await place.clients.queue()
    await place.clients.send(message_id="other")
    answer = await place.where("lost-in-client")
    assert (answer.code, answer.word) == (3, "never_published")
    assert answer.sentence.startswith(
        f"never published: no message in {place.vhost!r} has 'lost-in-client' as anything, and the"
        " record is complete from 20"
    )
    assert (answer.body["complete"], answer.body["messages"]) == (True, [])
    assert answer.body["since"] < answer.body["until"]


async def test_what_no_queue_got_died(place: Place) -> None:
    await place.clients.send("nowhere", exchange="amq.topic", message_id="astray")
    answer = await place.where("astray")
    assert (answer.code, answer.word, answer.body["by"]) == (5, "died", "message_id")
    assert "routed to no queue" in answer.sentence


async def test_alive_it_waits_then_is_held_then_settled(place: Place) -> None:
    await place.clients.queue()
    await place.clients.send(message_id="alive", correlation_id="order-7")
    await place.stored(1)
    assert (await place.becomes("waiting", "alive")).code == 4
    message = await place.clients.take()
    await place.stored(2)
    held = await place.where("alive")
    assert (held.code, held.word) == (4, "waiting")
    assert "holds the copy from q" in held.sentence
    await message.ack()
    settled = await place.becomes("settled", "alive")
    assert settled.code == 0
    by_key = await place.where("order-7", "--by", "correlation_id")
    assert (by_key.code, by_key.body["by"]) == (0, "correlation_id")
    assert (await place.where("alive", "--by", "conversation")).word == "never_published"


async def test_a_queue_may_have_any_name(place: Place, broker: RabbitNode) -> None:
    queues = ["Größe", "orders (new)", "a[1]~$&*", "'quoted'", "ü" * 127]
    for number, queue in enumerate(queues):
        broker.api("PUT", "queues", place.vhost, queue, json={"durable": True})
        await place.clients.send(queue, message_id=f"named {number}")
    await place.stored(len(queues))
    for number, queue in enumerate(queues):
        answer = await place.becomes("waiting", f"named {number}")
        assert answer.sentence.endswith(f"it waits in {queue}")


async def test_a_text_is_found_in_bodies_and_headers(place: Place) -> None:
    await place.clients.queue()
    await place.clients.send(body=b'{"order": "A-17"}', headers={"task": "T-4711"})
    await (await place.clients.take()).ack()
    for text in ("A-17", "T-4711"):
        answer = await place.becomes("settled", text)
        assert answer.body["by"] == "text"


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        ({"max_length": 1}, {}),
        pytest.param({"message_ttl": 1}, {}, marks=pytest.mark.long(10)),
        pytest.param({}, {"expiration": 1}, marks=pytest.mark.long(10)),
    ],
    ids=["overflow", "time to live of the queue", "its own"],
)
async def test_what_may_have_left_in_silence_does_not_wait(
    place: Place, arguments: dict[str, Any], more: dict[str, Any]
) -> None:
    await place.clients.queue(**arguments)
    await place.clients.send(message_id="first", **more)
    await place.clients.send(message_id="second", **more)
    await place.stored(2)
    answer = await place.where("first")
    assert answer.word in ("unknown", "died")
    assert answer.code in (9, 5)


@pytest.mark.long(15)
async def test_what_was_purged_died(place: Place) -> None:
    queue = await place.clients.queue()
    await place.clients.send(message_id="purged")
    await place.stored(1)
    await place.becomes("waiting", "purged")
    await queue.purge()
    answer = await place.becomes("died", "purged")
    assert (answer.code, "q is empty" in answer.sentence) == (5, True)


async def test_what_was_purged_a_moment_ago_is_not_said_to_wait(place: Place) -> None:
    queue = await place.clients.queue()
    for name in ("purged", "too"):
        await place.clients.send(message_id=name)
    await place.stored(2)
    await place.becomes("waiting", "purged")
    await queue.purge()
    assert (await place.where("purged")).word in ("unknown", "died")
    await place.clients.send(message_id="later")  # one waits, and two are expected
    await place.stored(3)
    assert (await place.where("purged")).word == "unknown"


async def test_a_dead_letter_that_nobody_takes_is_not_settled(place: Place) -> None:
    await place.clients.queue("dead")
    await place.clients.queue(dead_letter_exchange="", dead_letter_routing_key="dead")
    await place.clients.send(message_id="refused")
    await (await place.clients.take()).reject()
    await place.stored(2)
    answer = await place.becomes("unknown", "refused")
    assert (answer.code, "rejected it from q" in answer.sentence) == (9, True)
    await place.clients.take("dead")
    assert (await place.becomes("died", "refused")).code == 5


async def test_what_is_rejected_without_a_dead_letter_exchange_died(place: Place) -> None:
    await place.clients.queue()
    await place.clients.send(message_id="refused")
    await (await place.clients.take()).reject()
    answer = await place.becomes("died", "refused")
    assert "has no dead letter exchange" in answer.sentence


async def test_a_consumer_that_crashed_leaves_it_waiting(place: Place) -> None:
    await place.clients.queue()
    await place.clients.send(message_id="crashed")
    message = await place.clients.take()
    await place.stored(2)
    await message.channel.close()
    answer = await place.becomes("waiting", "crashed")
    assert "lost its channel with it in hand; it waits in q" in answer.sentence


async def test_beside_a_quarantine_nothing_was_never_published(place: Place) -> None:
    await place.clients.queue()
    deep: Any = 1
    for _ in range(80):
        deep = [deep]
    await place.clients.send(message_id="deep", headers={"nested": deep})
    await place.clients.send(message_id="other")
    await place.stored(1)
    answer = await place.becomes("unknown", "deep")
    assert (answer.code, answer.body["complete"]) == (9, False)
    assert "has 1 gap in that time" in answer.sentence


async def test_after_a_gap_nothing_was_never_published(place: Place) -> None:
    await place.clients.queue()
    await place.clients.send(message_id="before")
    await place.stored(1)
    await place.service.stop_trace(place.vhost)
    stopped = await place.where("missed")
    assert (stopped.code, stopped.word) == (9, "unknown")
    await place.clients.send(message_id="missed")
    await place.service.start_trace(place.vhost)
    await place.service.until_running(place.vhost)
    answer = await place.where("missed")
    assert (answer.code, answer.word, answer.body["complete"]) == (9, "unknown", False)
    # What waited through a gap may have been handed over in it.
    assert (await place.where("before")).word == "unknown"


async def test_what_was_removed_is_not_said_to_have_never_been_published(place: Place) -> None:
    await place.clients.queue()
    for name in ("old", "new"):
        await place.clients.send(message_id=name)
        await (await place.clients.take()).ack()
    await place.stored(4)
    await place.service.get("", method="DELETE", vhost=place.vhost, keep_events=2)
    answer = await place.where("old")
    assert (answer.code, answer.word) == (9, "unknown")
    assert "is removed" in answer.sentence
    since = answer.body["since"]
    assert (await place.where("old", "--since", since)).word == "never_published"


async def test_a_killed_service_says_never_only_once_it_has_caught_up(place: Place) -> None:
    await place.clients.queue()
    await place.clients.send(message_id="one")
    await place.stored(1)
    await asyncio.to_thread(place.service.end, signal.SIGKILL)
    await place.clients.send(message_id="while-dead")
    place.service.start()
    await place.service.listening()
    early = await place.where("while-dead")
    assert early.word != "never_published"
    await place.stored(2)
    assert (await place.becomes("waiting", "while-dead")).code == 4
    assert (await place.where("nobody")).word == "never_published"
