"""Connections to the broker, as far as the broker has told of them."""

from __future__ import annotations

import msgspec


class NewConnection(msgspec.Struct, frozen=True):
    """A connection that somebody opened; ``opened_at`` in µs, by the broker's clock.

    ``client`` names the program, None if nothing does; ``given_name`` is what the client calls the
    connection, ``process`` its process id. ``pid`` is the broker's process behind the connection,
    None where only the management API told of it.
    """

    node: str
    name: str
    vhost: str
    user: str
    client: str | None
    given_name: str | None
    process: str | None
    opened_at: int
    pid: str | None = None


class ClosedConnection(msgspec.Struct, frozen=True):
    """A connection that is gone; ``closed_at`` in µs, by the broker's clock."""

    node: str
    name: str
    pid: str
    closed_at: int


class BrokerConnection(msgspec.Struct, frozen=True):
    """A connection. Others may have had its ``name`` before it: ``id`` is this one's alone.

    The name is as trace messages have it. ``client``, ``given_name`` and ``process`` as in
    `NewConnection`. ``closed_at`` is None while it is open; otherwise it was closed by then.
    """

    id: int
    node: str
    name: str
    vhost: str
    user: str
    client: str | None
    given_name: str | None
    process: str | None
    opened_at: int
    closed_at: int | None
