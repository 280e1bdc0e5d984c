"""The management API's client, against a real broker, and against answers no broker should give."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from app.api.signin.permissions import pattern_of
from app.broker.consumer import Firehose
from app.broker.management import Binding, ManagementApi
from app.broker.source import TraceSource
from app.broker.trace_queue import QueueBounds
from app.doctor import _failure
from app.errors import (
    BadRequestError,
    NotAuthenticatedError,
    NotAuthorisedError,
    NotFoundError,
    OutageError,
)
from tests.api.fakes import basic
from tools.servers import Broker


def header(name: str, password: str) -> bytes:
    return basic(name, password)["authorization"].encode()


@pytest.fixture
async def api(rabbit: Broker) -> AsyncIterator[ManagementApi]:
    api = ManagementApi(rabbit.management_url, rabbit.user, rabbit.password)
    yield api
    await api.close()


async def test_users_are_who_the_broker_says(rabbit: Broker, api: ManagementApi) -> None:
    rabbit.add_user("watcher", "s:é/", ["monitoring", "policymaker"])
    rabbit.add_user("app", "secret")
    try:
        user = await api.whoami(header("watcher", "s:é/"))
        assert (user.name, user.tags) == ("watcher", {"monitoring", "policymaker"})
        with pytest.raises(NotAuthenticatedError):
            await api.whoami(header("watcher", "guess"))
        with pytest.raises(NotAuthenticatedError):
            await api.whoami(b"Bearer not-a-token")
        with pytest.raises(NotAuthorisedError):
            await api.whoami(header("app", "secret"))
    finally:
        rabbit.delete_user("watcher")
        rabbit.delete_user("app")


async def test_a_user_sees_the_vhosts_that_the_broker_shows(
    rabbit: Broker, api: ManagementApi, vhost: str
) -> None:
    rabbit.add_user("manager", "secret", ["management"])
    try:
        assert vhost not in await api.visible_vhosts(header("manager", "secret"))
        rabbit.permit("manager", vhost)
        assert vhost in await api.visible_vhosts(header("manager", "secret"))
    finally:
        rabbit.delete_user("manager")
    assert {"/", vhost} <= await api.vhosts()


# Read permissions, and queues of such names.
READ = (".*", "", "^$", "orders", "^orders$", "^(?!itc\\.|orders$)", "^gr..?.e$", "(?i)^ORDERS")
QUEUES = ("orders", "orders.dead", "itc.mine", "größe")


async def test_a_read_permission_means_here_what_it_means_to_the_broker(
    rabbit: Broker, api: ManagementApi, vhost: str
) -> None:
    rabbit.add_user("reader", "secret", ["management"])
    try:
        for queue in QUEUES:
            rabbit.api("PUT", "queues", vhost, queue, json={})
        for pattern in READ:
            rabbit.permit("reader", vhost, "", "", pattern)
            patterns = await api.read_patterns("reader")
            assert patterns == {(vhost, pattern)}
            judged = pattern_of(pattern)
            readable = {queue for queue in QUEUES if judged.reads(queue)}
            assert readable == await handed_over(rabbit, vhost)
            assert not judged.reads_all or readable == set(QUEUES)
    finally:
        rabbit.delete_user("reader")
    with pytest.raises(NotFoundError):
        await api.read_patterns("reader")


async def handed_over(rabbit: Broker, vhost: str) -> set[str]:
    """The queues of which the broker would hand messages to the reader."""
    found = set()
    asked = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    async with httpx2.AsyncClient(auth=("reader", "secret")) as client:
        for queue in QUEUES:
            url = f"{rabbit.management_url}/api/queues/{vhost}/{quote(queue)}/get"
            answer = await client.post(url, json=asked)
            if answer.is_success:
                found.add(queue)
            else:
                assert "ACCESS_REFUSED" in answer.text or "access" in answer.text, answer.text
    return found


async def test_tracing_is_switched_without_blanking_the_vhost(
    rabbit: Broker, api: ManagementApi, vhost: str
) -> None:
    described = {"description": "The shop's orders", "tags": "production,eu west"}
    rabbit.api("PUT", "vhosts", vhost, json=described)
    before = rabbit.api("GET", "vhosts", vhost)

    changed = await api.set_tracing(vhost, True)
    assert await api.tracing(vhost) == dict.fromkeys(changed, True)
    assert await api.set_tracing(vhost, True) == []
    on = rabbit.api("GET", "vhosts", vhost)
    assert await api.set_tracing(vhost, False) == changed
    off = rabbit.api("GET", "vhosts", vhost)

    assert (before["tracing"], on["tracing"], off["tracing"]) == (False, True, False)
    for kept in ("description", "tags", "default_queue_type", "metadata"):
        assert before.get(kept) == on.get(kept) == off.get(kept)


async def test_the_cluster_and_its_queues_are_seen(
    rabbit: Broker, api: ManagementApi, vhost: str
) -> None:
    rabbit.api("PUT", "queues", vhost, "orders/new", json={"durable": True})

    assert [node.running for node in await api.nodes()] == [True]
    assert not await api.may_move_unseen() or (await api.version()) >= "4.2"
    assert (await api.version())[0].isdigit()
    assert (await api.queue(vhost, "orders/new")).name == "orders/new"
    assert await api.bindings(vhost) == []
    rabbit.api(
        "POST",
        "bindings",
        vhost,
        "e",
        "amq.rabbitmq.trace",
        "q",
        "orders/new",
        json={"routing_key": "#"},
    )
    assert await api.bindings(vhost) == [Binding("orders/new", "queue", "#")]
    assert (await api.own_user()).name == rabbit.user
    assert (await api.permissions(vhost)).read == ".*"


async def test_what_the_broker_does_not_have_is_not_found(api: ManagementApi) -> None:
    for question in (
        api.tracing("no such/host"),
        api.set_tracing("no such/host", True),
        api.queue("/", "nothing"),
        api.permissions("nowhere"),
    ):
        with pytest.raises(NotFoundError):
            await question


async def test_a_wrong_own_account_is_an_outage_that_says_so(rabbit: Broker) -> None:
    api = ManagementApi(rabbit.management_url, "itc", "hush")
    with pytest.raises(OutageError, match="own account 'itc'") as raised:
        await api.vhosts()
    await api.close()

    assert "hush" not in str(raised.value)


async def test_credentials_that_the_broker_cannot_read_are_no_outage(api: ManagementApi) -> None:
    with pytest.raises(NotAuthenticatedError):
        await api.whoami(b"Bearer " + b"a" * 15_000)


async def test_a_broker_that_is_away_is_an_outage() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers there
        api = ManagementApi(f"http://127.0.0.1:{taken.getsockname()[1]}", "itc", "hush")
        with pytest.raises(OutageError, match="does not answer") as raised:
            await api.whoami(header("ops", "secret"))
        await api.close()

    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    "response",
    [
        httpx2.Response(500, text="<html>"),
        httpx2.Response(200, text="<html>hello</html>"),
        httpx2.Response(200, json=["name"]),
        httpx2.Response(200, json={"name": 1, "tags": []}),
        httpx2.Response(302, headers={"location": "http://elsewhere/"}),
        httpx2.Response(503, json={"error": "x", "reason": "a\r\nb " + "c" * 1_000}),
        httpx2.Response(400, json=[]),
    ],
)
async def test_an_answer_that_is_not_the_management_apis_is_an_outage(
    response: httpx2.Response,
) -> None:
    api = ManagementApi(
        "http://broker", "itc", "hush", transport=httpx2.MockTransport(lambda request: response)
    )
    with pytest.raises(OutageError) as by_user:
        await api.whoami(header("ops", "secret"))
    with pytest.raises(OutageError) as by_service:
        await api.own_user()
    await api.close()

    for raised in (by_user, by_service):
        assert "\n" not in str(raised.value)
        assert len(str(raised.value)) < 400


def answering(answers: dict[str, Any]) -> ManagementApi:
    """A management API that says this by path, and keeps no account of what is put."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        assert request.method == "GET"
        return httpx2.Response(200, json=answers[request.url.path])

    return ManagementApi("http://one", "x", "y", transport=httpx2.MockTransport(answer))


async def test_a_broker_without_a_firehose_is_named() -> None:
    overview = {"node": "lavin", "lavinmq_version": "2.4.1", "product_name": "LavinMQ"}
    api = answering({"/api/overview": overview})
    source = TraceSource(Firehose("amqp://localhost", bounds=QueueBounds()), api)
    with pytest.raises(BadRequestError) as refused:
        await source.check_firehose()
    assert str(refused.value).startswith("this broker is LavinMQ 2.4.1, which has no firehose")
    advice = "name a RabbitMQ broker in ITC_AMQP_URL: no other has a firehose to capture"
    assert _failure("broker", refused.value) == (str(refused.value), advice)
    await api.close()


@pytest.mark.parametrize("vhost", [{"name": "shop"}, {"tracing": "unknown"}, {"tracing": None}])
async def test_tracing_that_a_node_does_not_speak_of_is_neither_on_nor_off(
    vhost: dict[str, Any],
) -> None:
    api = answering({"/api/overview": {"node": "rabbit@one"}, "/api/vhosts/shop": vhost})
    with pytest.raises(OutageError, match="http://one does not say whether the virtual host"):
        await api.tracing("shop")
    for on in (True, False):
        with pytest.raises(OutageError, match="http://one does not say whether the virtual host"):
            await api.set_tracing("shop", on)
    await api.close()


@pytest.mark.parametrize(
    ("version", "plugins", "moves"),
    [
        ("3.13.7", ["rabbitmq_shovel"], False),
        ("4.1.9", ["rabbitmq_shovel"], False),
        ("4.2.0", ["rabbitmq_shovel"], True),
        ("4.10.1+rc.1", ["rabbitmq_management", "rabbitmq_shovel"], True),
        ("4.3.6", ["rabbitmq_management"], False),
        ("", ["rabbitmq_shovel"], True),
        ("4.3.6", None, True),
    ],
)
async def test_a_broker_with_local_shovels_may_move_messages_unseen(
    version: str, plugins: list[str] | None, moves: bool
) -> None:
    node = {"name": "rabbit@one", "running": True, "enabled_plugins": plugins}
    overview = {"node": "rabbit@one", "rabbitmq_version": version}
    api = answering({"/api/overview": overview, "/api/nodes": [{"name": "rabbit@two"}, node]})
    assert await api.may_move_unseen() is moves


async def test_what_nodes_that_start_or_are_down_leave_out_is_a_state_of_its_own() -> None:
    api = answering(
        {
            "/api/overview": {"node": "rabbit@one"},  # no version, no listeners, no statistics yet
            "/api/nodes": [{"name": "rabbit@one", "running": True}, {"name": "rabbit@two"}],
            "/api/queues/shop/itc.trace": {"name": "itc.trace", "state": "down"},
            "/api/vhosts/shop": {"name": "shop", "tracing": True},
        }
    )
    assert await api.version() == ""
    assert [node.running for node in await api.nodes()] == [True, False]
    queue = await api.queue("shop", "itc.trace")
    assert (queue.type, queue.messages, queue.message_bytes) == ("classic", None, None)
    assert await api.tracing("shop") == {"rabbit@one": True}
    await api.close()


async def test_a_node_without_an_api_of_its_own_is_not_reachable() -> None:
    listeners = [
        {"node": "rabbit@two", "protocol": "http", "port": 15672},
        {"node": "rabbit@three", "protocol": "amqp", "port": 5672},
    ]
    api = answering({"/api/overview": {"node": "rabbit@one", "listeners": listeners}})
    assert (await api.endpoints()).keys() == {"rabbit@one", "rabbit@two"}
    await api.close()


async def test_a_slow_broker_is_an_outage() -> None:
    def slow(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ReadTimeout("slow", request=request)

    api = ManagementApi("http://broker", "itc", "x", transport=httpx2.MockTransport(slow))
    with pytest.raises(OutageError, match="too slow"):
        await api.vhosts()
    await api.close()


async def test_each_node_of_a_cluster_is_switched_at_its_own_address() -> None:
    tracing = {"one": False, "two": True, "three": False}

    def answer(request: httpx2.Request) -> httpx2.Response:
        node = request.url.host if request.url.host in tracing else "one"
        if request.url.path == "/api/overview":
            listeners = [
                {"node": f"rabbit@{n}", "protocol": "http", "port": 15672} for n in tracing
            ]
            return httpx2.Response(200, json={"node": "rabbit@one", "listeners": listeners})
        if request.method == "PUT":
            tracing[node] = True
            return httpx2.Response(204)
        return httpx2.Response(200, json={"name": "shop", "tracing": tracing[node]})

    api = ManagementApi("http://balancer", "x", "y", transport=httpx2.MockTransport(answer))

    assert await api.tracing("shop") == {
        "rabbit@one": False,
        "rabbit@two": True,
        "rabbit@three": False,
    }
    assert await api.set_tracing("shop", True) == ["rabbit@one", "rabbit@three"]
    assert await api.tracing("shop") == dict.fromkeys(
        ["rabbit@one", "rabbit@two", "rabbit@three"], True
    )
    await api.close()
