"""Recognises trace messages about the service itself, and those that the broker counts.

The names of our queues and the messages' contents show it, never a connection's name: it is made of
addresses and ports, which are used again, and in messages from before we came ours may be that of a
program that is gone. Nearly every message is somebody else's and counted: that is found out first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from app.broker import sentinel
from app.broker._wire import Others
from app.broker.marks import mark_of, queue_prefix
from app.broker.trace_queue import announcements_queue
from app.tracker import NOWHERE, Record, Settlement, Unreadable
from model.texts import DIRECT_REPLIES


class About(NamedTuple):
    """The subject of a trace message.

    ``is_own``: about what the service itself did. ``is_counted``: the broker's counters have it.
    ``mark`` is the series and number of one of our marks, ``sentinel`` the token of a sentinel that
    came like a trace message.
    """

    is_own: bool
    is_counted: bool
    mark: tuple[str, int] | None = None
    sentinel: str | None = None


# "" for messages that cannot be read, or that nobody can be shown: they have no key.
_COUNTED_KINDS = frozenset({"publish", "deliver", ""})

OTHERS, UNCOUNTED = About(is_own=False, is_counted=True), About(is_own=False, is_counted=False)
OWN, OWN_UNCOUNTED = About(is_own=True, is_counted=True), About(is_own=True, is_counted=False)


class Own(Others):
    """Recognition of our own among one stream's trace messages."""

    def __init__(self, queue: str, user: str, former: Iterable[str] = ()) -> None:
        """``queue`` is the trace queue, ``user`` ours; we captured under the ``former`` ones once.

        Trace messages about these may still be in the queue.
        """
        self._queue = queue
        self._users = frozenset((user, *former))
        self._queues = (queue, announcements_queue(queue))
        self._special = (queue, DIRECT_REPLIES)  # other names of queues make no difference
        self._marks, self._others = queue_prefix(queue), OTHERS

    def _about(self, message: Record | Settlement | Unreadable) -> About:
        """The subject of a trace message that need not be somebody else's.

        Deliveries from the trace exchange are not traced; deliveries of messages that others put
        into our queue are, and those of announcements, perhaps to another process of ours. The
        broker's counters leave out channels with the number 0 (MQTT, and AMQP 1.0 on 4.x, which
        have no AMQP 0.9.1 inside) and direct replies. Our own queue's deliveries are left out here,
        since they are no traffic, and so are settlements.
        """
        if not message.is_event:  # isinstance takes longer than all the rest
            if isinstance(message, Settlement):
                return UNCOUNTED
            token = sentinel.token_of(message, self._queue)
            if token is not None:
                return About(True, False, sentinel=token)
            has_number = message.channel.number or message.channel == NOWHERE
            is_traced = message.kind in _COUNTED_KINDS and not message.is_forged
            return OTHERS if has_number and is_traced else UNCOUNTED
        channel, queue = message.channel, message.queue
        is_own = False
        if queue is None:  # a publish
            is_counted = bool(channel.number)
            if (
                channel.user in self._users
                and message.routing_keys
                and message.routing_keys[0].startswith(self._queue)
            ):
                if mark := mark_of(message, self._marks, channel.user):
                    return About(True, is_counted, mark=mark)
                is_own = sentinel.is_about(message, self._queue, channel.user)
        else:
            is_own = queue in self._queues
            is_counted = bool(channel.number) and not (
                queue == self._queue or queue.startswith(DIRECT_REPLIES)
            )
        if is_counted:
            return OWN if is_own else OTHERS
        return OWN_UNCOUNTED if is_own else UNCOUNTED
