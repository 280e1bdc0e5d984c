"""The trace id out of what tracing libraries write into headers.

Each takes a header's text and returns the id, None where there is none. The ids of W3C, Zipkin and
Jaeger are hexadecimal and of 64 or 128 bits: all come out with 32 digits in lower case, since
libraries translate one into the other. The rest of such a header is the span that *sent* the
message: it says nothing about which message that span had handled.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable

_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?"
)
_B3 = re.compile(r"(?!0+-)([0-9a-fA-F]{16}|[0-9a-fA-F]{32})-[0-9a-fA-F]{16}(?:-.*)?")
_B3_ID = re.compile(r"(?!0+$)([0-9a-fA-F]{16}|[0-9a-fA-F]{32})")
_JAEGER = re.compile(r"(?!0+:)([0-9a-fA-F]{1,32}):[0-9a-fA-F]{1,16}:[0-9a-fA-F]*:[0-9a-fA-F]{1,2}")
_DATADOG = re.compile(r"(?!0+$)([0-9]{1,20})")


def _hexadecimal(pattern: re.Pattern[str]) -> Callable[[str], str | None]:
    def take(text: str) -> str | None:
        match = pattern.fullmatch(text)
        return None if match is None else match[1].lower().zfill(32)

    return take


def _jaeger(text: str) -> str | None:
    """Like the others, and some libraries write the colons as ``%3A``."""
    return _of_jaeger(text.replace("%3A", ":").replace("%3a", ":"))


_of_jaeger = _hexadecimal(_JAEGER)


def _datadog(text: str) -> str | None:
    return text if _DATADOG.fullmatch(text) else None


def _skywalking(text: str) -> str | None:
    parts = text.split("-")
    if len(parts) != 8 or parts[0] not in ("0", "1"):
        return None
    try:
        return binascii.a2b_base64(parts[1]).decode() or None
    except ValueError:
        return None


TAKES: dict[str, Callable[[str], str | None]] = {
    "traceparent": _hexadecimal(_TRACEPARENT),
    "b3": _hexadecimal(_B3),
    "b3-trace-id": _hexadecimal(_B3_ID),
    "uber-trace-id": _jaeger,
    "datadog": _datadog,
    "sw8": _skywalking,
}
