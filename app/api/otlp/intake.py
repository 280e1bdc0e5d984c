"""Takes the spans of a request from its body: bounded in size, number and rate, and counted."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

import msgspec

from app.api.otlp import as_json, as_protobuf
from app.api.otlp.fields import Bad, ReadingBudget, TooManyError
from app.api.problems import SlowDownError
from app.errors import BadRequestError, TooLargeError, WrongTypeError
from app.stored.spans import Refusal, Span
from model.times import DAY, HOUR, now

if TYPE_CHECKING:
    from app.store.spans.imported import Spans

PROTOBUF, JSON = "application/x-protobuf", "application/json"
# zlib: gzip's frame alone.
_GZIP = 31
# A body is one gzip member, or a few behind each other: each copies the rest.
MOST_MEMBERS = 64


class Request(msgspec.Struct, frozen=True):
    """The spans of a request, and the number of refused ones by reason."""

    spans: list[Span]
    refused: Counter[Refusal]


def form_of(content_type: str) -> str:
    form = content_type.partition(";")[0].strip().lower()
    if form not in (PROTOBUF, JSON):
        raise WrongTypeError(f"expected the content type {PROTOBUF} or {JSON}")
    return form


def decompress(body: bytes, encoding: str, limit: int) -> bytes:
    """A body without its compression, of at most this many bytes.

    Raises `BadRequestError`, `TooLargeError` and `WrongTypeError`.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        parts = body
    elif encoding == "gzip":
        parts = _gunzip(body, limit)
    else:
        raise WrongTypeError("expected a body without Content-Encoding, or with gzip")
    if len(parts) > limit:
        raise TooLargeError(f"a request's spans have at most {limit} bytes, unpacked")
    return parts


def _gunzip(body: bytes, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    for _ in range(MOST_MEMBERS):
        if not body:
            break
        stream = zlib.decompressobj(_GZIP)
        try:
            part = stream.decompress(body, limit + 1 - size)
        except zlib.error:
            raise BadRequestError("the body is no gzip") from None
        parts.append(part)
        size += len(part)
        if size > limit:
            break
        if not stream.eof:
            raise BadRequestError("the body's gzip ends in the middle")
        body = stream.unused_data
    else:
        if body:
            raise TooLargeError(f"the body's gzip has more than {MOST_MEMBERS} members")
    return b"".join(parts)


def spans_in(body: bytes, form: str, work: ReadingBudget) -> Request:
    """The spans of an unpacked body, as far as the work allows.

    Raises `BadRequestError` if it cannot be read, and `TooLargeError`.
    """
    read = as_protobuf.read if form == PROTOBUF else as_json.read
    refused: Counter[Refusal] = Counter()
    spans = []
    work.size = len(body)
    try:
        for span in read(body, work):
            if isinstance(span, Refusal):
                refused[span] += 1
            else:
                spans.append(span)
    except TooManyError as error:
        raise TooLargeError(
            f"too many {error}: a request has at most {work.limit} spans, of ordinary size"
        ) from None
    except Bad as error:
        raise BadRequestError(f"the body is no ExportTraceServiceRequest: {error}") from None
    return Request(spans, refused)


# Clocks differ, and a message may wait for a while before it is handled.
SLACK = HOUR
# The oldest event's time is believed for this long.
LOOK_SECONDS = 10.0
# Requests that wait for their turn; each holds its body.
MOST_WAITING = 8


class IntakeBounds(msgspec.Struct, frozen=True):
    """Bounds on intake: bytes of an unpacked request, spans of a request, spans a second, and a
    span's age.

    The age is in days, None for any. OpenTelemetry's SDKs send up to 512 spans a request; a sender
    of more a second has to wait, and capture does not.
    """

    unpacked_bytes: int = 1 << 24
    spans: int = 10_000
    per_second: int = 5_000
    days: float | None = None


@dataclass(eq=False)
class Intake:
    """Takes spans that are sent to the service: checks, bounds and stores them.

    ``on_arrival`` is called after spans were stored; ``clock`` gives µs.
    """

    store: Spans
    bounds: IntakeBounds
    _: KW_ONLY
    on_arrival: Callable[[], None] = lambda: None
    clock: Callable[[], int] = now
    timer: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._turn = asyncio.Lock()
        self._queue_length = 0
        self._balance, self._balance_at = float(self.bounds.per_second), self.timer()
        self._oldest: int | None = None
        self._look_at = float("-inf")
        self.taken = self.repeated = 0
        self.refused: Counter[Refusal] = Counter()

    async def take(self, body: bytes, content_type: str, encoding: str) -> Counter[Refusal]:
        """Store a request's spans; returns the number of refused ones by reason.

        Raises `BadRequestError` for an unreadable body, with its `TooLargeError` and
        `WrongTypeError`; `SlowDownError` for too much at a time.
        """
        form = form_of(content_type)
        if self._queue_length >= MOST_WAITING:
            raise SlowDownError("too many requests with spans wait already", 1)
        self._queue_length += 1
        try:
            async with self._turn:  # one body at a time is unpacked
                return await self._take(body, form, encoding)
        finally:
            self._queue_length -= 1

    async def _take(self, body: bytes, form: str, encoding: str) -> Counter[Refusal]:
        self._check_rate()
        bounds = self.bounds
        work = ReadingBudget(bounds.spans)
        try:
            request = await asyncio.to_thread(
                lambda: spans_in(decompress(body, encoding, bounds.unpacked_bytes), form, work)
            )
        finally:  # refused spans have taken time too
            self._balance -= work.cost
        oldest = await self._oldest_event()
        refused, spans = Counter(request.refused), []
        for span in request.spans:
            reason = self._why_not(span, oldest)
            if reason is None:
                spans.append(span)
            else:
                refused[reason] += 1
        new = await self.store.add(spans) if spans else 0
        self.taken += new
        self.repeated += len(spans) - new
        self.refused += refused
        if new:
            self.on_arrival()
        return refused

    def _check_rate(self) -> None:
        """Let in a request until the spans of this second reach the bound; it may bring more."""
        moment = self.timer()
        rate = self.bounds.per_second
        earned = (moment - self._balance_at) * rate
        self._balance, self._balance_at = min(float(rate), self._balance + earned), moment
        if self._balance <= 0:
            raise SlowDownError(f"more than {rate} spans a second", (1 - self._balance) / rate)

    def _why_not(self, span: Span, oldest: int) -> Refusal | None:
        moment, days = self.clock(), self.bounds.days
        if max(span.started_at, span.ended_at) > moment + SLACK:
            return Refusal.in_the_future
        if span.ended_at < oldest - SLACK or (
            days is not None and span.ended_at < moment - days * DAY
        ):
            return Refusal.too_old
        return None

    async def _oldest_event(self) -> int:
        """The time of the oldest stored event: an earlier span concerns none."""
        if self.timer() >= self._look_at:
            self._oldest = await self.store.oldest_event()
            self._look_at = self.timer() + LOOK_SECONDS
        moment = self.clock()
        return moment if self._oldest is None else min(self._oldest, moment)


def is_protobuf(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == PROTOBUF
