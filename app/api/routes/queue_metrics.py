"""``GET /metrics/queues``: how long messages wait, and what became of them, by queue and service.

Apart from ``/metrics``, as the broker's own ``/metrics/detailed`` is: there is a series for each
name. A service tells of the traces that run in it, so a sum over several counts nothing twice.

The text is written here, at 3 µs a line: prometheus_client takes 10, and 2,000 names have 84,000.
"""

from __future__ import annotations

import asyncio
import enum
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Annotated, NamedTuple, TypeAlias

from fastapi import APIRouter, Query, Request, Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from app.api.openapi import READING_ONE
from app.api.parameters import Text, Word
from app.api.routes.metrics import TEXT
from app.api.routes.traces import OfVhostOrAll
from app.api.services import Parts
from app.api.signin.auth import User, reader_of
from app.errors import NotTracedError
from app.stored.causality import QueueCopies
from app.traces.life import TraceState
from model.durations import (
    ENDS,
    HANDED_OVER,
    RETURNS,
    SUMS,
    WIDTH,
    CopyEnd,
    Measured,
    OwnerKind,
    OwnerRow,
    counts_of,
)
from model.sketch import limit_of

router = APIRouter(tags=["service"])

# The last step of each bucket: from 1 ms to 18 h, each 2.7 times as long as the one before.
_LAST_STEPS = range(69, 250, 10)
_LIMITS = [*(f"{limit_of((step + 1) * WIDTH - 1) / 1e6:.3g}" for step in _LAST_STEPS), "+Inf"]


class QueueFamily(enum.StrEnum):
    """Metrics that are read together."""

    waiting = "waiting"
    in_hand = "in_hand"
    delivery = "delivery"
    settlement = "settlement"
    deaths = "deaths"
    returns = "returns"


_VhostCopies: TypeAlias = tuple[str, Sequence[QueueCopies]]
_IN_HAND = QueueFamily.in_hand
_COPIES = {
    QueueFamily.waiting: "Messages that wait, or wait again since they came back, by the record.",
    _IN_HAND: "Messages that consumers hold, as the broker plugin tells.",
}
_TIMES = {
    QueueFamily.delivery: (Measured.waiting, "Time from a publish to the first delivery."),
    QueueFamily.settlement: (
        Measured.handling,
        "Time from a delivery until it was settled, or until it first led on.",
    ),
}
_ENDS = {
    QueueFamily.deaths: "Deaths in the queue that dead letters tell of, planned delays left out.",
    QueueFamily.returns: "Messages that the queue handed over again.",
}


@router.get("/metrics/queues", response_class=Response, responses={**READING_ONE, **TEXT})
async def queue_metrics(
    request: Request,
    parts: Parts,
    family: Annotated[
        list[Word[QueueFamily]], Query(description="Only these metrics; may be repeated.")
    ] = [],  # noqa: B006  read only
    vhost: OfVhostOrAll = None,
    queue: Annotated[Text | None, Query(description="Only of this queue.")] = None,
) -> Response:
    """Queues in numbers, for Prometheus: what waits and is in hand, times, deaths and returns.

    By queue, times by service too, of the running traces of virtual hosts that the user sees.
    """
    user = None if parts.settings.metrics_open else await reader_of(request)
    vhosts = await _running(parts, user, vhost)
    chosen = [*dict.fromkeys(family or QueueFamily)]
    copies: dict[QueueFamily, list[_VhostCopies]] = {
        name: [
            (vhost, await parts.store.copies.by_queue(trace_id, in_hand=name is _IN_HAND))
            for trace_id, vhost in vhosts.items()
        ]
        for name in chosen
        if name in _COPIES
    }
    rows = await parts.store.durations.ever(vhosts) if {*chosen} - copies.keys() else []
    text = await asyncio.to_thread(_text, _Numbers(vhosts, queue, copies, rows), chosen)
    return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)


async def _running(parts: Parts, user: User | None, vhost: str | None) -> dict[int, str]:
    """The virtual hosts whose traces run here, by trace, or one; raises `NotFoundError`."""
    if user is not None and vhost is not None:
        user.must_see(vhost)
    if vhost is not None and await parts.store.traces.find(vhost) is None:
        raise NotTracedError(vhost)
    traces = await parts.store.traces.list(None if user is None else user.vhosts)
    return {
        trace.id: trace.vhost
        for trace in traces
        if vhost in (None, trace.vhost)
        and (run := parts.traces.here.present(trace.vhost)) is not None
        and run.snapshot().standing.state is TraceState.running
    }


class _Numbers(NamedTuple):
    """Numbers of some virtual hosts, by trace; ``queue`` is None for all."""

    vhosts: Mapping[int, str]
    queue: str | None
    copies: Mapping[QueueFamily, Sequence[_VhostCopies]]
    rows: Sequence[OwnerRow]


def _text(numbers: _Numbers, chosen: Iterable[QueueFamily]) -> str:
    queue = numbers.queue
    if queue is not None:
        of_queue = (OwnerKind.queue, queue)
        rows = [row for row in numbers.rows if (row.kind, row.name) == of_queue]
        numbers = numbers._replace(rows=rows)
    return "".join(line + "\n" for family in chosen for line in _lines(numbers, family))


def _lines(numbers: _Numbers, family: QueueFamily) -> Iterator[str]:
    if family in _COPIES:
        return _of_copies(numbers, family)
    return _of_times(numbers, family) if family in _TIMES else _of_ends(numbers, family)


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _labels(**labels: str) -> str:
    """Labels as the text format has them, without the braces."""
    escaped = {
        name: value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        for name, value in labels.items()
    }
    return ",".join(f'{name}="{value}"' for name, value in escaped.items())


def _of_copies(numbers: _Numbers, family: QueueFamily) -> Iterator[str]:
    queues = [
        (_labels(vhost=vhost, queue=name), count, since)
        for vhost, several in numbers.copies[family]
        for name, count, since, _ in several
        if numbers.queue in (None, name)
    ]
    name = f"itc_queue_{family}_messages"
    yield from _head(name, "gauge", _COPIES[family])
    yield from (f"{name}{{{labels}}} {count}" for labels, count, _ in queues)
    name = f"itc_queue_{family}_oldest_timestamp_seconds"
    yield from _head(name, "gauge", "Since when the first of these is there.")
    yield from (f"{name}{{{labels}}} {since / 1e6}" for labels, _, since in queues)


def _of_times(numbers: _Numbers, family: QueueFamily) -> Iterator[str]:
    measured, text = _TIMES[family]
    for kind in OwnerKind:
        name = f"itc_{kind.name}_{family}_seconds"
        yield from _head(name, "histogram", text)
        for row in numbers.rows:
            steps = counts_of(row.cells, measured)
            steps.pop(HANDED_OVER, None)
            if row.kind == kind and steps:
                labels = _labels(vhost=numbers.vhosts[row.trace_id], **{kind.name: row.name})
                counts = [0] * len(_LIMITS)
                for step, times in steps.items():
                    counts[bisect_left(_LAST_STEPS, step)] += times
                for limit, times in zip(_LIMITS, accumulate(counts), strict=True):
                    yield f'{name}_bucket{{{labels},le="{limit}"}} {times}'
                yield f"{name}_count{{{labels}}} {sum(counts)}"
                yield f"{name}_sum{{{labels}}} {row.cells.get(SUMS + measured << 14, 0) / 1e6}"


def _of_ends(numbers: _Numbers, family: QueueFamily) -> Iterator[str]:
    name, is_of_deaths = f"itc_queue_{family}_total", family is QueueFamily.deaths
    yield from _head(name, "counter", _ENDS[family])
    for row in numbers.rows:
        for end, times in counts_of(row.cells, ENDS).items():
            if (end not in RETURNS) is is_of_deaths:
                reason = RETURNS.get(CopyEnd(end), CopyEnd(end).name)
                vhost = numbers.vhosts[row.trace_id]
                yield f"{name}{{{_labels(vhost=vhost, queue=row.name, reason=reason)}}} {times}"
