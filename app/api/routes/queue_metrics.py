"""``GET /metrics/queues``: how long messages wait, and what became of them, by queue and service.

Apart from ``/metrics``, as the broker's own ``/metrics/detailed`` is: there is a series for each
name. A service tells of the traces that run in it, so a sum over several counts nothing twice.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, NamedTuple, TypeAlias

from fastapi import APIRouter, Query, Request, Response
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as MetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from app.api.openapi import READING_ONE
from app.api.parameters import Text, Word
from app.api.routes.metrics import TEXT, MetricsReading
from app.api.routes.traces import OfVhostOrAll
from app.api.services import Parts
from app.api.signin.auth import User, reader_of
from app.errors import NotTracedError
from app.stored.causality import QueueCopies
from app.traces.life import TraceState
from model.durations import (
    ENDS,
    HANDED_OVER,
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
_LIMITS = {step: f"{limit_of((step + 1) * WIDTH - 1) / 1e6:.3g}" for step in _LAST_STEPS}


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
    QueueFamily.waiting: "Messages that were not handed over yet, by the record.",
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
    # Thousands of names take a tenth of a second and more.
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


def _text(numbers: _Numbers, chosen: Iterable[QueueFamily]) -> bytes:
    queue = numbers.queue
    if queue is not None:
        of_queue = (OwnerKind.queue, queue)
        rows = [row for row in numbers.rows if (row.kind, row.name) == of_queue]
        numbers = numbers._replace(rows=rows)
    families = [metric for family in chosen for metric in _metrics(numbers, family)]
    return generate_latest(MetricsReading(families))


def _metrics(numbers: _Numbers, family: QueueFamily) -> Iterable[MetricFamily]:
    if family in _COPIES:
        return _of_copies(numbers, family)
    return _of_times(numbers, family) if family in _TIMES else _of_ends(numbers, family)


def _of_copies(numbers: _Numbers, family: QueueFamily) -> Iterable[MetricFamily]:
    labels, prefix = ["vhost", "queue"], f"itc_queue_{family}"
    oldest_text = "Since when the first of these is there."
    counts = GaugeMetricFamily(f"{prefix}_messages", _COPIES[family], labels=labels)
    oldest = GaugeMetricFamily(f"{prefix}_oldest_timestamp_seconds", oldest_text, labels=labels)
    for vhost, queues in numbers.copies[family]:
        for name, count, since in queues:
            if numbers.queue in (None, name):
                counts.add_metric([vhost, name], count)
                oldest.add_metric([vhost, name], since / 1e6)
    return counts, oldest


def _of_times(numbers: _Numbers, family: QueueFamily) -> Iterable[MetricFamily]:
    measured, text = _TIMES[family]
    name = f"{family}_seconds"
    histograms = [
        HistogramMetricFamily(f"itc_{kind.name}_{name}", text, labels=["vhost", kind.name])
        for kind in OwnerKind
    ]
    for row in numbers.rows:
        steps = counts_of(row.cells, measured)
        steps.pop(HANDED_OVER, None)
        if steps:
            labels = [numbers.vhosts[row.trace_id], row.name]
            histograms[row.kind].add_metric(
                labels, _buckets(steps), row.cells.get(SUMS + measured << 14, 0) / 1e6
            )
    return histograms


def _buckets(steps: Mapping[int, int]) -> list[tuple[str, float]]:
    """The number of durations up to each limit."""
    buckets: list[tuple[str, float]] = [
        (limit, sum(times for step, times in steps.items() if step <= last))
        for last, limit in _LIMITS.items()
    ]
    return [*buckets, ("+Inf", sum(steps.values()))]


def _of_ends(numbers: _Numbers, family: QueueFamily) -> Iterable[MetricFamily]:
    is_of_deaths = family is QueueFamily.deaths
    labels = ["vhost", "queue", *(["reason"] if is_of_deaths else [])]
    metric = CounterMetricFamily(f"itc_queue_{family}", _ENDS[family], labels=labels)
    for row in numbers.rows:
        for end, times in counts_of(row.cells, ENDS).items():
            if (end != CopyEnd.returned) is is_of_deaths:
                reason = [CopyEnd(end).name] if is_of_deaths else []
                metric.add_metric([numbers.vhosts[row.trace_id], row.name, *reason], times)
    return [metric]
