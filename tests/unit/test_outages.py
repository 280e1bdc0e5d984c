"""What an operator reads of a failed connection: plain sentences, and never a password."""

from __future__ import annotations

import asyncio
import re
import shlex
import socket
import ssl

import pytest
from aiormq import exceptions
from yarl import URL

from app.broker.outages import BrokerAddress, VirtualHostError, outage
from app.errors import OutageError, RefusedError, UndeliverableError

PLACE = BrokerAddress("broker.example:5672", "shop", "orders")


def wrapped(cause: BaseException) -> exceptions.AMQPConnectionError:
    """A system's error as the client library passes it on."""
    error = exceptions.AMQPConnectionError(*cause.args)
    error.__cause__ = cause
    return error


def at_opening() -> exceptions.InvalidFrameError:
    return exceptions.InvalidFrameError(
        "Expected one of ['Connection.OpenOk'], got <Connection.Close object at 0x7f>"
    )


def refused(what: str) -> exceptions.ChannelAccessRefused:
    return exceptions.ChannelAccessRefused(f"ACCESS_REFUSED - {what}")


def forced(why: str) -> exceptions.ConnectionClosed:
    return exceptions.ConnectionClosed(320, f"CONNECTION_FORCED - {why}")


SENTENCES = [
    (at_opening(), "does not let user shop into the virtual host orders"),
    (at_opening(), "has reached its limit of connections (max-connections)"),
    (
        exceptions.ConnectionClosed(530, "NOT_ALLOWED - vhost orders not found"),
        "does not let user shop into the virtual host orders",
    ),
    (
        exceptions.ConnectionNotAllowed("NOT_ALLOWED - access to vhost 'orders' refused for user"),
        "rabbitmqctl set_permissions -p orders shop",
    ),
    (
        exceptions.ProbableAuthenticationError("ACCESS_REFUSED - Login was refused using …"),
        "the broker refuses user shop: check the name and password in ITC_AMQP_URL",
    ),
    (
        refused("access to queue 'itc.trace' in vhost 'orders' refused for user 'shop'"),
        "user shop has too few rights in the virtual host orders",
    ),
    (
        refused("access to exchange 'amq.rabbitmq.trace' in vhost 'orders' refused for user …"),
        "read on amq.rabbitmq.trace",
    ),
    (refused("queue 'itc.trace' in vhost 'orders' in exclusive use"), "ITC_TRACE_QUEUE"),
    (
        exceptions.ChannelNotFoundEntity("NOT_FOUND - no queue 'itc.trace' in vhost 'orders'"),
        "the trace queue of orders is gone",
    ),
    (forced("Closed via management plugin"), "an operator closed our connection"),
    (forced("vhost 'orders' is down"), "the virtual host orders was deleted or stopped"),
    (forced("user 'shop' is deleted"), "the broker's user shop was deleted"),
    (
        forced("broker forced connection closure with reason 'shutdown'"),
        "the broker's node at broker.example:5672 is stopping",
    ),
    (forced("tea\n time"), "closed the connection: CONNECTION_FORCED - tea time"),
    (asyncio.CancelledError(), "stopped sending heartbeats"),
    (wrapped(ConnectionRefusedError(111, "Connect call failed")), "is the broker running"),
    (wrapped(socket.gaierror(-2, "Name or service not known")), "has no address"),
    (wrapped(ssl.SSLCertVerificationError(1, "self-signed")), "is not trusted"),
    (wrapped(ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER]")), "the broker's port for amqps"),
    (wrapped(asyncio.IncompleteReadError(b"", 1)), "broke off without a word"),
    (wrapped(OSError("Multiple exceptions: [Errno 111] …")), "several addresses"),
    (wrapped(OSError(113, "No route to host")), "No route to host"),
    (TimeoutError(), "does not answer in time"),
    (ConnectionResetError(104, "reset"), "broke off without a word"),
    (exceptions.ConnectionClosed(), "broke off without a word"),
    (exceptions.IncompatibleProtocolError(), "speaks no AMQP 0.9.1"),
    (exceptions.InvalidFrameError("Expected Connection.Start, got …"), "speaks no AMQP 0.9.1"),
    (exceptions.AuthenticationError(["GSSAPI"], ["PLAIN"]), "does not offer sign-in"),
    (exceptions.ChannelInvalidStateError("…"), "the connection to the broker"),
    (exceptions.AMQPError("…"), "AMQPError"),
    (None, "the connection to the broker at broker.example:5672 was closed"),
]


@pytest.mark.parametrize(("error", "said"), SENTENCES)
def test_every_loss_is_a_plain_sentence(error: BaseException | None, said: str) -> None:
    sentence = str(outage(error, PLACE))

    assert said in sentence
    assert "\n" not in sentence
    for jargon in ("Expected one of", "object at", "Errno", "…", "{"):
        assert jargon not in sentence


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (exceptions.ConnectionInternalError("INTERNAL_ERROR"), UndeliverableError),
        (at_opening(), VirtualHostError),
        (exceptions.ConnectionNotAllowed("NOT_ALLOWED - vhost x not found"), VirtualHostError),
        (exceptions.ConnectionNotAllowed("NOT_ALLOWED - consumer tag reused"), OutageError),
        (exceptions.ProbableAuthenticationError("Login was refused"), RefusedError),
    ],
)
def test_what_is_handled_apart_has_a_class_of_its_own(
    error: BaseException, kind: type[OutageError]
) -> None:
    assert type(outage(error, PLACE)) is kind


def test_the_rights_that_are_missing_are_the_three_patterns_for_the_queue_in_use() -> None:
    place = BrokerAddress("broker:5672", "shop", "orders", "its.trace")
    said = str(outage(refused("access to queue 'its.trace' in vhost 'orders' refused"), place))
    command = shlex.split(said[said.index("rabbitmqctl") : said.index(" gives it")])
    configure, write, read = command[5:]

    assert command[:5] == ["rabbitmqctl", "set_permissions", "-p", "orders", "shop"]
    for name in ("its.trace", "its.trace.connections"):
        assert all(re.search(pattern, name) for pattern in (configure, write, read))
    assert re.search(configure, "its.trace.marks.1")
    assert re.search(write, "amq.default")
    assert re.search(read, "amq.rabbitmq.trace")
    assert not re.search(read, "orders")


def kinds(root: type[BaseException]) -> set[type[BaseException]]:
    found = {root}.union(*(kinds(each) for each in root.__subclasses__()))
    return {kind for kind in found if kind.__module__ == exceptions.__name__}


SILENT = {
    # The broker's own words are quoted: it knows no password of ours to put there.
    *kinds(exceptions.ConnectionClosed),
    *kinds(exceptions.ChannelClosed),
    *kinds(exceptions.DeliveryError),  # never raised: we publish nothing
}


@pytest.mark.parametrize(
    "kind",
    sorted(kinds(exceptions.AMQPError) - SILENT, key=lambda each: each.__name__),
)
def test_no_text_of_the_client_library_gets_out(kind: type[BaseException]) -> None:
    sentence = str(outage(kind("amqp://shop:hush@broker.example:5672/orders"), PLACE))

    assert "hush" not in sentence
    assert "amqp://" not in sentence


@pytest.mark.parametrize(
    "cause",
    [
        OSError("cannot reach amqp://shop:hush@broker.example"),
        ssl.SSLError(1, "amqp://shop:hush@broker.example"),
        socket.gaierror(-2, "shop:hush@broker.example"),
        EOFError("hush"),
    ],
)
def test_no_text_of_the_system_does_either(cause: BaseException) -> None:
    assert "hush" not in str(outage(wrapped(cause), PLACE))
    assert "hush" not in str(outage(cause, PLACE))


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("amqp://shop:hush@broker/other", BrokerAddress("broker:5672", "shop", "orders")),
        ("amqps://s%40p:hush@broker", BrokerAddress("broker:5671", "s@p", "orders")),
        ("amqp://broker:5673", BrokerAddress("broker:5673", "guest", "orders")),
        ("amqp://shop:hush@[::1]:5673", BrokerAddress("[::1]:5673", "shop", "orders")),
    ],
)
def test_a_place_holds_no_password(url: str, place: BrokerAddress) -> None:
    assert BrokerAddress.of(URL(url), "orders") == place


def test_a_name_in_braces_is_no_template() -> None:
    odd = BrokerAddress("broker:5672", "{vhost}", "{address}{0}")

    assert "user {vhost} into the virtual host {address}{0}" in str(outage(at_opening(), odd))


def test_a_name_cannot_write_a_line_of_the_log_or_to_the_terminal() -> None:
    odd = BrokerAddress("broker:5672", "\x1b[2Jshop", "a\nERROR app: forged")

    said = str(outage(at_opening(), odd)) + str(outage(forced("x\x1b[31m"), odd))

    assert said.isprintable()
    assert "\\x1b[2Jshop" in said
