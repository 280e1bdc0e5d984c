"""``GET /metrics``: the service in numbers, by Prometheus's conventions.

Base units, ``_total`` for what only grows. Nothing here is named after a message, a user or a
connection: labels stay few.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from fastapi import APIRouter, Request, Response
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.core import Metric as MetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from app.api.openapi import READING
from app.api.routes.traces import copies_in_hand
from app.api.services import Parts, sent_spans
from app.api.signin.auth import User, reader_of
from app.jobs.manager import HISTORY
from app.stored.assertions import WebhookState
from app.stored.jobs import JobState
from app.stored.spans import Refusal
from app.traces.life import TraceState
from app.traces.status import TraceStatus
from app.version import program_version

router = APIRouter(tags=["service"])

# By the values of the labels; a summary has its count and its sum.
Samples: TypeAlias = Mapping[tuple[str, ...], float | tuple[float, float]]
_TYPES = ("published", "received")
_ASSERTION_COUNTS = ("held", "violated", "unknown")
_EXPORTED = ("sent", "refused", "missed")
_NAMED_COUNTS = ("found", "unseen", "forgotten", "ambiguous", "early")
_FOUND_COUNTS = ("known", "missed", "hidden")


TEXT: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}}
}


@router.get("/metrics", response_class=Response, responses={**READING, **TEXT})
async def metrics(request: Request, parts: Parts) -> Response:
    """Everything that Prometheus scrapes, of the virtual hosts that the user sees."""
    user = None if parts.settings.metrics_open else await reader_of(request)
    reading = MetricsReading(await _families(parts, user))
    text = generate_latest(request.app.state.http_metrics.registry) + generate_latest(reading)
    return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)


class MetricsReading(list[MetricFamily], Collector):
    """Metrics that are read before the scrape's answer is made."""

    def collect(self) -> Iterable[MetricFamily]:
        return self


_KINDS: dict[str, Any] = {"total": CounterMetricFamily, "sum": SummaryMetricFamily}
# A line for each: its name, whose end says its kind; its labels, or its field in each trace's
# status; its help. A trace that does not know a value has no sample.
_METRICS = """
itc_events_unmatched_total =counters.unmatched Received events whose publish was not observed.
itc_events_redelivered_total =counters.redelivered Received events that were handed over before.
itc_events_dead_lettered_total =counters.dead_lettered Received events that had died in another
  queue.
itc_trace_messages_quarantined_total =counters.quarantined Trace messages that could not be read.
itc_copies_dropped_total =counters.copies_dropped Routed copies that were forgotten before their
  delivery.
itc_trace_restarts_total =restarts Restarts of the trace after a failure.
itc_audit_missing_total =audit.missing Trace messages that the broker counted and that never came.
itc_audit_excess_total =audit.excess Trace messages that came and that the broker did not count;
  they can hide a loss.
itc_stamp_bytes =work.stamp_bytes Size of the newest event's stored clock.
itc_id_depth =work.id_depth How often the seed was halved for the newest event's participant.
itc_events_stored =events Events in the store.
itc_trace_queue_messages =lag Trace messages that wait to be read.
itc_participants =participants Participants with an id.
itc_copies_pending =pending_copies Routed copies that wait for their delivery.
itc_links_coverage_ratio =evidence.coverage Publishes that name a cause which was found, of those
  that may have one.
itc_spans_coverage_ratio =evidence.coverage_by_spans Publishes that name no cause and of which spans
  tell it, of those that may have one.
itc_links_fit_ratio =evidence.fit Causes that the policy had in their publisher's past, of those
  that came by the broker.
itc_audit_suspected =audit.suspected Trace messages that the broker counted and that may yet come.
itc_trace_gaps vhost Recorded gaps that are no choice, of the newest 100.
itc_trace_gaps_open vhost Open gaps that are no choice.
itc_trace_partial vhost 1 if only some exchanges and queues are taken, else 0.
itc_batch_duration_seconds_sum vhost Time of a batch's transaction.
itc_stamp_duration_seconds_sum vhost Time to match and stamp an event.
itc_events_total vhost,type Events stamped.
itc_settlements_total vhost,outcome Deliveries by what became of them at their consumers, as the
  broker plugin tells.
itc_trace_state vhost,state 1 for the state a trace is in.
itc_causes_named_total vhost,rule,outcome Causes that messages named, and whether they were found.
itc_causes_found_total vhost,rule,way Causes that were found, and whether the policy had them in
  their publisher's past.
itc_causes_unread_total vhost,reason How often a rule asked for what is not read, as a body in an
  unknown encoding.
itc_in_hand_messages vhost Messages that consumers hold, as the broker plugin tells, in running
  traces.
itc_in_hand_oldest_timestamp_seconds vhost When the one held for longest came.
itc_spans_total outcome Spans that came, and what became of them.
itc_spans_exported_total vhost,outcome Spans that the collector took or refused, and events that
  were removed before their spans were sent.
itc_spans_export_behind_seconds vhost Time since the first event that waits for its spans to be sent
  was recorded.
itc_spans_export_waiting - 1 while nothing is sent because the collector is away.
itc_assertion_events_total vhost,assertion,outcome Events that an assertion was judged by, and
  whether it holds for them.
itc_assertion_waiting vhost,assertion Events that wait to be judged by an assertion.
itc_webhook_violations delivery Violations that are kept, and whether the webhook has taken them.
itc_jobs state Jobs kept.
itc_build_info version The program's version.
itc_store_bytes - Size of the database.
itc_exports - Exports that are kept.
itc_exports_bytes - Size of all exports.
itc_searches_waiting - Searches that wait for their turn.
itc_live_subscribers - Readers of the live tail.
itc_live_dropped_total - Readers of the live tail that were too slow.
itc_connections_announced - 1 while the broker announces connections to us.
"""


async def _families(parts: Parts, user: User | None) -> list[MetricFamily]:
    statuses = [s for s in await parts.traces.statuses() if user is None or user.sees(s.vhost)]
    samples = _of_traces(statuses) | await _of_service(parts, statuses, user)
    families = []
    for line in _METRICS.replace("\n  ", " ").strip().splitlines():
        name, source, text = line.split(maxsplit=2)
        labels, _, path = source.partition("=")
        kind = _KINDS.get(name.rpartition("_")[2], GaugeMetricFamily)
        label_names = [] if source == "-" else (labels or "vhost").split(",")
        family = kind(name.removesuffix("_sum"), text, labels=label_names)
        values_by_labels = _samples_at(statuses, path) if path else samples[name]
        for label_values, number in values_by_labels.items():
            family.add_metric(label_values, *(number if isinstance(number, tuple) else (number,)))
        families.append(family)
    return families


def _samples_at(statuses: Sequence[TraceStatus], path: str) -> Samples:
    samples: dict[tuple[str, ...], float] = {}
    for status in statuses:
        part: Any = status
        for name in path.split("."):
            part = None if part is None else getattr(part, name)
        if part is not None:
            samples[(status.vhost,)] = part
    return samples


def _of_traces(statuses: Sequence[TraceStatus]) -> dict[str, Samples]:
    works = [(s.vhost, s.work) for s in statuses]
    rules = [(s.vhost, rule, count) for s in statuses for rule, count in s.links.items()]
    return {
        "itc_trace_gaps": {(s.vhost,): len(s.losses()) for s in statuses},
        "itc_trace_gaps_open": {
            (s.vhost,): sum(gap.until is None for gap in s.losses()) for s in statuses
        },
        "itc_trace_partial": {(s.vhost,): not s.taken.is_all for s in statuses},
        "itc_batch_duration_seconds_sum": {
            (vhost,): (work.batches, work.batch_seconds) for vhost, work in works
        },
        "itc_stamp_duration_seconds_sum": {
            (vhost,): (work.stamped, work.stamp_seconds) for vhost, work in works
        },
        "itc_events_total": {
            (s.vhost, e): getattr(s.counters, e) for s in statuses for e in _TYPES
        },
        "itc_settlements_total": {
            (vhost, outcome): times
            for vhost, work in works
            for outcome, times in work.settled.items()
        },
        "itc_trace_state": {(s.vhost, e): e is s.state for s in statuses for e in TraceState},
        "itc_causes_named_total": {
            (*rule, e): getattr(n, e) for *rule, n in rules for e in _NAMED_COUNTS
        },
        "itc_causes_found_total": {
            (*rule, e): getattr(n, e) for *rule, n in rules for e in _FOUND_COUNTS
        },
        "itc_causes_unread_total": {(s.vhost, e): n for s in statuses for e, n in s.unread.items()},
    }


async def _of_service(
    parts: Parts, statuses: Sequence[TraceStatus], user: User | None
) -> dict[str, Samples]:
    vhosts = None if user is None else user.vhosts
    exports = await asyncio.to_thread(parts.folders.exports.usage)
    jobs = Counter(job.state for job in await parts.jobs.jobs(vhosts, limit=HISTORY))
    in_hand = await copies_in_hand(statuses, parts)
    assertions = await parts.store.assertions.list(vhosts)
    deliveries = await parts.store.violations.deliveries()
    # OpenTelemetry's spans: all zero where none are accepted.
    stored, repeated, refused = 0, 0, Counter[Refusal]()
    if parts.spans is not None:
        stored, repeated, refused = parts.spans.taken, parts.spans.repeated, parts.spans.refused
    exported = [e for e in await sent_spans(parts) if vhosts is None or e.vhost in vhosts]
    readers = parts.subscribers
    spans: dict[tuple[str, ...], float] = {("taken",): stored, ("repeated",): repeated}
    alone: dict[str, float] = {
        "itc_store_bytes": await parts.store.size(),
        "itc_exports": exports.files,
        "itc_exports_bytes": exports.bytes,
        "itc_searches_waiting": parts.searches.slots.queue_size,
        "itc_live_subscribers": readers.count,
        "itc_live_dropped_total": readers.dropped,
        "itc_connections_announced": parts.connections(),
        "itc_spans_export_waiting": parts.following is not None
        and parts.following.waits_for is not None,
    }
    return {
        **{name: {(): number} for name, number in alone.items()},
        "itc_in_hand_messages": {(vhost,): count for vhost, count in in_hand.counts.items()},
        "itc_in_hand_oldest_timestamp_seconds": {
            (delivery.vhost,): delivery.since / 1e6 for delivery in reversed(in_hand.items)
        },
        "itc_spans_total": {**spans, **{(reason.value,): refused[reason] for reason in Refusal}},
        "itc_assertion_events_total": {
            (a.vhost, a.name, outcome): getattr(a, outcome)
            for a in assertions
            for outcome in _ASSERTION_COUNTS
        },
        "itc_spans_exported_total": {
            (e.vhost, outcome): getattr(e, outcome) for e in exported for outcome in _EXPORTED
        },
        "itc_spans_export_behind_seconds": {(e.vhost,): e.behind / 1e6 for e in exported},
        "itc_assertion_waiting": {(a.vhost, a.name): a.waiting for a in assertions},
        "itc_webhook_violations": {(e.value,): deliveries.get(e, 0) for e in WebhookState},
        "itc_jobs": {(e.value,): jobs[e] for e in JobState},
        "itc_build_info": {(program_version(),): 1.0},
    }
