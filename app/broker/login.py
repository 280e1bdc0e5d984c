"""Tells whether the capturing account can sign in over AMQP at all."""

from __future__ import annotations

from aio_pika.exceptions import AMQPError
from yarl import URL

from app.broker.connection import VhostConnection
from app.broker.outages import BrokerAddress, outage


async def sign_in(amqp_url: str, vhost: str, seconds: float) -> None:
    """Connect to a virtual host and disconnect.

    Raises `VirtualHostError` if the account is valid but may not enter this virtual host, otherwise
    `OutageError`, which says what went wrong and never shows the password.
    """
    url = URL(amqp_url)
    try:
        connection = VhostConnection(url, vhost)
        await connection.connect(timeout=seconds)
        await connection.leave()
    except (AMQPError, OSError, TimeoutError) as error:
        raise outage(error, BrokerAddress.of(url, vhost)) from error
