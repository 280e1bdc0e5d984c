"""Bodies of messages, read within bounds: their senders choose what reading them costs.

Beside plain JSON are read: bodies behind a byte order mark, in UTF-16, in Latin-1, with NaN, or
compressed. Sizes are checked before anything is decoded, and reading ends at the first fault: no
body takes more than 5 ms (`drills.fuzz`), or 10 where a search takes its escapes away.
"""

from __future__ import annotations

import codecs
import json
import re
import zlib
from array import array
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from typing import Any

MOST_BYTES = 256 * 1024  # as it was sent, and unpacked
MOST_UNPACKED = 64  # times the sent size, and `SMALL` more: usual JSON packs to a tenth
SMALL = 4 * 1024
MOST_VALUES = 10_000  # an empty table takes 0.2 µs, whatever its three bytes
MOST_DIGITS = 640  # of a number: their time grows with their square
MOST_LAYERS = 3  # of JSON in strings of JSON, as in envelopes, and in headers
MOST_DEPTH = 500  # a body nested deeper is refused, wherever on Python's stack we are

TOO_LARGE, TOO_DEEP, NOT_JSON = "body too large", "body nested too deep", "body not JSON"
NOT_UNPACKED, UNKNOWN = "body not decompressed", "body in an unknown encoding"

_COMPRESSED = {"gzip": 31, "x-gzip": 31, "deflate": 15, "zlib": 15}  # and the window for `zlib`
# Encodings that are no compression: character sets, and those of mail.
_PLAIN = re.compile(
    r"|utf-?(8|16|32)([bl]e)?|(us-)?ascii|iso-?8859.*|latin-?1|windows-.*|binary"
    r"|identity|none|7bit|8bit|base64|quoted-printable",
    re.IGNORECASE,
).fullmatch
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_MARKS = (codecs.BOM_UTF8, *_UTF_16, b"\x1f\x8b")
FIRST_BYTES = frozenset(mark[0] for mark in _MARKS)
"""First bytes of bodies that may be `decode_body`."""


def decode_body(body: bytes, encoding: Any, refused: Counter[str]) -> bytes:
    """A body as plain UTF-8, by its first bytes or its ``content_encoding``.

    The body itself if that fails, which is counted.
    """
    scheme = encoding.strip().lower() if type(encoding) is str else ""
    window = _COMPRESSED.get(scheme) or (31 if body.startswith(_MARKS[3]) else None)
    if window is None and not _PLAIN(scheme):
        refused[UNKNOWN] += 1
        return body
    if window is None and not body.startswith(_MARKS):
        return body
    plain = body
    if len(body) > MOST_BYTES:
        refused[TOO_LARGE] += 1
        return body
    try:
        if window is not None:
            reader = zlib.decompressobj(window)
            plain = reader.decompress(body, min(MOST_BYTES, SMALL + MOST_UNPACKED * len(body)))
            if not reader.eof:
                refused[TOO_LARGE if reader.unconsumed_tail else NOT_UNPACKED] += 1
                return body
        if plain.startswith(_UTF_16):
            return plain.decode("utf-16").encode()
    except (zlib.error, UnicodeDecodeError):
        refused[NOT_UNPACKED] += 1
        return body
    return plain.removeprefix(codecs.BOM_UTF8)


# Characters that some library escapes in JSON: .NET, Gson, PHP, Rails.
_ESCAPED = re.compile(r"[^ -~]|[\"'/\\<>&+=`]").search


def may_be_escaped(part: str) -> bool:
    """Tell whether a text may be spelt with escapes in JSON."""
    return _ESCAPED(part) is not None


def searchable(body: bytes, encoding: str | None, escapes: bool) -> bytes | None:
    """The text of a body for searches, where that differs from its bytes; else None.

    The body as `decode_body`, and with ``escapes`` behind it the JSON without its escapes, and the
    JSON that is in its strings.
    """
    read = decode_body(body, encoding, Counter())
    texts = [] if read is body else [read]
    for _ in range(MOST_LAYERS if escapes and len(read) <= MOST_BYTES else 0):
        plain = _unescape(read) if b"\\" in read else None
        if plain is None:
            break
        texts.append(read := plain)
    return b"\0".join(texts) if texts else None


_QUOTE = "\ue000"  # for private use


def _unescape(body: bytes) -> bytes | None:
    """JSON, whole or cut, without its escapes; None if an escape is not JSON's.

    All of it is read as one string, in which quotes are escaped.
    """
    text = body.decode("utf-8", "surrogateescape").replace("\\\\", "\\u005c")
    text = text.replace('\\"', "\\u0022").replace('"', _QUOTE)
    for end in (len(text), text.rfind("\\")):
        try:
            plain: str = json.loads(f'"{text[:end]}"', strict=False)
        except ValueError:
            continue
        return plain.replace(_QUOTE, '"').encode("utf-8", "surrogatepass")
    return None


_NO_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_DIGITS = bytes.maketrans(b"123456789", b"0" * 9)


def parse(body: bytes, refused: Counter[str], decode: Callable[[bytes], Any] = json.loads) -> Any:
    """A body as JSON values; None where it is not JSON, or refused, which is counted.

    A body that does not begin like an object or an array claims to be nothing, and does not count.
    ``decode`` reads standard JSON.
    """
    if not begins_as_json(body):
        return None
    fault = fault_of(body)
    if fault is None:
        try:
            return decode(body)
        except (ValueError, RecursionError):
            pass
        try:
            return _parse_oddly(body, is_tried=decode is json.loads)
        except (ValueError, RecursionError):
            fault = NOT_JSON
    refused[fault] += 1
    return None


def begins_as_json(body: bytes) -> bool:
    """Tell whether a body begins like an object or an array."""
    return body[:1] in (b"{", b"[") or body[:64].lstrip()[:1] in (b"{", b"[")


def fault_of(body: bytes) -> str | None:
    """The reason, known before parsing, why a body is not parsed as JSON; None without one."""
    if len(body) > MOST_BYTES:
        return TOO_LARGE
    if len(body) <= MOST_DEPTH:  # nearly always, and too short for any of the following
        return None
    brackets = body.count(b"[") + body.count(b"{")
    if brackets + body.count(b",") > MOST_VALUES:
        return TOO_LARGE
    if len(body) > MOST_DIGITS and b"0" * (MOST_DIGITS + 1) in body.translate(
        _DIGITS, b"\0"
    ):  # UTF-16 has NULs
        return TOO_LARGE
    return TOO_DEEP if brackets > MOST_DEPTH and _depth(body) > MOST_DEPTH else None


def _depth(body: bytes) -> int:
    """The depth to which a body is nested, outside its strings."""
    strings = body.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"', 4 * MOST_VALUES)
    steps = array("b", b"".join(strings[::2]).translate(_STEPS, _NO_BRACKETS))
    return max(accumulate(steps), default=0)


def _parse_oddly(body: bytes, *, is_tried: bool) -> Any:
    """A body that is not standard JSON: in UTF-16 without a mark, in Latin-1, or with NaN.

    Python's own decoder takes the last, and was tried already if ``is_tried``. Raises `ValueError`.
    """
    if body[1:2] == b"\0":
        return json.loads(body.decode("utf-16-le"))
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return json.loads(body.decode("latin-1"))
    if is_tried or ("NaN" not in text and "Infinity" not in text):
        raise ValueError(NOT_JSON)
    return json.loads(text)
