"""OTLP's messages, as far as they are read and written here."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from app.api.schemas.common import Model


class ExportTraceServiceRequest(Model):
    """Spans, grouped by resource and scope (opentelemetry/proto/collector/trace/v1)."""

    resourceSpans: list[dict[str, Any]] = Field([])


class PartialSuccess(Model):
    """What was refused of a request."""

    rejectedSpans: str = Field(description="How many spans, a number as text.")
    errorMessage: str = Field(description="Why, a sentence.")


class ExportTraceServiceResponse(Model):
    """Empty if all was taken."""

    partialSuccess: PartialSuccess | None = None
