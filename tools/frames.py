"""AMQP's frames, for whoever plays a broker."""

from __future__ import annotations

from struct import Struct

METHOD, HEADER, BODY = 1, 2, 3
DELIVER = bytes([0, 60, 0, 60])  # class and method
HEAD = Struct(">BHI")  # kind, channel, size of the payload; after that an end octet


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return HEAD.pack(kind, channel, len(payload)) + payload + b"\xce"
