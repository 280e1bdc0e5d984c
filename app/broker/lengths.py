"""Lengths of queues as these say them at this moment; the management API's are some seconds old."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from aiormq.exceptions import AMQPChannelError
from yarl import URL

from app.broker.connection import CONNECT_SECONDS, VhostConnection
from app.broker.outages import BrokerAddress, outages


async def ready_in(amqp_url: str, vhost: str, queues: Collection[str]) -> Mapping[str, int]:
    """The number of messages ready in each of some queues; without those that do not say.

    A passive declaration needs no rights. Raises `OutageError`.
    """
    url = URL(amqp_url)
    lengths: dict[str, int] = {}
    with outages(BrokerAddress.of(url, vhost)):
        connection = VhostConnection(url, vhost)
        await connection.connect(timeout=CONNECT_SECONDS)
        try:
            for queue in queues:
                channel = await connection.channel(publisher_confirms=False)
                raw = await channel.get_underlay_channel()
                try:
                    declared = await raw.queue_declare(queue, passive=True, timeout=CONNECT_SECONDS)
                except AMQPChannelError:  # it is gone, or exclusive
                    continue
                lengths[queue] = declared.message_count or 0
        finally:
            await connection.leave()
    return lengths
