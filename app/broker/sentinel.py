"""The sentinel: a message of ours that stays at the head of the trace queue.

While we are connected it is handed to a channel of its own and not acknowledged. When we leave, it
goes back to its place, before everything that was traced meanwhile. So anybody who purges or
deletes the queue, takes messages out of it, or lets the oldest expire or drop while nobody reads
it, takes the sentinel first: if it is gone when we come back, so may be the messages behind it. It
can only be put in front of everything while the queue is empty.

Quorum queues have none: messages that several channels give back to one come in no certain order.
"""

from __future__ import annotations

import asyncio
import secrets
import time

import aio_pika
from aio_pika.abc import AbstractChannel

from app.tracker import Publish, Record, Unreadable

WORD = b"rabbitmq-itc sentinel "
# Time for a channel that just closed to give the sentinel back.
RETURN_SECONDS = 1.0
PAUSE_SECONDS = 0.05


def token_of(message: Unreadable, queue: str) -> str | None:
    """The token in a message from our queue, if it is a sentinel."""
    if message.routing_key != queue or not message.body.startswith(WORD):
        return None
    return message.body.removeprefix(WORD).decode("ascii", "replace")


def is_about(message: Record, queue: str, user: str) -> bool:
    """Tell whether a trace message is about the publishing of a sentinel of ours."""
    return (
        isinstance(message, Publish)
        and not message.exchange
        and message.routing_keys[0] == queue
        and message.channel.user == user
        and message.body.startswith(WORD)
    )


async def hold(channel: AbstractChannel, queue: str, token: str) -> bool:
    """Take the sentinel out of the head of the queue, and do not acknowledge it; False if gone."""
    source = await channel.get_queue(queue, ensure=False)
    deadline = time.monotonic() + RETURN_SECONDS
    while True:
        message = await source.get(fail=False)
        if message is not None:
            if message.body == WORD + token.encode():
                return True
            await message.nack(requeue=True)  # it goes back to where it was
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(PAUSE_SECONDS)


async def put_sentinel(
    channel: AbstractChannel, queue: str, publisher: AbstractChannel
) -> str | None:
    """Put a new sentinel into an empty queue, and hold it; its token, or None if others were first.

    ``publisher`` confirms, and is of another connection: while the broker is short of memory it
    stops reading from those that publish.
    """
    token = secrets.token_hex(8)
    message = aio_pika.Message(WORD + token.encode())
    await publisher.default_exchange.publish(message, queue, mandatory=False)
    return token if await hold(channel, queue, token) else None
