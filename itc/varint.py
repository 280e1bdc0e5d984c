"""Numbers of any size in as few bytes as they need: 7 bits a byte, low ones first."""

from __future__ import annotations

from collections.abc import Sequence

from itc.errors import MalformedError


def append_varint(data: bytearray, value: int) -> None:
    """Append a number, 0 or more, to the bytes."""
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    data.append(value)


def read_varint(data: Sequence[int], position: int) -> tuple[int, int]:
    """The number that begins at a place, and the place behind it.

    Raises MalformedError where the bytes end within it, or it takes more bytes than it needs.
    """
    value = shift = 0
    for place in range(position, len(data)):
        byte = data[place]
        value |= (byte & 127) << shift
        if byte < 128:
            if byte == 0 and place > position:
                raise MalformedError("a number is longer than need be")
            return value, place + 1
        shift += 7
    raise MalformedError("the bytes end within a number")
