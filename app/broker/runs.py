"""Runs of trace messages that another process has read, on their way to ours.

A run stands in the connection's bytes in the place of the deliveries that it was made of, as a
frame of a kind that AMQP has not. Channels are sent once: a message names its own by the place in a
table that both sides keep. What cannot be read is left to our process, which knows when it came.
"""

from __future__ import annotations

from typing import Any

import msgspec

from app.broker.arrivals import TraceMessage, read
from app.broker.deliveries import Delivery
from app.tracker import Channel, Deliver, Publish, Unreadable
from app.tracker.digest import digest
from app.tracker.fingerprint import fingerprint

# The table begins anew when it has this many.
MOST_CHANNELS = 10_000


class _Read(msgspec.Struct, array_like=True, gc=False):
    """What both kinds of message have; ``channel`` is a place in the table."""

    number: int
    redelivered: bool
    digest: bytes
    fingerprint: bytes
    channel: int
    exchange: str
    routing_keys: tuple[str, ...]
    properties: dict[str, Any]
    body: bytes


class _Published(_Read, array_like=True, tag=0, gc=False):
    routed_queues: tuple[str, ...]


class _Delivered(_Read, array_like=True, tag=1, gc=False):
    queue: str
    delivered_before: bool


class _Raw(msgspec.Struct, array_like=True, tag=2, gc=False):
    number: int
    redelivered: bool
    routing_key: str
    header: bytes
    body: bytes


class _Run(msgspec.Struct, array_like=True, gc=False):
    """Some deliveries in a row; ``channels`` are added to the table, which may begin ``anew``."""

    anew: bool
    channels: list[Channel]
    messages: list[_Published | _Delivered | _Raw]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Run).decode


class RunWriter:
    """Reads deliveries, and writes what they say."""

    def __init__(self) -> None:
        self._table: dict[Channel, int] = {}
        self._new: list[Channel] = []  # that the other side does not know yet

    def write(self, deliveries: list[Delivery]) -> bytes:
        """The run of these deliveries."""
        anew = len(self._table) >= MOST_CHANNELS
        if anew:
            self._table.clear()
        messages = [self._read(delivery) for delivery in deliveries]
        new, self._new = self._new, []
        return _encode(_Run(anew, new, messages))

    def _place(self, channel: Channel) -> int:
        place = self._table.get(channel)
        if place is None:
            place = self._table[channel] = len(self._table)
            self._new.append(channel)
        return place

    def _read(self, delivery: Delivery) -> _Published | _Delivered | _Raw:
        message = read(delivery, 0).message
        if isinstance(message, Unreadable):
            return _Raw(
                delivery.tag,
                delivery.redelivered,
                delivery.routing_key,
                delivery.header,
                delivery.body,
            )
        both = (
            delivery.tag,
            delivery.redelivered,
            digest(message),
            fingerprint(message),
            self._place(message.channel),
            message.exchange,
            message.routing_keys,
            message.properties,
            message.body,
        )
        if isinstance(message, Publish):
            return _Published(*both, message.routed_queues)
        return _Delivered(*both, message.queue, message.redelivered)


class RunReader:
    """Reads the runs of one connection, in their order."""

    def __init__(self) -> None:
        self._table: list[Channel] = []

    def read(self, run: bytes) -> list[TraceMessage | Delivery]:
        """The messages of a run, without the time; those that were not read as they came.

        :raises msgspec.MsgspecError: if it is no run.
        """
        content = _decode(run)
        if content.anew:
            self._table.clear()
        self._table += content.channels
        return [self._told(message) for message in content.messages]

    def _told(self, sent: _Published | _Delivered | _Raw) -> TraceMessage | Delivery:
        if isinstance(sent, _Published):
            message: Publish | Deliver = Publish(
                self._table[sent.channel],
                sent.exchange,
                sent.routing_keys,
                sent.routed_queues,
                sent.properties,
                sent.body,
            )
        elif isinstance(sent, _Delivered):
            message = Deliver(
                self._table[sent.channel],
                sent.exchange,
                sent.routing_keys,
                sent.queue,
                sent.delivered_before,
                sent.properties,
                sent.body,
            )
        else:
            return Delivery(sent.number, sent.redelivered, sent.routing_key, sent.header, sent.body)
        return TraceMessage(
            sent.number, 0, sent.redelivered, message, sent.digest, sent.fingerprint
        )
