"""Facts that a format may know of the chain besides its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol, TypeAlias

import pyarrow as pa

from spark_jobs.events.ranges import Longs, Ranges


@dataclass(frozen=True)
class DiagramLane:
    """One participant of a diagram: its name, its interval, its first event's height.

    Where events of it are left out, ``resumes`` has the height of the next that is in the chain,
    with the seq of the one before it that is.
    """

    number: int
    name: str
    interval: str
    low: int
    resumes: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Chain:
    """The chain between two events, as far as its format needs it.

    ``facts`` are what is known before the first event is read (relation, ends, gaps, count).
    ``ranges`` and ``lanes`` are filled for diagrams, ``heights`` (of each participant's events,
    ascending) for vector clocks.
    """

    facts: Mapping[str, Any] = field(default_factory=dict)
    ranges: Ranges | None = None
    lanes: Mapping[int, DiagramLane] = field(default_factory=dict)
    heights: Mapping[int, Longs] = field(default_factory=dict)


class Sink(Protocol):
    """The file that a format is written to; Arrow's writers take it as one."""

    def write(self, data: bytes, /) -> int:
        """Append."""
        ...

    def spooled(self, chunks: Iterable[bytes], /) -> AbstractContextManager[BinaryIO]:
        """The chunks in a file of their own, at its beginning."""
        ...


Render: TypeAlias = Callable[[pa.RecordBatch, Chain], bytes]
Write: TypeAlias = Callable[[Sink, Iterable[bytes], Chain], None]


@dataclass(frozen=True)
class Renderer:
    """The maker of a format: ``render`` runs in executors, ``write`` where the file is.

    Attributes:
        columns: what it reads of each event.
        render: a batch of events, by id, to bytes.
        write: the rendered batches of the whole chain, in order, to the file.
        lanes: it needs the chain's ranges and the participants' names.
        heights: it needs every event's height, so the chain must be small.
    """

    columns: tuple[str, ...]
    render: Render
    write: Write
    lanes: bool = False
    heights: bool = False


def write_chunks(file: Sink, chunks: Iterable[bytes], chain: Chain) -> None:
    """The rendered batches and nothing else."""
    del chain
    for chunk in chunks:
        file.write(chunk)
