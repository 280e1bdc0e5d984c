"""From the body of an export request to its spans."""

from __future__ import annotations

import zlib
from collections import Counter

import msgspec

from app.api.otlp import as_json, as_protobuf
from app.api.otlp.fields import Bad, ReadingBudget, TooManyError
from app.errors import BadRequestError, TooLargeError, WrongTypeError
from app.stored.spans import Refusal, Span

PROTOBUF, JSON = "application/x-protobuf", "application/json"
# zlib: gzip's frame alone.
_GZIP = 31
# A body is one gzip member, or a few behind each other; each is a copy of all that follow.
MOST_MEMBERS = 64


class Request(msgspec.Struct, frozen=True):
    """The spans of a request, and how many of the others were refused for which reason."""

    spans: list[Span]
    refused: Counter[Refusal]


def form_of(content_type: str) -> str:
    form = content_type.partition(";")[0].strip().lower()
    if form not in (PROTOBUF, JSON):
        raise WrongTypeError(f"expected the content type {PROTOBUF} or {JSON}")
    return form


def unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """A body without its compression, of at most so many bytes.

    Raises `BadRequestError`, `TooLargeError` and `WrongTypeError`.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        parts = body
    elif encoding == "gzip":
        parts = _gunzip(body, most)
    else:
        raise WrongTypeError("expected a body without Content-Encoding, or with gzip")
    if len(parts) > most:
        raise TooLargeError(f"a request's spans have at most {most} bytes, unpacked")
    return parts


def _gunzip(body: bytes, most: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    for _ in range(MOST_MEMBERS):
        if not body:
            break
        stream = zlib.decompressobj(_GZIP)
        try:
            part = stream.decompress(body, most + 1 - size)
        except zlib.error:
            raise BadRequestError("the body is no gzip") from None
        parts.append(part)
        size += len(part)
        if size > most:
            break
        if not stream.eof:
            raise BadRequestError("the body's gzip ends in the middle")
        body = stream.unused_data
    else:
        if body:
            raise TooLargeError(f"the body's gzip has more than {MOST_MEMBERS} members")
    return b"".join(parts)


def spans_of(body: bytes, form: str, work: ReadingBudget) -> Request:
    """The spans of an unpacked body, as far as the work allows.

    Raises `BadRequestError` for what cannot be read, and `TooLargeError`.
    """
    read = as_protobuf.read if form == PROTOBUF else as_json.read
    refused: Counter[Refusal] = Counter()
    spans = []
    work.size = len(body)
    try:
        for each in read(body, work):
            if isinstance(each, Refusal):
                refused[each] += 1
            else:
                spans.append(each)
    except TooManyError as error:
        raise TooLargeError(
            f"too many {error}: a request has at most {work.most} spans, of ordinary size"
        ) from None
    except Bad as error:
        raise BadRequestError(f"the body is no ExportTraceServiceRequest: {error}") from None
    return Request(spans, refused)
