"""The words of an event. The numbers are what the store keeps."""

from __future__ import annotations

import enum


class EventType(enum.IntEnum):
    """The plugin's and ``rabbitmq_tracing``'s words."""

    published = 0
    received = 1


class Match(enum.IntEnum):
    """How a received event found its cause. A published event has `none`."""

    none = 0
    routed = 1  # first delivery of a copy that the publish was routed to
    redelivered = 2  # the same copy handed over again
    dead_lettered = 3  # followed through x-death to the publish it came from
    unmatched = 4  # its publish was not observed
    untraced = 5  # a direct reply, whose delivery the broker does not trace: known from `reply_to`
