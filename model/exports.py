"""Exports: their formats, their files' names, their manifests. How each format is written is in
``spark_jobs/formats``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from itc import Relation
from model.answers import Answer
from model.described import INNER
from model.sound import Certainty
from model.words import Via

DEFAULT = "jsonl"
CONCURRENT = "Neither event happened before the other, so there is no chain between them."

MANIFEST = ".manifest.json"
# The suffix of a file that is being written; it also begins with a dot, as no export's name does.
LEFTOVER = ".part"


@dataclass(frozen=True)
class Format:
    """A form of exports; ``name`` is its extension without the dot."""

    name: Annotated[str, INNER]
    media_type: str
    title: str

    @property
    def extension(self) -> str:
        """The end of its files' names: ``.jsonl``."""
        return f".{self.name}"


FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        Format("jsonl", "application/x-ndjson", "JSON, one event a line"),
        Format("json", "application/json", "JSON, one document with the chain's summary"),
        Format("csv", "text/csv; charset=utf-8", "Comma-separated values, safe in a spreadsheet"),
        Format("exact.csv", "text/csv; charset=utf-8", "Comma-separated values, exactly as sent"),
        Format("txt", "text/plain; charset=utf-8", "Text to read, one labelled block an event"),
        Format("parquet", "application/vnd.apache.parquet", "Parquet, for data tools"),
        Format("shiviz", "text/plain; charset=utf-8", "A log with vector clocks for ShiViz"),
        Format("dot", "text/vnd.graphviz; charset=utf-8", "A graph for Graphviz"),
        Format("mmd", "text/vnd.mermaid; charset=utf-8", "A sequence diagram for Mermaid"),
        Format("trace.json", "application/json", "Chrome trace events, for Perfetto"),
    )
}


def format_of(file: str) -> Format | None:
    """The format that a file's name asks for; None for an unknown extension.

    The longest extension wins (``.trace.json`` over ``.json``); a name without a dot has the
    default.
    """
    if "." not in file:
        return FORMATS[DEFAULT]
    fitting = [form for form in FORMATS.values() if file.endswith(form.extension)]
    return max(fitting, key=lambda form: len(form.name), default=None)


def manifest_of(output: Path) -> Path:
    """The path of an export's manifest."""
    return output.with_name(output.name + MANIFEST)


@dataclass(frozen=True)
class ChainPlan:
    """The plan by which a chain was found."""

    form: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ChainFacts(Certainty):
    """The facts of a chain that an export may give: known before the first event is read."""

    from_id: int = field(metadata={"shown_as": "from"})
    to_id: int = field(metadata={"shown_as": "to"})
    vhost: str
    via: Via
    relation: Relation
    answer: Annotated[
        Answer, "Whether messages and links lead from the earlier of the two to the later."
    ]
    sentence: str


@dataclass(frozen=True, kw_only=True)
class ChainSummary(ChainFacts):
    """The answer of a chain job.

    An export's manifest holds the same and what wrote it.
    """

    format: str
    plan: ChainPlan
    file: Annotated[str | None, "`null` if there is no chain between the two events."] = None
    events: int = 0
    participants: int = 0
    bytes: int = 0
    sha256: str | None = None
    seconds: dict[str, float]


@dataclass(frozen=True)
class Manifest:
    """The fields of an export's manifest that the service reads."""

    vhost: str
    events: int


@dataclass(frozen=True)
class Usage:
    """The number of exports in a folder, and the bytes of all its files."""

    files: int
    bytes: int


@dataclass(frozen=True)
class Quota:
    """The bounds of a folder of exports; each of its files costs time at every look."""

    bytes: int
    files: int = 10_000

    def free_bytes(self, usage: Usage) -> int:
        """The bytes for a further export; negative where there may be none."""
        return -1 if usage.files >= self.files else self.bytes - usage.bytes

    def refusal(self, usage: Usage) -> str:
        return (
            f"The exports take {usage.files} files and {usage.bytes} bytes, of {self.files} files"
            f" and {self.bytes} bytes that they may (ITC_EXPORTS_MAX_BYTES): delete some and"
            " ask again. Nothing was written."
        )


def usage_of(folder: Path, replaced: Path | None = None) -> Usage:
    """The usage of a folder of exports without the export ``replaced``."""
    left_out = () if replaced is None else (replaced, manifest_of(replaced))
    files = size = 0
    for entry in _files_in(folder):
        if Path(entry.path) in left_out:
            continue
        try:
            size += entry.stat(follow_symlinks=False).st_size
        except OSError:  # removed just now
            continue
        files += not entry.name.startswith(".") and not entry.name.endswith(MANIFEST)
    return Usage(files, size)


def _files_in(folder: Path) -> Iterator[os.DirEntry[str]]:
    for subfolder in _entries(folder):
        if subfolder.is_dir(follow_symlinks=False):
            yield from (
                file for file in _entries(subfolder.path) if file.is_file(follow_symlinks=False)
            )


def _entries(folder: Path | str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:  # there is none yet, or no more
        return []
