"""Exports: their formats, what their files are called, what is said of one.

How each format is written is in ``spark_jobs/formats``.
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
    """A form that an export can have.

    ``name`` is its extension without the dot.
    """

    name: Annotated[str, INNER]
    media_type: str
    title: str

    @property
    def extension(self) -> str:
        """The end of its files' names: ``.jsonl``."""
        return f".{self.name}"


FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
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
    """The format that a file's name asks for; None if we have none for its extension.

    The longest extension wins (``.trace.json`` before ``.json``); a name without a dot asks for the
    default.
    """
    if "." not in file:
        return FORMATS[DEFAULT]
    fitting = [each for each in FORMATS.values() if file.endswith(each.extension)]
    return max(fitting, key=lambda each: len(each.name), default=None)


def manifest_of(output: Path) -> Path:
    """Return the path of an export's manifest."""
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
    """The part of an export's manifest that the service reads."""

    vhost: str
    events: int


@dataclass(frozen=True)
class Usage:
    """The content of a folder of exports: how many of them, and the bytes of all its files."""

    files: int
    bytes: int


@dataclass(frozen=True)
class Quota:
    """The most that a folder of exports may hold: a look at it takes time for each of its files."""

    bytes: int
    files: int = 10_000

    def left(self, used: Usage) -> int:
        """The bytes that a further export may have; negative where there may be none."""
        return -1 if used.files >= self.files else self.bytes - used.bytes

    def refusal(self, used: Usage) -> str:
        """Explain why there is no room, in a sentence."""
        return (
            f"The exports take {used.files} files and {used.bytes} bytes, of {self.files} files"
            f" and {self.bytes} bytes that they may (ITC_EXPORTS_MAX_BYTES): delete some and"
            " ask again. Nothing was written."
        )


def usage_of(folder: Path, without: Path | None = None) -> Usage:
    """The content of a folder of exports, leaving out the export ``without``, which is replaced."""
    left_out = () if without is None else (without, manifest_of(without))
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
    """The files in the folders of a folder."""
    for each in _entries(folder):
        if each.is_dir(follow_symlinks=False):
            yield from (one for one in _entries(each.path) if one.is_file(follow_symlinks=False))


def _entries(folder: Path | str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:  # there is none yet, or no more
        return []
