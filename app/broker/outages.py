"""Faults between us and the broker over AMQP, as sentences for an operator.

The client library's own texts never leave this module: they are about frames and states, and may
quote anything. The broker's reply texts name only users, virtual hosts and queues; one without a
sentence here is quoted.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from aiormq import exceptions
from yarl import URL

from app.errors import (
    OutageError,
    QueueInUseError,
    RefusedError,
    UndeliverableError,
    UnreachableError,
)

# Errors of the client library when a connection breaks, or the broker refuses something.
CONNECTION_ERRORS = (
    exceptions.AMQPError,
    exceptions.ChannelInvalidStateError,
    OSError,  # TimeoutError among them
)

_QUOTED = 200  # characters of the broker's own words


class VirtualHostError(OutageError):
    """The broker accepts the account, but does not let it into this virtual host."""


class BrokerAddress(NamedTuple):
    """The broker's address, and the user that we connect as; there is no password in it."""

    address: str  # host:port
    user: str
    vhost: str
    queue: str = "itc.trace"

    @classmethod
    def of(cls, url: URL, vhost: str, queue: str = "itc.trace") -> BrokerAddress:
        """The address in an AMQP URL; its path is ignored. ``queue`` is the trace queue."""
        port = url.port or (5671 if url.scheme == "amqps" else 5672)
        return cls(f"{url.host_subcomponent}:{port}", url.user or "guest", vhost, queue)

    @property
    def rights(self) -> str:
        """The three patterns that the account needs: to configure, write and read."""
        queue = re.escape(self.queue)
        patterns = (
            rf"^{queue}(\.connections|\.marks\..*)?$",
            rf"^({queue}(\.connections)?|amq\.default)$",
            rf"^({queue}(\.connections)?|amq\.rabbitmq\.(trace|event))$",
        )
        return " ".join(f"'{pattern}'" for pattern in patterns)


_RIGHTS = "rabbitmqctl set_permissions -p {vhost} {user} {rights} gives it its rights"
_BROKEN_OFF = (
    "the connection to {address} broke off without a word: the broker was stopped or killed, the "
    "network was cut, or this port of ITC_AMQP_URL is not the broker's"
)
_UNREACHED = "no connection to the broker at {address} (is ITC_AMQP_URL right?): "
_NO_BROKER = "the program at {address} speaks no AMQP 0.9.1: is the port of ITC_AMQP_URL right?"
_NOT_LET_IN = (
    "the broker does not let user {user} into the virtual host {vhost}; it was deleted, "
    "the user has no rights in it, or one has reached its limit of connections (max-connections); "
    + _RIGHTS
)

_NO_ENTRY = "vhost .* not found|access to vhost .* refused"

_IN_USE = (
    "another consumer has the trace queue of {vhost}: is there a second service with the same "
    "ITC_TRACE_QUEUE? If one was just killed, the broker notices within a minute"
)

# Expression in the broker's reply text → our message. The first match counts.
_REPLIES = [
    (
        "vhost .* is (down|being deleted|deleted)",
        "the virtual host {vhost} was deleted or stopped, and the broker closed our connection",
    ),
    (
        "user .* is deleted",
        "the broker's user {user} was deleted: create it again, or name another in ITC_AMQP_URL",
    ),
    (
        "queue limit .* is reached",
        "the virtual host {vhost} may have no more queues, and the trace queue needs a place: "
        "rabbitmqctl set_vhost_limits -p {vhost} raises its limit",
    ),
    (
        "access to (queue|exchange|topic) .* refused",
        "user {user} has too few rights in the virtual host {vhost}: it needs configure, write and "
        "read on the trace queue and read on amq.rabbitmq.trace; " + _RIGHTS,
    ),
    ("no queue ", "the trace queue of {vhost} is gone: somebody deleted it"),
    (
        "Closed via management plugin",
        "an operator closed our connection in the broker's management interface",
    ),
    ("shutdown", "the broker's node at {address} is stopping"),
]

# Class of an error without a reply text → our message. The first match counts.
_KINDS: list[tuple[type[BaseException], str]] = [
    (asyncio.CancelledError, "the broker at {address} stopped sending heartbeats: is it frozen, "
     "or the network cut?"),
    (
        exceptions.ProbableAuthenticationError,
        "the broker refuses user {user}: check the name and password in ITC_AMQP_URL",
    ),
    (
        exceptions.AuthenticationError,
        "the broker at {address} does not offer sign-in by name and password (PLAIN)",
    ),
    (
        ssl.SSLCertVerificationError,
        "the certificate of the broker at {address} is not trusted: is its authority known here "
        "(cafile= in ITC_AMQP_URL), and is the host name right?",
    ),
    (ssl.SSLError, "no TLS with {address}: is that the broker's port for amqps?"),
    (socket.gaierror, "the name in {address} has no address: is ITC_AMQP_URL right?"),
    (
        ConnectionRefusedError,
        "nothing listens at {address}: is the broker running, and ITC_AMQP_URL right?",
    ),
    (TimeoutError, "the broker at {address} does not answer in time"),
    (exceptions.IncompatibleProtocolError, _NO_BROKER),
    (exceptions.ProtocolSyntaxError, _NO_BROKER),
    (exceptions.ChannelInvalidStateError, "the connection to the broker at {address} is gone"),
    (exceptions.AMQPConnectionError, _BROKEN_OFF),
    (ConnectionError, _BROKEN_OFF),
    (EOFError, _BROKEN_OFF),
]  # fmt: skip


def outage(error: BaseException | None, place: BrokerAddress) -> OutageError:
    """The outage behind an error of the client library; None for an end without an error."""
    if isinstance(error, exceptions.ConnectionInternalError):
        return UndeliverableError("the broker broke the connection off: internal error")
    if _is_not_let_in(error):
        return VirtualHostError(_fill(_NOT_LET_IN, place))
    if error is not None and "in exclusive use" in _reply_text(error):
        return in_use(place)
    if isinstance(error, exceptions.ProbableAuthenticationError):
        return RefusedError(_sentence(error, place))
    is_told_why = error is not None and bool(_reply_text(error))
    kind = OutageError if is_told_why else UnreachableError
    return kind(_sentence(error, place))


@contextmanager
def outages(place: BrokerAddress) -> Iterator[None]:
    """Turn faults between us and the broker into an `OutageError`."""
    try:
        yield
    except CONNECTION_ERRORS as error:
        raise outage(error, place) from error


def in_use(place: BrokerAddress) -> QueueInUseError:
    return QueueInUseError(_fill(_IN_USE, place))


def in_use_by_another(vhost: str, queue: str) -> str:
    """The sentence for a trace queue that belongs to another store."""
    return (
        f"the queue {printable(queue)} of {printable(vhost)} belongs to a service with "
        "another database. Give this one an ITC_TRACE_QUEUE of its own; or, if that service is "
        "gone for good: "
        f"rabbitmqctl delete_queue -p {printable(vhost)} {printable(queue)}"
    )


def _is_not_let_in(error: BaseException | None) -> bool:
    """Tell whether the broker answered the opening of a virtual host by closing the connection.

    aiormq then drops the broker's reason, and reports the frame that it had expected.
    """
    if isinstance(error, exceptions.InvalidFrameError):
        return "Connection.OpenOk" in str(error)
    return error is not None and bool(re.search(_NO_ENTRY, _reply_text(error)))


def _sentence(error: BaseException | None, place: BrokerAddress) -> str:
    if error is None:
        return _fill("the connection to the broker at {address} was closed", place)
    reply = _reply_text(error)
    for pattern, sentence in _REPLIES if reply else ():
        if re.search(pattern, reply):
            return _fill(sentence, place)
    if reply:
        return _fill("the broker at {address} closed the connection: ", place) + reply
    origin = _origin(error)
    for kind, sentence in _KINDS:
        if isinstance(origin, kind):
            return _fill(sentence, place)
    return _fill(_UNREACHED, place) + _system_words(origin)


def _reply_text(error: BaseException) -> str:
    """The broker's own words, on one line; empty if it said nothing."""
    text = isinstance(error, exceptions.ConnectionClosed | exceptions.ChannelClosed)
    words = " ".join(str(error.args[-1]).split()) if text and error.args else ""
    return printable(words[:_QUOTED])


def _origin(error: BaseException) -> BaseException:
    """The system's error, which says more than the library's error around it."""
    cause = error.__cause__
    return cause if isinstance(cause, OSError | EOFError) else error


def _system_words(error: BaseException) -> str:
    """The system's words; for a name with several addresses it has none."""
    if isinstance(error, OSError):
        return error.strerror or "it has several addresses, and none of them answers"
    return type(error).__name__


def _fill(sentence: str, place: BrokerAddress) -> str:
    parts = {**place._asdict(), "rights": place.rights}
    return sentence.format_map({name: printable(part) for name, part in parts.items()})


def printable(name: str) -> str:
    """A name made safe for a log line: a virtual host's creator picks any name."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)
