"""What a period can be written as for the tools that people have: formats, by extension."""

from __future__ import annotations

from model.exports import Format

COLLECTOR = "collector"
"""In the place of a format: spans that are sent rather than written."""

PERIOD_FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
        Format("ocel.json", "application/json", "OCEL 2.0: an object-centric event log"),
        Format("otlp.json", "application/x-ndjson", "OpenTelemetry's spans, one request a line"),
        Format("asyncapi.json", "application/json", "AsyncAPI 3: channels, operations, messages"),
        Format("asyncapi.yaml", "application/yaml", "The same as YAML"),
    )
}


def period_format_of(file: str) -> Format | None:
    """The format that a file's name asks for; None if it asks for none of these."""
    fitting = (each for each in PERIOD_FORMATS.values() if file.endswith(each.extension))
    return next(fitting, None)
