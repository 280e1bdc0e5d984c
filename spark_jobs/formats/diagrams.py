"""Events as diagrams: Graphviz, Mermaid and Chrome trace events.

Lanes are participants, arrows run from a publish to its deliveries. In a style of their own they
run from what a publish names as its cause to that publish, and from a delivery that was given back
or rejected, or a publish that was one too many for its queue, to what the broker handed over then.
An arrow is drawn if both its ends are in the chain; a delivery whose publish is outside says so in
words. Quiet traffic joins nothing, so no arrow leads to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from model.words import EventType
from spark_jobs.events.causes import NamedCause, causes_in
from spark_jobs.events.ranges import Ranges
from spark_jobs.formats.fields import compact
from spark_jobs.formats.lines import one_line
from spark_jobs.formats.renderer import Chain, DiagramLane, Renderer, Sink

COLUMNS = (
    *("id", "type", "participant", "seq", "height", "recorded_at", "exchange", "queue"),
    *("routing_keys", "quiet", "candidates", "cause_id", "cause_participant"),
    *("cause_height", "cause_seq", "cause_recorded_at", "links"),
)


def diagram_rows(batch: pa.RecordBatch, chain: Chain) -> Iterator[dict[str, Any]]:
    """The batch's events.

    ``cause_inside`` says whether a cause that was joined is in the chain, ``named`` are the
    causes beside its message that are.
    """
    assert chain.ranges is not None  # noqa: S101 - filled for every format that asks for lanes
    participants = batch.column("cause_participant").fill_null(-1).to_numpy()
    heights = batch.column("cause_height").fill_null(-1).to_numpy()
    inside = chain.ranges.hold(participants.astype(np.int64), heights.astype(np.int64))
    for row, cause_inside in zip(batch.to_pylist(), inside.tolist(), strict=True):
        row["cause_inside"] = cause_inside and not row["quiet"]
        row["named"] = [] if row["quiet"] else inside_links(row["links"], chain.ranges)
        yield row


def inside_links(text: str | None, ranges: Ranges) -> list[NamedCause]:
    """The causes beside its message that are in the chain."""
    placed = [link for link in causes_in(text) if link.is_located]
    if not placed:
        return []
    is_inside = ranges.hold(
        np.array([link.participant for link in placed], dtype=np.int64),
        np.array([link.height for link in placed], dtype=np.int64),
    )
    return [link for link, inside in zip(placed, is_inside.tolist(), strict=True) if inside]


def caption(event: dict[str, Any]) -> str:
    """An event in a few words: ``12 published to orders ["order.new"]``."""
    word = EventType(event["type"])
    if word is EventType.published:
        target = f"to {event['exchange'] or '(default)'}"
    else:
        target = f"from {event['queue'] or ''}"
    quiet = " (quiet)" if event["quiet"] else ""
    equal = f" (one of {event['candidates']} equal messages)" if event["candidates"] else ""
    return f"{event['id']} {word.name} {target} {event['routing_keys']}{quiet}{equal}"


def _renderer(
    statements: Callable[[dict[str, Any], Chain], Iterator[str]], joiner: str = "\n"
) -> Callable[[pa.RecordBatch, Chain], bytes]:
    """A render function that turns each event into some statements."""

    def render(batch: pa.RecordBatch, chain: Chain) -> bytes:
        rows = diagram_rows(batch, chain)
        return joiner.join(s for row in rows for s in statements(row, chain)).encode()

    return render


# Graphviz


LINK_COLOUR = "blue"


def _dot_statements(event: dict[str, Any], chain: Chain) -> Iterator[str]:
    lane = chain.lanes[event["participant"]]
    node = f"p{lane.number}_{event['seq']}"
    yield f"  subgraph cluster_{lane.number} {{ {node} [label={_dot_text(caption(event))}] }}"
    if event["height"] != lane.low:
        previous = lane.resumes.get(event["height"], event["seq"] - 1)
        yield f"  p{lane.number}_{previous} -> {node} [style=dashed]"
    if event["cause_inside"]:
        cause = f"p{event['cause_participant']}_{event['cause_seq']}"
        yield f"  {cause} -> {node} [label={_dot_text(event['queue'])}]"
    for link in event["named"]:
        label = _dot_text(": ".join(link.words))
        yield (
            f"  p{link.participant}_{link.seq} -> {node}"
            f" [style=bold, color={LINK_COLOUR}, fontcolor={LINK_COLOUR}, label={label}]"
        )


def _dot_text(text: str) -> str:
    escaped = one_line(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _write_dot(file: Sink, chunks: Iterable[bytes], chain: Chain) -> None:
    lines = ["digraph chain {", "  node [shape=box]"]
    for lane in chain.lanes.values():
        lines.append(f"  subgraph cluster_{lane.number} {{ label={_dot_text(lane.name)} }}")
    file.write(("\n".join(lines) + "\n").encode())
    for chunk in chunks:
        file.write(chunk + b"\n")
    file.write(b"}\n")


# Mermaid


# Mermaid refuses a longer text.
MERMAID_CHARACTERS = 50_000
MERMAID_NOTE = 200  # of these, room to say what is left out
EVENT_END = "\0"  # between events, until they are written; texts have none
# Characters and words that Mermaid may take for syntax; each has a code, shown as the character.
MERMAID_OWN = re.compile(r"[^\w .,/()@\[\]'*+=|-]|->|--|\bend\b", re.IGNORECASE)


def _mermaid_text(text: str) -> str:
    return MERMAID_OWN.sub(_mermaid_codes, one_line(text))


def _mermaid_codes(match: re.Match[str]) -> str:
    return "".join(f"#{ord(character)};" for character in match[0])


def _mermaid_statements(event: dict[str, Any], chain: Chain) -> Iterator[str]:
    del chain
    lane = f"P{event['participant']}"
    if event["cause_inside"]:
        text = _mermaid_text(f"{caption(event)}, cause {event['cause_id']}")
        yield f"    P{event['cause_participant']}->>{lane}: {text}"
    else:
        is_joined = event["type"] != EventType.published and not event["quiet"]
        joins = is_joined and not event["candidates"]
        outside = ", cause not in the chain" if joins else ""
        yield f"    Note over {lane}: {_mermaid_text(caption(event) + outside)}"
    for link in event["named"]:  # dotted, where a message's arrow is solid
        verb = "names" if link.rule else "after"
        text = _mermaid_text(f"{event['id']} {verb} {link.cause} ({', '.join(link.words)})")
        yield f"    P{link.participant}-->>{lane}: {text}"


def _mermaid_events(event: dict[str, Any], chain: Chain) -> Iterator[str]:
    yield "\n".join(_mermaid_statements(event, chain))


def _write_mermaid(file: Sink, chunks: Iterable[bytes], chain: Chain) -> None:
    """As many events, from the first, as Mermaid draws, and in words how many these are."""
    lanes: dict[int, str] = {}
    events: list[str] = []
    room, total = MERMAID_CHARACTERS - MERMAID_NOTE, 0
    for chunk in chunks:
        for event in chunk.decode().split(EVENT_END):
            total += 1
            if len(events) < total - 1:
                continue
            new = {number: _mermaid_lane(chain.lanes[number]) for number in _lanes_of(event)}
            new = {number: line for number, line in new.items() if number not in lanes}
            room -= sum(_units(line) + 1 for line in (event, *new.values()))
            if room >= 0:
                lanes |= new
                events.append(event)
    if len(events) < total:
        ends = ",".join(f"P{number}" for number in sorted({min(lanes), max(lanes)}))
        events.append(
            f"    Note over {ends}: the first {len(events)} of {total} events."
            f" Mermaid draws {MERMAID_CHARACTERS} characters"
        )
    lines = ["sequenceDiagram", *(lanes[number] for number in chain.lanes if number in lanes)]
    file.write("".join(f"{line}\n" for line in (*lines, *events)).encode())


def _mermaid_lane(lane: DiagramLane) -> str:
    return f"    participant P{lane.number} as {_mermaid_text(lane.name)}"


def _lanes_of(event: str) -> set[int]:
    """The participants of an event's statements, which name them before the colon."""
    heads = (line.partition(":")[0] for line in event.split("\n"))
    return {int(number) for head in heads for number in re.findall(r"P(\d+)", head)}


def _units(text: str) -> int:
    """The length that JavaScript counts."""
    return len(text.encode("utf-16-le")) // 2


# Chrome trace events


def _trace_statements(event: dict[str, Any], chain: Chain) -> Iterator[str]:
    del chain
    target = {"pid": 1, "tid": event["participant"], "ts": event["recorded_at"]}
    facts = {name: event[name] for name in ("id", "cause_id", "exchange", "queue")}
    if event["named"]:
        facts["links"] = [link.to_json() for link in event["named"]]
    yield compact(
        {"ph": "X", "cat": "event", "name": caption(event), **target, "dur": 1, "args": facts}
    )
    if event["cause_inside"]:
        arrow = {"cat": "message", "name": event["queue"], "id": event["id"]}
        source = {"tid": event["cause_participant"], "ts": event["cause_recorded_at"]}
        yield compact({"ph": "s", **arrow, **target, **source})
        yield compact({"ph": "f", "bp": "e", **arrow, **target})
    for link in event["named"]:
        # Flows are told apart by category, name and id, and an event may have several causes.
        kind, *rule = link.words
        name = ", ".join([f"{kind} {link.cause}", *rule])
        arrow = {"cat": "link", "name": name, "id": event["id"]}
        source = {"tid": link.participant, "ts": link.recorded_at}
        yield compact({"ph": "s", **arrow, **target, **source})
        yield compact({"ph": "f", "bp": "e", **arrow, **target})


def _write_trace(file: Sink, chunks: Iterable[bytes], chain: Chain) -> None:
    vhost = f"RabbitMQ {chain.facts.get('vhost', '')}"
    lines = [compact({"ph": "M", "name": "process_name", "pid": 1, "args": {"name": vhost}})]
    for lane in chain.lanes.values():
        thread = {"pid": 1, "tid": lane.number}
        lines.append(
            compact({"ph": "M", "name": "thread_name", **thread, "args": {"name": lane.name}})
        )
    file.write(('{"displayTimeUnit":"ms","traceEvents":[\n' + ",\n".join(lines)).encode())
    for chunk in chunks:
        file.write(b",\n" + chunk)
    file.write(b"\n]}\n")


DOT = Renderer(COLUMNS, _renderer(_dot_statements), _write_dot, lanes=True)
MERMAID = Renderer(COLUMNS, _renderer(_mermaid_events, EVENT_END), _write_mermaid, lanes=True)
TRACE = Renderer(COLUMNS, _renderer(_trace_statements, ",\n"), _write_trace, lanes=True)
