"""Exports of periods for other tools."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from app.api.schemas.common import Certainty, Time

# As `model.interchange` has them.
PeriodForm = Literal["ocel.json", "otlp.json", "asyncapi.json", "asyncapi.yaml", "collector"]
PeriodVia = Literal["links", "conversation"]


class PeriodSummary(Certainty):
    """The answer of a job that wrote or sent a period; a file's manifest has the same."""

    model_config = ConfigDict(extra="allow")

    job: int
    vhost: str
    since: Time
    until: Time
    via: PeriodVia
    format: PeriodForm
    file: str | None = Field(description="`null` where spans were sent.")
    location: str | None
    events: int
    conversations: int | None = Field(None, description="Of `.ocel.json` and of spans.")
    cut: int | None = Field(
        None, description="Conversations of which only the first 10,000 events are in it."
    )
    spans: int | None = None
    refused: int | None = Field(None, description="Spans that the collector says it refused.")
    refusal: str | None = None
    channels: int | None = Field(None, description="Of AsyncAPI, as the next ones.")
    operations: int | None = None
    messages: int | None = None
    left_out: int | None = Field(
        None, description="Events that are not in the document, because it would be too large."
    )
    bytes: int
    sha256: str | None
    seconds: dict[str, float]
    versions: dict[str, str]


class PeriodExport(BaseModel):
    """A file of a period."""

    model_config = ConfigDict(from_attributes=True)

    vhost: str
    file: str
    location: str
    format: PeriodForm
    since: Time
    until: Time
    via: PeriodVia
    events: int
    bytes: int
    complete: bool
