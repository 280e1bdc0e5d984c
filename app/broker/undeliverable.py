"""Trace messages that only the management API can show: found, described and removed.

AMQP's routing keys end at 255 bytes. The trace message of a queue or an exchange whose name is
longer than 247 has a longer one, and the broker breaks off every connection to which it tries to
send it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

import msgspec

from app.broker.firehose import QUARANTINED_HEADERS
from app.tracker import NOWHERE, Channel, Unreadable
from app.tracker.records import QUARANTINED_BODY
from model.texts import storable, storable_name

LONGEST_ROUTING_KEY = 255
REASON = "the broker cannot hand it to a consumer"
UNSHOWN = "before one that the broker cannot hand to a consumer, and the API could not show it"

# The needed part of JSON: strings, opening and closing brackets, and other values.
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]|[^\s,:\[\]{}"]+')
_MEMBER = 2  # the depth of a message's own members: in an object in a list


class Waiting(msgspec.Struct, frozen=True):
    """A message of the trace queue, as the management API shows it."""

    routing_key: str
    redelivered: bool
    headers: bytes  # JSON
    body: bytes  # its beginning
    body_bytes: int
    channel: Channel
    is_shown: bool = True

    @property
    def is_deliverable(self) -> bool:
        return self.is_shown and len(self.routing_key.encode()) <= LONGEST_ROUTING_KEY

    def unreadable(self, moment: int) -> Unreadable:
        length = len(self.routing_key.encode())
        reason = f"its routing key has {length} bytes, and AMQP allows {LONGEST_ROUTING_KEY}"
        return Unreadable(
            reason=f"{REASON}: {reason}" if self.is_shown else UNSHOWN,
            routing_key=storable(self.routing_key),
            headers=storable(self.headers)[:QUARANTINED_HEADERS],
            body=self.body[:QUARANTINED_BODY],
            body_bytes=self.body_bytes,
            recorded_at=moment,
            channel=self.channel,
        )


NEVER_SHOWN = Waiting("", True, b"", b"", 0, NOWHERE, is_shown=False)


def read_messages(answer: bytes) -> list[Waiting]:
    """Read the management API's JSON of messages.

    Headers are not decoded: a sender may nest them deeper than any JSON decoder can stand. Raises
    `ValueError` if it is anything else.
    """
    return [_message_of(members) for members in _objects(answer)]


def _objects(answer: bytes) -> Iterator[dict[bytes, bytes]]:
    """The members of each object of a list, undecoded."""
    members: dict[bytes, bytes] = {}
    name, depth, begin = b"", 0, 0
    for token in _TOKENS.finditer(answer):
        text = token.group()
        if text in b"[{":
            begin = token.start() if depth == _MEMBER else begin
            depth += 1
            continue
        if text in b"]}":
            depth -= 1
            if depth == 1:
                yield members
                members, name = {}, b""
                continue
            if depth != _MEMBER:
                continue
            text = answer[begin : token.end()]
        elif depth != _MEMBER:
            continue
        if name:
            members[name], name = text, b""
        else:
            name = text.strip(b'"')


def _message_of(members: dict[bytes, bytes]) -> Waiting:
    try:
        is_base64 = members.get(b"payload_encoding") == b'"base64"'
        body = msgspec.json.decode(members[b"payload"], type=str)
        return Waiting(
            routing_key=msgspec.json.decode(members[b"routing_key"], type=str),
            redelivered=members.get(b"redelivered") == b"true",
            headers=members.get(b"properties", b"")[: 2 * QUARANTINED_HEADERS],
            body=_decode(body) if is_base64 else body.encode(),
            body_bytes=msgspec.json.decode(members.get(b"payload_bytes", b"0"), type=int),
            channel=_channel(members.get(b"properties", b"")),
        )
    except (KeyError, msgspec.MsgspecError) as error:
        raise ValueError("that is no message as the management API shows one") from error


class _Origin(msgspec.Struct):
    node: str
    connection: str
    channel: int
    user: str


class _Properties(msgspec.Struct):
    headers: _Origin


def _channel(properties: bytes) -> Channel:
    """The channel that a message names, as far as it can be read."""
    try:
        place = msgspec.json.decode(properties, type=_Properties).headers
        node, connection, user = map(storable_name, (place.node, place.connection, place.user))
    except (
        msgspec.MsgspecError,
        RecursionError,
        ValueError,
    ):  # nested too deeply
        return NOWHERE
    return Channel(node, connection, place.channel, user)


def _decode(body: str) -> bytes:
    """The bytes of base64, none if it is damaged: the message has left the queue by now."""
    try:
        return base64.b64decode(body)
    except ValueError:
        return b""
