"""Events as a log for ShiViz: each with its host and a vector clock.

ShiViz takes the parser's expression from a file's first line, and the one that separates executions
from its second. A host's own clock must count 1, 2, 3…, so clocks count events of the chain: how
many of each participant are at or before the event, read from its Interval Tree Clock.

It draws what clocks say and has no second kind of arrow, so an event's causes beside its
message are a field of their own, which it shows beside the diagram and searches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from itc import unpack
from spark_jobs.events.causes import NamedCause
from spark_jobs.formats.diagrams import caption, inside_links
from spark_jobs.formats.fields import compact
from spark_jobs.formats.lines import one_line
from spark_jobs.formats.renderer import Chain, DiagramLane, Renderer, Sink, write_chunks

EXPRESSION = r"(?<event>.*)\n(?<host>\S*) (?<clock>{.*}) ?(?<links>.*)"
COLUMNS = (
    *("id", "type", "participant", "clock", "exchange", "queue", "routing_keys", "quiet"),
    "candidates",
    "links",
)


def host(lane: DiagramLane) -> str:
    """A participant's name without spaces, with its number in front so that no two are the same."""
    return f"{lane.number}-" + re.sub(r"[^\w.:@/-]+", "_", lane.name)


def vector(clock: bytes, chain: Chain) -> Mapping[str, int]:
    """The number of the chain's events of each participant that the clock knows."""
    stamp = unpack(clock)
    counts = {}
    for lane in chain.lanes.values():
        height = stamp.height_at(lane.interval)
        if height >= lane.low:
            counts[host(lane)] = int(np.searchsorted(chain.heights[lane.number], height, "right"))
    return counts


def _render(batch: pa.RecordBatch, chain: Chain) -> bytes:
    assert chain.ranges is not None  # noqa: S101 - filled for every format that asks for lanes
    lines = []
    for event in batch.to_pylist():
        name = host(chain.lanes[event["participant"]])
        clock = compact(vector(event["clock"], chain))
        links = [] if event["quiet"] else inside_links(event["links"], chain.ranges)
        causes = " ".join(map(_cause_text, links))
        lines += [one_line(caption(event)), f"{name} {clock} {one_line(causes)}".rstrip()]
    return ("\n".join(lines) + "\n").encode()


def _cause_text(cause: NamedCause) -> str:
    kind, *rule = cause.words
    return ":".join([kind, str(cause.cause), *rule])


def _write(file: Sink, chunks: Iterable[bytes], chain: Chain) -> None:
    file.write(f"{EXPRESSION}\n\n".encode())
    write_chunks(file, chunks, chain)


SHIVIZ = Renderer(COLUMNS, _render, _write, lanes=True, heights=True)
