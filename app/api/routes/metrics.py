"""``GET /metrics``: the service in numbers, by Prometheus's conventions.

Base units, ``_total`` for what only grows. Nothing here is named after a message, a user or a
connection: labels stay few.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from fastapi import APIRouter, Request, Response
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily as Count
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.core import Metric, SummaryMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from app.api.openapi import READING
from app.api.routes.traces import held_in
from app.api.services import Parts
from app.api.signin.auth import User, reader_of
from app.jobs.manager import HISTORY
from app.stored.assertions import WebhookState
from app.stored.causality import CopiesInHand
from app.stored.jobs import JobState
from app.stored.spans import Refusal, ResolutionOutcome
from app.traces.life import TraceState
from app.traces.spanwatch import SpanState
from app.traces.status import TraceStatus
from app.version import program_version

router = APIRouter(tags=["service"])

Kind: TypeAlias = type[Count] | type[Gauge]
Where: TypeAlias = str | Callable[[TraceStatus], float | None]
_TYPES = ("published", "received")
_OUTCOMES = ("held", "violated", "unknown")


@router.get(
    "/metrics",
    response_class=Response,
    responses={**READING, 200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request, parts: Parts) -> Response:
    """Everything that Prometheus scrapes, of the virtual hosts that the user sees."""
    user = None if parts.settings.metrics_open else await reader_of(request)
    own = MetricsReading(await _families(parts, user))
    text = generate_latest(request.app.state.http_metrics.registry) + generate_latest(own)
    return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)


class MetricsReading(Collector):
    """Metrics that were read before the scrape's answer is made."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


async def _families(parts: Parts, user: User | None) -> list[Metric]:
    statuses = [s for s in await parts.traces.statuses() if user is None or user.sees(s.vhost)]
    vhosts = None if user is None else user.vhosts
    exports = await asyncio.to_thread(parts.folders.exports.usage)
    connections, version = parts.connections(), {(program_version(),): 1.0}
    jobs = Counter(job.state for job in await parts.jobs.jobs(vhosts, limit=HISTORY))
    announced = connections.announced
    budget, searches, readers = parts.budget, parts.searches, parts.subscribers
    return [
        *_of_traces(statuses),
        *_in_hand(await held_in(statuses, parts)),
        *_spans(parts),
        *await _assertions(parts, vhosts),
        _labelled(
            Gauge, "itc_jobs", "Jobs kept.", "state", {(e.value,): jobs[e] for e in JobState}
        ),
        _labelled(Gauge, "itc_build_info", "The program's version.", "version", version),
        Gauge("itc_store_bytes", "Size of the database.", await parts.store.size()),
        Gauge("itc_exports", "Exports that are kept.", exports.files),
        Gauge("itc_exports_bytes", "Size of all exports.", exports.bytes),
        Gauge(
            "itc_answers_large_bytes",
            "Memory that large payloads, headers and clocks of answers under way may take.",
            budget.held,
        ),
        Gauge("itc_searches_waiting", "Searches that wait for their turn.", searches.waiting),
        Gauge("itc_live_subscribers", "Readers of the live tail.", readers.count),
        Count("itc_live_dropped", "Readers of the live tail that were too slow.", readers.dropped),
        Gauge(
            "itc_connections_announced",
            "1 while the broker announces connections to us.",
            int(connections.on),
        ),
        Count(
            "itc_connection_announcements",
            "Announcements of connections that were stored.",
            announced,
        ),
    ]


def _labelled(
    kind: Kind, name: str, text: str, labels: str, samples: Mapping[Any, float]
) -> Metric:
    """A metric whose samples are told apart by labels, whose names are separated by spaces."""
    family = kind(name, text, labels=labels.split())
    for values, number in samples.items():
        family.add_metric(values, number)
    return family


def _table(text: str) -> dict[str, tuple[Where, str]]:
    """Metrics by name, from lines of its name, where a trace's status has it, and what it is."""
    rows = (line.split(maxsplit=2) for line in text.replace("\n  ", " ").strip().splitlines())
    return {name: (where, said) for name, where, said in rows}


# A trace that does not know has no sample.
COUNTERS = _table("""
itc_events_unmatched counters.unmatched Received events whose publish was not observed.
itc_events_redelivered counters.redelivered Received events that were handed over before.
itc_events_dead_lettered counters.dead_lettered Received events that had died in another queue.
itc_events_untraced counters.untraced Received events that are known from reply_to alone.
itc_events_quiet counters.quiet Events of quiet traffic, which join no clocks.
itc_trace_messages_quarantined counters.quarantined Trace messages that could not be read.
itc_copies_dropped counters.copies_dropped Routed copies that were forgotten before their delivery.
itc_trace_restarts restarts Restarts of the trace after a failure.
itc_audit_missing audit.missing Trace messages that the broker counted and that never came.
itc_audit_excess audit.excess Trace messages that came and that the broker did not count; they can
  hide a loss.
""")
GAUGES = _table("""
itc_stamp_bytes work.stamp_bytes Size of the newest event's stored clock.
itc_id_depth work.id_depth How often the seed was halved for the newest event's participant.
itc_events_stored events Events in the store.
itc_trace_queue_messages lag Trace messages that wait to be read.
itc_participants participants Participants with an id.
itc_copies_pending pending_copies Routed copies that wait for their delivery.
itc_links_coverage_ratio evidence.coverage Publishes that name a cause which was found, of those
  that may have one.
itc_spans_coverage_ratio evidence.coverage_by_spans Publishes that name no cause and of which spans
  tell it, of those that may have one.
itc_links_fit_ratio evidence.fit Causes that the policy had in their publisher's past, of those
  that came by the broker.
itc_audit_suspected audit.suspected Trace messages that the broker counted and that may yet come.
""") | {
    "itc_trace_gaps": (
        lambda status: len(status.losses()),
        "Recorded gaps that are no choice, of the newest 100.",
    ),
    "itc_trace_gaps_open": (
        lambda status: sum(gap.until is None for gap in status.losses()),
        "Open gaps that are no choice.",
    ),
    "itc_trace_partial": (
        lambda status: not status.taken.is_all,
        "1 if only some exchanges and queues are taken, else 0.",
    ),
    "itc_audit_even_timestamp_seconds": (
        lambda status: status.audit.as_of / 1e6 if status.audit and status.audit.as_of else None,
        "When what was traced and what the broker counted were last compared.",
    ),
}


def _of_traces(statuses: Sequence[TraceStatus]) -> Iterable[Metric]:
    for kind, table in ((Count, COUNTERS), (Gauge, GAUGES)):
        for name, (where, text) in table.items():
            found = {(s.vhost,): _at(s, where) for s in statuses}
            known = {vhost: number for vhost, number in found.items() if number is not None}
            yield _labelled(kind, name, text, "vhost", known)
    batches = SummaryMetricFamily(
        "itc_batch_duration_seconds", "Time of a batch's transaction.", labels=["vhost"]
    )
    stamps = SummaryMetricFamily(
        "itc_stamp_duration_seconds", "Time to match and stamp an event.", labels=["vhost"]
    )
    for status in statuses:
        work = status.work
        batches.add_metric([status.vhost], work.batches, work.batch_seconds)
        stamps.add_metric([status.vhost], work.stamped, work.stamp_seconds)
    yield batches
    yield stamps
    yield _labelled(
        Count,
        "itc_events",
        "Events stamped.",
        "vhost type",
        {(s.vhost, each): getattr(s.counters, each) for s in statuses for each in _TYPES},
    )
    yield _labelled(
        Count,
        "itc_settlements",
        "Deliveries by what became of them at their consumers, as the broker plugin tells.",
        "vhost outcome",
        {(s.vhost, how): times for s in statuses for how, times in s.work.settled.items()},
    )
    yield _labelled(
        Gauge,
        "itc_trace_state",
        "1 for the state a trace is in.",
        "vhost state",
        {(s.vhost, each): float(each is s.state) for s in statuses for each in TraceState},
    )
    yield _by_rule(
        "itc_causes_named",
        "Causes that messages named, and whether they were found.",
        "outcome",
        ("found", "unseen", "forgotten", "ambiguous", "early"),
        statuses,
    )
    yield _by_rule(
        "itc_causes_found",
        "Causes that were found, and whether the policy had them in their publisher's past.",
        "way",
        ("known", "missed", "hidden"),
        statuses,
    )
    yield _labelled(
        Count,
        "itc_causes_unread",
        "How often a rule asked for what is not read, as a body in an unknown encoding.",
        "vhost reason",
        {(s.vhost, reason): times for s in statuses for reason, times in s.unread.items()},
    )


def _in_hand(held: CopiesInHand) -> Iterable[Metric]:
    oldest = {(each.vhost,): each.since / 1e6 for each in reversed(held.items)}
    counts = {(vhost,): count for vhost, count in held.counts.items()}
    text = "Messages that consumers hold, as the broker plugin tells, in running traces."
    yield _labelled(Gauge, "itc_in_hand_messages", text, "vhost", counts)
    name, text = "itc_in_hand_oldest_timestamp_seconds", "When the one held for longest came."
    yield _labelled(Gauge, name, text, "vhost", oldest)


def _at(status: TraceStatus, where: Where) -> float | None:
    if callable(where):
        return where(status)
    found: Any = status
    for name in where.split("."):
        found = None if found is None else getattr(found, name)
    return found  # type: ignore[no-any-return]


def _by_rule(
    name: str, text: str, label: str, counts: Sequence[str], statuses: Sequence[TraceStatus]
) -> Metric:
    samples = {
        (status.vhost, rule, each): getattr(count, each)
        for status in statuses
        for rule, count in status.links.items()
        for each in counts
    }
    return _labelled(Count, name, text, f"vhost rule {label}", samples)


def _spans(parts: Parts) -> Iterable[Metric]:
    """Of OpenTelemetry's spans; nothing but zeros where they are not taken."""
    taken, repeated, refused = 0, 0, Counter[Refusal]()
    if parts.spans is not None:
        taken, repeated, refused = parts.spans.taken, parts.spans.repeated, parts.spans.refused
    state = SpanState() if parts.resolved is None else parts.resolved.state
    came = {("taken",): taken, ("repeated",): repeated}
    yield _labelled(
        Count,
        "itc_spans",
        "Spans that came, and what became of them.",
        "outcome",
        came | {(why.value,): refused[why] for why in Refusal},
    )
    yield _labelled(
        Count,
        "itc_traceparents",
        "Publishes whose spans came, and what they tell of the message that was handled.",
        "outcome",
        {(each.value,): state.outcomes[each] for each in ResolutionOutcome},
    )
    yield _labelled(
        Count,
        "itc_span_links",
        "Links that spans told of: known to clocks already, or too late for them.",
        "outcome",
        {("known",): state.known, ("late",): state.links - state.known},
    )


async def _assertions(parts: Parts, vhosts: frozenset[str] | None) -> Iterable[Metric]:
    held = await parts.store.assertions.list(vhosts)
    deliveries = await parts.store.violations.deliveries()
    return (
        _labelled(
            Count,
            "itc_assertion_events",
            "Events that an assertion was judged by, and whether it holds for them.",
            "vhost assertion outcome",
            {(e.vhost, e.name, each): getattr(e, each) for e in held for each in _OUTCOMES},
        ),
        _labelled(
            Gauge,
            "itc_assertion_waiting",
            "Events that wait to be judged by an assertion.",
            "vhost assertion",
            {(each.vhost, each.name): each.waiting for each in held},
        ),
        _labelled(
            Gauge,
            "itc_webhook_violations",
            "Violations that are kept, and whether the webhook has taken them.",
            "delivery",
            {(each.value,): deliveries.get(each, 0) for each in WebhookState},
        ),
    )
