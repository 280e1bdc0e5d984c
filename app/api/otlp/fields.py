"""Parts that both forms of a span share."""

from __future__ import annotations

from collections.abc import Iterable

from app.stored.spans import MOST_LINKS, Refusal, Span, SpanKind, SpanLink

SERVICE_NAME = "service.name"
LONGEST_SERVICE = 256  # characters

# Bits of `flags`: the exporter knows whether a parent, or a link, is another process's; and it is.
_HAS_REMOTE, _IS_REMOTE = 0x100, 0x200

_KINDS = {int(kind): kind for kind in SpanKind}


class Bad(Exception):
    """An unreadable body; the text says where it goes wrong."""


class TooManyError(Exception):
    """More of the named things than a request may have."""


class ReadingBudget:
    """The work on a request: spans and their parts, as allowed and as done.

    A part is a field of protobuf or an object of JSON. Each takes time whatever it says: a request
    may have a number of parts for each of its spans; its cost counts both.
    """

    _PARTS, _PARTS_OF_SPAN = 10_000, 64
    _BYTES_OF_SPAN = 4_096

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._spans = 0
        self._granted = self._rest = self._PARTS
        self.size = 0  # bytes of the unpacked body

    def span(self) -> None:
        self._spans += 1
        if self._spans > self.limit:
            raise TooManyError("spans")

    def grant(self, spans: int) -> None:
        """Allow the parts of this many spans, which the request seems to bring."""
        parts = self._PARTS_OF_SPAN * min(spans, self.limit)
        self._granted += parts
        self._rest += parts

    def parts(self, count: int, kind: str) -> None:
        """Count parts before they are read; raises `TooManyError`, which names them."""
        if count > self._rest:
            raise TooManyError(kind)
        self._rest -= count

    @property
    def cost(self) -> float:
        """The number of ordinary spans that would have taken as long."""
        parts = (self._granted - self._rest) / self._PARTS_OF_SPAN
        return max(1, self._spans, parts, self.size / self._BYTES_OF_SPAN)


def remote(flags: int) -> bool | None:
    """Tell whether a parent or a link is another process's, None if the flags do not say."""
    return bool(flags & _IS_REMOTE) if flags & _HAS_REMOTE else None


def link_of(trace_id: bytes, span_id: bytes, flags: int) -> SpanLink | None:
    if not _is_id(trace_id, 16) or not _is_id(span_id, 8):
        return None
    return SpanLink(trace_id + span_id, remote(flags))


def span(
    trace_id: bytes,
    span_id: bytes,
    parent_id: bytes,
    flags: int,
    kind: int,
    times: tuple[int, int],
    service: str | None,
    links: Iterable[SpanLink | None],
) -> Span | Refusal:
    """A span, or the reason to refuse it; ``times`` are its start and its end in ns."""
    begin, end = times
    if not _is_id(trace_id, 16) or not _is_id(span_id, 8) or len(parent_id) not in (0, 8):
        return Refusal.invalid
    if not 0 < begin <= end:
        return Refusal.invalid
    links = [*links]
    if len(links) > MOST_LINKS:
        return Refusal.too_many_links
    parent = trace_id + parent_id if any(parent_id) else None
    context = trace_id + span_id
    return Span(
        context,
        None if parent == context else parent,
        remote(flags),
        _KINDS.get(kind, SpanKind.unspecified),
        begin // 1_000,
        end // 1_000,
        service,
        # Each once. A link without ids says nothing, nor does a span's link to itself.
        tuple(
            {
                target.context: target for target in links if target and target.context != context
            }.values()
        ),
    )


def _is_id(value: bytes, size: int) -> bool:
    return len(value) == size and any(value)
