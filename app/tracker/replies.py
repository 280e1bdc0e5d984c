"""Direct replies, which reach the program that asked without a queue.

A request's ``reply_to`` is ``amq.rabbitmq.reply-to``, and the broker writes a name behind it that
stands for the channel. Whoever answers publishes to that name through the default exchange. Before
RabbitMQ 4.2 the delivery is not traced, but to whom it goes is known all the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

import msgspec

from app.tracker.events import ChannelState
from app.tracker.records import Channel, Deliver, Publish, Record
from model.texts import is_reply, storable

# Channels that asked for replies; the one that asked first is forgotten first.
MOST = 10_000


class Replies:
    """Clients that wait for direct replies, and the names under which they do.

    ``are_awaited``: somebody does, and the broker does not trace the deliveries of replies.
    """

    def __init__(self) -> None:
        self.are_awaited = False
        self.are_traced = True
        # Not a dict, which would walk over all that made room to find the oldest.
        self._waiting: OrderedDict[str, Channel] = OrderedDict()
        self._names: dict[str, set[str]] = {}  # of those who wait, by connection
        self._new: list[tuple[int, str]] = []

    def trace(self, on: bool) -> None:
        """Say whether the broker traces the deliveries of direct replies."""
        self.are_traced = on
        self._look()

    def restore(self, channels: Iterable[ChannelState]) -> None:
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
        if not isinstance(name, str) or not is_reply(name):
            return
        name = storable(name)  # as the routing key of the reply is
        if name not in self._waiting:
            self._remember(name, publish.channel)
            self._new.append((channel_key, name))

    def direct_reply(self, record: Record) -> Publish | None:
        """A publish as one to the queue that stands for whoever asked, if its delivery is untraced.

        None for anything else.
        """
        if record.exchange or isinstance(record, Deliver):
            return None
        name = record.routing_keys[0] if record.routing_keys else ""
        if name not in self._waiting:
            return None
        return msgspec.structs.replace(record, routed_queues=(name,))

    def delivery_of(self, reply: Publish) -> Deliver:
        """The delivery of what `direct_reply` returned."""
        (name,) = reply.routed_queues
        return Deliver(
            self._waiting[name],
            reply.exchange,
            reply.routing_keys,
            name,
            False,
            reply.properties,
            reply.body,
            reply.sha256,
        )

    def reach(self, connection: str) -> bool:
        """Tell whether a channel of this connection waits for replies."""
        return connection in self._names

    def end(self, connection: str) -> None:
        for name in [*self._names.get(connection, ())]:
            self._forget(name)
        self._look()

    def keep(self, waits: Callable[[Channel], bool]) -> None:
        """Forget the channels of which this is not true."""
        for name in [name for name, each in self._waiting.items() if not waits(each)]:
            self._forget(name)
        self._look()

    def _remember(self, name: str, channel: Channel) -> None:
        if len(self._waiting) >= MOST:
            self._forget(next(iter(self._waiting)))
        self._waiting[name] = channel
        self._names.setdefault(channel.connection, set()).add(name)
        self._look()

    def _forget(self, name: str) -> None:
        connection = self._waiting.pop(name).connection
        names = self._names[connection]
        names.remove(name)
        if not names:
            del self._names[connection]

    def _look(self) -> None:
        self.are_awaited = bool(self._waiting) and not self.are_traced
