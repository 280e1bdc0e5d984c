"""``GET /metrics``: the service in numbers, by Prometheus's conventions.

Base units, ``_total`` for what only grows. Nothing here is named after a message, a user or a
connection: labels stay few.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec
from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from app.api.openapi import READING
from app.api.services import Parts, Services
from app.api.signin.auth import User, reader_of
from app.jobs.manager import HISTORY
from app.stored.assertions import WebhookState
from app.stored.jobs import Job, JobState
from app.stored.spans import Refusal, ResolutionOutcome
from app.traces.life import TraceState
from app.traces.spanwatch import SpanState
from app.traces.status import CaptureCost, TraceStatus
from app.version import program_version

router = APIRouter(tags=["service"])


@router.get(
    "/metrics",
    response_class=Response,
    responses={**READING, 200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request, parts: Parts) -> Response:
    """Everything that Prometheus scrapes, of the virtual hosts that the user sees."""
    user = None if parts.settings.metrics_open else await reader_of(request)
    own = CollectorRegistry()
    own.register(MetricsReading(await _families(parts, user)))
    text = generate_latest(request.app.state.http_metrics.registry) + generate_latest(own)
    return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)


class MetricsReading(Collector):
    """Metrics that were read before the scrape's answer is made."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """As the library asks for it."""
        return self._families


async def _families(parts: Services, user: User | None) -> list[Metric]:
    statuses = [s for s in await parts.traces.statuses() if user is None or user.sees(s.vhost)]
    vhosts = None if user is None else user.vhosts
    jobs = await parts.jobs.jobs(vhosts, limit=HISTORY)
    exports = await asyncio.to_thread(parts.folders.exports.usage)
    connections = parts.connections()
    return [
        *(_per_trace(spec, statuses) for spec in TRACE_METRICS),
        *(_duration(spec, statuses) for spec in DURATIONS),
        _by_type(statuses),
        _links(statuses),
        _ways(statuses),
        _states(statuses),
        _jobs(jobs),
        *_spans(parts),
        *await _assertions(parts, vhosts),
        GaugeMetricFamily("itc_store_bytes", "Size of the database.", await parts.store.size()),
        _version(),
        GaugeMetricFamily("itc_exports", "Exports that are kept.", exports.files),
        GaugeMetricFamily("itc_exports_bytes", "Size of all exports.", exports.bytes),
        GaugeMetricFamily(
            "itc_answers_large_bytes",
            "Memory that large payloads, headers and clocks of answers under way may take.",
            parts.budget.held,
        ),
        GaugeMetricFamily(
            "itc_searches_waiting", "Searches that wait for their turn.", parts.searches.waiting
        ),
        GaugeMetricFamily(
            "itc_live_subscribers", "Readers of the live tail.", parts.subscribers.count
        ),
        CounterMetricFamily(
            "itc_live_dropped",
            "Readers of the live tail that were too slow.",
            parts.subscribers.dropped,
        ),
        GaugeMetricFamily(
            "itc_connections_announced",
            "1 while the broker announces connections to us.",
            int(connections.on),
        ),
        CounterMetricFamily(
            "itc_connection_announcements",
            "Announcements of connections that were stored.",
            connections.announced,
        ),
    ]


class TraceMetric(msgspec.Struct, frozen=True):
    """A number for each trace; a trace whose number is unknown has no sample."""

    name: str
    text: str
    value: Callable[[TraceStatus], float | None]
    kind: type[CounterMetricFamily] | type[GaugeMetricFamily] = GaugeMetricFamily


TRACE_METRICS = (
    TraceMetric(
        "itc_events_unmatched",
        "Received events whose publish was not observed.",
        lambda s: s.counters.unmatched,
        CounterMetricFamily,
    ),
    TraceMetric(
        "itc_events_redelivered",
        "Received events that were handed over before.",
        lambda s: s.counters.redelivered,
        CounterMetricFamily,
    ),
    TraceMetric(
        "itc_events_dead_lettered",
        "Received events that had died in another queue.",
        lambda s: s.counters.dead_lettered,
        CounterMetricFamily,
    ),
    TraceMetric(
        "itc_events_untraced",
        "Received events that are known from reply_to alone.",
        lambda s: s.counters.untraced,
        CounterMetricFamily,
    ),
    TraceMetric(
        "itc_events_quiet",
        "Events of quiet traffic, which join no clocks.",
        lambda s: s.counters.quiet,
        CounterMetricFamily,
    ),
    TraceMetric(
        "itc_trace_messages_quarantined",
        "Trace messages that could not be read.",
        lambda s: s.counters.quarantined,
        CounterMetricFamily,
    ),
    TraceMetric(
        "itc_copies_dropped",
        "Routed copies that were forgotten before their delivery.",
        lambda s: s.counters.copies_dropped,
        CounterMetricFamily,
    ),
    TraceMetric(
        "itc_trace_restarts",
        "Restarts of the trace after a failure.",
        lambda s: s.restarts,
        CounterMetricFamily,
    ),
    TraceMetric(
        "itc_stamp_bytes", "Size of the newest event's stored clock.", lambda s: s.work.stamp_bytes
    ),
    TraceMetric(
        "itc_id_depth",
        "How often the seed was halved for the newest event's participant.",
        lambda s: s.work.id_depth,
    ),
    TraceMetric("itc_events_stored", "Events in the store.", lambda s: s.events),
    TraceMetric(
        "itc_trace_queue_messages", "Trace messages that wait to be read.", lambda s: s.lag
    ),
    TraceMetric("itc_participants", "Participants with an id.", lambda s: s.participants),
    TraceMetric(
        "itc_copies_pending",
        "Routed copies that wait for their delivery.",
        lambda s: s.pending_copies,
    ),
    TraceMetric(
        "itc_links_coverage_ratio",
        "Publishes that name a cause which was found, of those that may have one.",
        lambda s: s.evidence.coverage,
    ),
    TraceMetric(
        "itc_links_fit_ratio",
        "Causes that the policy had in their publisher's past, of those that came by the broker.",
        lambda s: s.evidence.fit,
    ),
    TraceMetric(
        "itc_trace_gaps",
        "Recorded gaps that are no choice, of the newest 100.",
        lambda s: len(s.losses()),
    ),
    TraceMetric(
        "itc_trace_partial",
        "1 if only some exchanges and queues are taken, else 0.",
        lambda s: int(not s.taken.is_all),
    ),
    TraceMetric(
        "itc_audit_missing",
        "Trace messages that the broker counted and that never came.",
        lambda s: s.audit.missing if s.audit else None,
        CounterMetricFamily,
    ),
    TraceMetric(
        "itc_audit_suspected",
        "Trace messages that the broker counted and that may yet come.",
        lambda s: s.audit.suspected if s.audit else None,
    ),
    TraceMetric(
        "itc_audit_excess",
        "Trace messages that came and that the broker did not count; they can hide a loss.",
        lambda s: s.audit.excess if s.audit else None,
        CounterMetricFamily,
    ),
    TraceMetric(
        "itc_audit_even_timestamp_seconds",
        "When what was traced and what the broker counted were last compared.",
        lambda s: s.audit.as_of / 1e6 if s.audit and s.audit.as_of else None,
    ),
    TraceMetric(
        "itc_trace_gaps_open",
        "Open gaps that are no choice.",
        lambda s: sum(gap.until is None for gap in s.losses()),
    ),
)


class Duration(msgspec.Struct, frozen=True):
    """The time that something took in total, and how often it was done."""

    name: str
    text: str
    count: Callable[[CaptureCost], int]
    seconds: Callable[[CaptureCost], float]


DURATIONS = (
    Duration(
        "itc_batch_duration_seconds",
        "Time of a batch's transaction.",
        lambda work: work.batches,
        lambda work: work.batch_seconds,
    ),
    Duration(
        "itc_stamp_duration_seconds",
        "Time to match and stamp an event.",
        lambda work: work.stamped,
        lambda work: work.stamp_seconds,
    ),
)


def _duration(spec: Duration, statuses: Sequence[TraceStatus]) -> Metric:
    family = SummaryMetricFamily(spec.name, spec.text, labels=["vhost"])
    for status in statuses:
        family.add_metric([status.vhost], spec.count(status.work), spec.seconds(status.work))
    return family


def _per_trace(spec: TraceMetric, statuses: Sequence[TraceStatus]) -> Metric:
    family = spec.kind(spec.name, spec.text, labels=["vhost"])
    for status in statuses:
        value = spec.value(status)
        if value is not None:
            family.add_metric([status.vhost], value)
    return family


def _by_type(statuses: Sequence[TraceStatus]) -> Metric:
    family = CounterMetricFamily("itc_events", "Events stamped.", labels=["vhost", "type"])
    for status in statuses:
        family.add_metric([status.vhost, "published"], status.counters.published)
        family.add_metric([status.vhost, "received"], status.counters.received)
    return family


def _links(statuses: Sequence[TraceStatus]) -> Metric:
    text = "Causes that messages named, and whether they were found."
    outcomes = ("found", "unseen", "forgotten", "ambiguous", "early")
    return _by_rule("itc_causes_named", text, "outcome", outcomes, statuses)


def _spans(parts: Services) -> Iterable[Metric]:
    """Of OpenTelemetry's spans; nothing but zeros where they are not taken."""
    taken, repeated, refused = 0, 0, Counter[Refusal]()
    if parts.spans is not None:
        taken, repeated, refused = parts.spans.taken, parts.spans.repeated, parts.spans.refused
    state = SpanState() if parts.resolved is None else parts.resolved.state
    came = CounterMetricFamily(
        "itc_spans", "Spans that came, and what became of them.", labels=["outcome"]
    )
    came.add_metric(["taken"], taken)
    came.add_metric(["repeated"], repeated)
    for why in Refusal:
        came.add_metric([why.value], refused[why])
    yield came
    outcomes = CounterMetricFamily(
        "itc_traceparents",
        "Publishes whose spans came, and what they tell of the message that was handled.",
        labels=["outcome"],
    )
    for outcome in ResolutionOutcome:
        outcomes.add_metric([outcome.value], state.outcomes[outcome])
    yield outcomes
    links = CounterMetricFamily(
        "itc_span_links",
        "Links that spans told of: known to clocks already, or too late for them.",
        labels=["outcome"],
    )
    links.add_metric(["known"], state.known)
    links.add_metric(["late"], state.links - state.known)
    yield links


async def _assertions(parts: Services, vhosts: frozenset[str] | None) -> Iterable[Metric]:
    """Of assertions that are held against traces, and of the webhook."""
    labels = ["vhost", "assertion"]
    judged = CounterMetricFamily(
        "itc_assertion_events",
        "Events that an assertion was judged by, and whether it holds for them.",
        labels=[*labels, "outcome"],
    )
    waiting = GaugeMetricFamily(
        "itc_assertion_waiting", "Events that wait to be judged by an assertion.", labels=labels
    )
    for each in await parts.store.assertions.list(vhosts):
        for outcome in ("held", "violated", "unknown"):
            judged.add_metric([each.vhost, each.name, outcome], getattr(each, outcome))
        waiting.add_metric([each.vhost, each.name], each.waiting)
    kept = GaugeMetricFamily(
        "itc_webhook_violations",
        "Violations that are kept, and whether the webhook has taken them.",
        labels=["delivery"],
    )
    deliveries = await parts.store.violations.deliveries()
    for state in WebhookState:
        kept.add_metric([state.value], deliveries.get(state, 0))
    return judged, waiting, kept


def _ways(statuses: Sequence[TraceStatus]) -> Metric:
    text = "Causes that were found, and whether the policy had them in their publisher's past."
    return _by_rule("itc_causes_found", text, "way", ("known", "missed", "hidden"), statuses)


def _by_rule(
    name: str, text: str, label: str, counts: Sequence[str], statuses: Sequence[TraceStatus]
) -> Metric:
    """Some counts of each rule of links, told apart by a label."""
    family = CounterMetricFamily(name, text, labels=["vhost", "rule", label])
    for status in statuses:
        for rule, count in status.links.items():
            for each in counts:
                family.add_metric([status.vhost, rule, each], getattr(count, each))
    return family


def _states(statuses: Sequence[TraceStatus]) -> Metric:
    family = GaugeMetricFamily(
        "itc_trace_state", "1 for the state a trace is in.", labels=["vhost", "state"]
    )
    for status in statuses:
        for state in TraceState:
            family.add_metric([status.vhost, state], float(state is status.state))
    return family


def _jobs(jobs: Sequence[Job]) -> Metric:
    counts = Counter(job.state for job in jobs)
    family = GaugeMetricFamily("itc_jobs", "Jobs kept.", labels=["state"])
    for state in JobState:
        family.add_metric([state.value], counts[state])
    return family


def _version() -> Metric:
    family = GaugeMetricFamily("itc_build_info", "The program's version.", labels=["version"])
    family.add_metric([program_version()], 1)
    return family
