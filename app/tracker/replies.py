"""Direct replies, which reach the requesting program without a queue.

A request's ``reply_to`` is ``amq.rabbitmq.reply-to``, and the broker writes a name behind it that
stands for the channel. Replies are published to that name through the default exchange. Before
RabbitMQ 4.2 their delivery is not traced, but the name tells its receiver.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

import msgspec

from app.tracker.events import ChannelState
from app.tracker.records import Channel, Deliver, Publish, Record
from model.texts import is_reply, storable

# Channels that asked for replies; the oldest is forgotten first.
MOST_NAMES = 10_000


class Replies:
    """Channels that wait for direct replies, by the name that stands for them.

    ``are_awaited``: there are some, and the broker does not trace the deliveries of replies.
    """

    def __init__(self) -> None:
        self.are_awaited = False
        self.are_traced = True
        # Not a dict, which would walk over all that made room to find the oldest.
        self._channels: OrderedDict[str, Channel] = OrderedDict()
        self._names: dict[str, set[str]] = {}  # by connection
        self._new: list[tuple[int, str]] = []
        self._ended: OrderedDict[str, None] = OrderedDict()

    def trace(self, are_traced: bool) -> None:
        """Say whether the broker traces the deliveries of direct replies."""
        self.are_traced = are_traced
        self._look()

    def restore(self, channels: Iterable[ChannelState]) -> None:
        for state in channels:
            if state.replies_to is not None:
                self._remember(state.replies_to, state.channel)

    def changes(self) -> list[tuple[int, str]]:
        """Keys and names of the channels that asked since the last call."""
        new, self._new = self._new, []
        return new

    def note(self, channel_key: int, publish: Publish) -> None:
        """Note where a publish asks for the reply.

        A name stands for the channel that used it first: others only pass the request on.
        """
        name = publish.properties.get("reply_to")
        if not isinstance(name, str) or not is_reply(name):
            return
        name = storable(name)  # as the routing key of the reply is
        if name not in self._channels:
            self._remember(name, publish.channel)
            self._new.append((channel_key, name))

    def direct_reply(self, record: Record) -> Publish | None:
        """A direct reply as a publish to a queue of its name; None for any other record."""
        if record.exchange or isinstance(record, Deliver):
            return None
        name = record.routing_keys[0] if record.routing_keys else ""
        if name not in self._channels:
            return None
        return msgspec.structs.replace(record, routed_queues=(name,))

    def is_to_somebody(self, publish: Publish) -> bool:
        """Tell whether it is a reply that a channel may have been given, nobody can say which.

        Its request came before the trace, or is not in the record.
        """
        if self.are_traced or publish.exchange or not publish.routing_keys:
            return False
        name = publish.routing_keys[0]
        return is_reply(name) and name not in self._channels and name not in self._ended

    def delivery_of(self, reply: Publish) -> Deliver:
        """The delivery of what `direct_reply` returned."""
        (name,) = reply.routed_queues
        return Deliver(
            self._channels[name],
            reply.exchange,
            reply.routing_keys,
            name,
            False,
            reply.properties,
            reply.body,
            reply.sha256,
            redactions=reply.redactions,
        )

    def reach(self, connection: str) -> bool:
        """Tell whether a channel of this connection waits for replies."""
        return connection in self._names

    def end(self, connection: str) -> None:
        for name in [*self._names.get(connection, ())]:
            self._forget(name)
            self._ended[name] = None
            if len(self._ended) > MOST_NAMES:
                self._ended.popitem(last=False)
        self._look()

    def keep(self, waits: Callable[[Channel], bool]) -> None:
        """Forget channels that do not wait any more."""
        for name in [name for name, channel in self._channels.items() if not waits(channel)]:
            self._forget(name)
        self._look()

    def _remember(self, name: str, channel: Channel) -> None:
        if len(self._channels) >= MOST_NAMES:
            self._forget(next(iter(self._channels)))
        self._channels[name] = channel
        self._names.setdefault(channel.connection, set()).add(name)
        self._look()

    def _forget(self, name: str) -> None:
        connection = self._channels.pop(name).connection
        names = self._names[connection]
        names.remove(name)
        if not names:
            del self._names[connection]

    def _look(self) -> None:
        self.are_awaited = bool(self._channels) and not self.are_traced
