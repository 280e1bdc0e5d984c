"""Whether the capturing account can sign in over AMQP at all."""

from __future__ import annotations

from urllib.parse import quote

import aio_pika
from aio_pika.exceptions import AMQPError
from yarl import URL

from app.errors import OutageError


async def sign_in(amqp_url: str, vhost: str, seconds: float) -> None:
    """Connect to a virtual host and leave again; raises `OutageError` with what went wrong."""
    url = URL(amqp_url).with_path("/" + quote(vhost, safe=""), encoded=True)
    try:
        connection = await aio_pika.connect(url, timeout=seconds)
        await connection.close()
    except (AMQPError, OSError, TimeoutError) as error:
        # Not the library's text, which may hold the URL with its password.
        raise OutageError(
            f"no AMQP session at {url.host}:{url.port}, virtual host {vhost} "
            f"({type(error).__name__})"
        ) from error
