"""Direct replies, which reach the program that asked without a queue.

A request's ``reply_to`` is ``amq.rabbitmq.reply-to``, and the broker writes a name behind it that
stands for the channel. Whoever answers publishes to that name through the default exchange. Before
RabbitMQ 4.2 the delivery is not traced, but to whom it goes is known all the same.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from app.tracker.events import ChannelState
from app.tracker.records import Channel, Deliver, Publish, Record

PREFIX = "amq.rabbitmq.reply-to."

# Channels that asked for replies; the one that asked first is forgotten first.
MOST = 10_000


def is_reply(queue: str) -> bool:
    """Whether a queue's name stands for a channel that waits for direct replies."""
    return queue.startswith(PREFIX)


class Replies:
    """Who waits for direct replies under which name.

    ``are_traced``: whether the broker traces their deliveries itself.
    """

    def __init__(self) -> None:
        self.are_traced = True
        self._waiting: dict[str, Channel] = {}
        self._new: list[tuple[int, str]] = []

    def restore(self, channels: Iterable[ChannelState]) -> None:
        """Fill in from a checkpoint."""
        for known in channels:
            if known.replies_to is not None:
                self._remember(known.replies_to, known.channel)

    def changes(self) -> list[tuple[int, str]]:
        """Return, since the last call: the key of each channel that asked, and under which name."""
        new, self._new = self._new, []
        return new

    def note(self, channel_key: int, publish: Publish) -> None:
        """Note where a publish asks for the reply.

        Whoever is seen first under a name is the one that it stands for: others can only pass the
        request on.
        """
        name = publish.properties.get("reply_to")
        if isinstance(name, str) and is_reply(name) and name not in self._waiting:
            self._remember(name, publish.channel)
            self._new.append((channel_key, name))

    def with_delivery(self, record: Record) -> tuple[Record, ...]:
        """A record, and behind a direct reply the delivery that is not traced."""
        if self.are_traced or isinstance(record, Deliver) or record.exchange:
            return (record,)
        name = record.routing_keys[0] if record.routing_keys else ""
        asked = self._waiting.get(name) if is_reply(name) else None
        if asked is None:
            return (record,)
        publish = msgspec.structs.replace(record, routed_queues=(name,))
        delivery = Deliver(
            asked, record.exchange, record.routing_keys, name, False, record.properties, record.body
        )
        return publish, delivery

    def _remember(self, name: str, channel: Channel) -> None:
        if len(self._waiting) >= MOST:
            del self._waiting[next(iter(self._waiting))]
        self._waiting[name] = channel
