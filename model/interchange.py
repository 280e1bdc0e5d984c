"""Formats that a period can be written as for the tools that people have, by extension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from model.exports import Format
from model.sound import Certainty
from model.times import Microseconds
from model.words import BondWord

PeriodForm: TypeAlias = Literal[
    "ocel.json", "otlp.json", "asyncapi.json", "asyncapi.yaml", "collector"
]
"""The names of `PERIOD_FORMATS`, and ``collector``: spans that are sent rather than written."""

PERIOD_FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        Format("ocel.json", "application/json", "OCEL 2.0: an object-centric event log"),
        Format("otlp.json", "application/x-ndjson", "OpenTelemetry's spans, one request a line"),
        Format("asyncapi.json", "application/json", "AsyncAPI 3: channels, operations, messages"),
        Format("asyncapi.yaml", "application/yaml", "The same as YAML"),
    )
}


@dataclass(frozen=True, kw_only=True)
class PeriodSummary(Certainty):
    """The answer of a job that wrote or sent a period; a file's manifest has the same."""

    vhost: str
    since: Microseconds
    until: Microseconds
    via: BondWord
    format: PeriodForm
    file: Annotated[str | None, "`null` where spans were sent."]
    bytes: int
    sha256: str | None
    seconds: dict[str, float]
    versions: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class ConversationCounts:
    """Counts of an event log, and of spans."""

    events: int
    conversations: int
    cut: Annotated[int, "Conversations of which only the first 10,000 events are in it."]


@dataclass(frozen=True, kw_only=True)
class SpanCounts(ConversationCounts):
    """Counts of spans."""

    spans: int


@dataclass(frozen=True, kw_only=True)
class SentCounts(SpanCounts):
    """Counts of spans sent to the collector."""

    refused: Annotated[int, "Spans that the collector says it refused."]
    refusal: str | None


@dataclass(frozen=True, kw_only=True)
class DocumentCounts:
    """Counts of an AsyncAPI document."""

    events: int
    channels: int
    operations: int
    messages: int
    left_out: Annotated[int, "Events that are not in the document, because it would be too large."]
