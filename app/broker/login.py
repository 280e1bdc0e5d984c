"""Tells whether the capturing account can sign in over AMQP at all."""

from __future__ import annotations

from urllib.parse import quote

import aio_pika
from aio_pika.exceptions import AMQPError
from yarl import URL

from app.broker.outages import Place, outage


async def sign_in(amqp_url: str, vhost: str, seconds: float) -> None:
    """Connect to a virtual host and disconnect.

    Raises `VirtualHostError` if the account is valid but may not enter this virtual host, otherwise
    `OutageError`, which says what went wrong and never shows the password.
    """
    url = URL(amqp_url)
    try:
        connection = await aio_pika.connect(
            url.with_path("/" + quote(vhost, safe=""), encoded=True), timeout=seconds
        )
        await connection.close()
    except (AMQPError, OSError, TimeoutError) as error:
        raise outage(error, Place.of(url, vhost)) from error
