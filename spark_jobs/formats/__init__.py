"""The forms that an export can have: what they are called. How they are written is next door.

Nothing but the standard library here, so that the service can list and check formats without
loading Spark or Arrow.
"""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT = "jsonl"


@dataclass(frozen=True)
class Format:
    """A form of export; ``name`` is its extension without the dot."""

    name: str
    media_type: str
    title: str

    @property
    def extension(self) -> str:
        """As file names end: ``.jsonl``."""
        return f".{self.name}"


FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
        Format("jsonl", "application/x-ndjson", "JSON, one event a line"),
        Format("json", "application/json", "JSON, one document with the chain's summary"),
        Format("csv", "text/csv; charset=utf-8", "Comma-separated values with a header line"),
        Format("txt", "text/plain; charset=utf-8", "Text to read, one labelled block an event"),
        Format("parquet", "application/vnd.apache.parquet", "Parquet, for data tools"),
        Format("shiviz", "text/plain; charset=utf-8", "A log with vector clocks for ShiViz"),
        Format("dot", "text/vnd.graphviz; charset=utf-8", "A graph for Graphviz"),
        Format("mmd", "text/vnd.mermaid; charset=utf-8", "A sequence diagram for Mermaid"),
        Format("trace.json", "application/json", "Chrome trace events, for Perfetto"),
    )
}


def format_of(file: str) -> Format | None:
    """The format that a file's name asks for; None where its extension is none of ours.

    The longest extension wins (``.trace.json`` before ``.json``); a name without a dot is the
    default's.
    """
    if "." not in file:
        return FORMATS[DEFAULT]
    fitting = [each for each in FORMATS.values() if file.endswith(each.extension)]
    return max(fitting, key=lambda each: len(each.name), default=None)
