"""Events as JSON, comma-separated values and labelled text."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from model.times import iso_time
from spark_jobs.events.causes import causes_in
from spark_jobs.formats.fields import EVENT_COLUMNS, EXPORTED, compact, event_fields, json_texts
from spark_jobs.formats.renderer import Chain, Renderer, Sink, write_chunks

LINE = "{" + ",".join(f'"{name}":%s' for name in EXPORTED) + "}"
# The names in tables of properties, each with the names in tables under it.
Names: TypeAlias = dict[str, "Names"]
MOST_NAMES = 1_000  # of a table; more are data
LINE_ENDS = "\x85\u2028\u2029"
# Control characters, and those that change the direction of what stands around them: a name with
# one of these reads as another on a screen.
BIDIRECTIONAL = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
CONTROL = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029{BIDIRECTIONAL}]")
# In a cell, which may have lines.
IN_CELLS = re.compile(f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029{BIDIRECTIONAL}]")
# A cell with one of these is quoted.
QUOTED = re.compile('[",\r\n]')
# In spreadsheets these begin a formula; the wide ones are on East Asian keyboards.
FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


def _json_lines(batch: pa.RecordBatch) -> list[str]:
    fields = event_fields(batch)
    texts = [json_texts(name, values) for name, values in fields.items()]
    return [LINE % row for row in zip(*texts, strict=True)]


def _join(lines: list[str], separator: str) -> bytes:
    """JSON texts as bytes; what some readers take for the end of a line is escaped."""
    text = separator.join(lines)
    for character in LINE_ENDS:
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode()


def _render_jsonl(batch: pa.RecordBatch, chain: Chain) -> bytes:
    """The names of all that is in the events' properties on a line, then a line for each event."""
    del chain
    names: Names = {}
    for text in set(batch.column("properties").to_pylist()):
        if text:
            _note_names(json.loads(text), names)
    return _join([compact(names), *_json_lines(batch)], "\n") + b"\n"


def _write_jsonl(file: Sink, chunks: Iterable[bytes], chain: Chain) -> None:
    """A line for each event; the first has every name that the properties of any have.

    Readers that look at the first lines only (Polars: 100) drop what these lack without a word.
    """
    del chain
    names: Names = {}
    with file.spooled(_without_names(chunks, names)) as lines:
        if first := lines.readline():
            event = json.loads(first)
            event["properties"] = _with_names(event["properties"], names)
            file.write(_join([compact(event)], "") + b"\n")
        shutil.copyfileobj(lines, file)


def _without_names(chunks: Iterable[bytes], names: Names) -> Iterator[bytes]:
    for chunk in chunks:
        head, _, lines = chunk.partition(b"\n")
        _note_names(json.loads(head), names)
        yield lines


def _note_names(table: Mapping[str, Any], names: Names) -> None:
    """Add a table's names, and those of the tables in it, with their own names."""
    for name, value in table.items():
        if name in names or len(names) < MOST_NAMES:
            inner = names.setdefault(name, {})
            if isinstance(value, dict):
                _note_names(value, inner)


def _with_names(table: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """A table with all names, null where it has no value."""
    return dict.fromkeys(names) | {
        name: _with_names(value, names.get(name, {})) if isinstance(value, dict) else value
        for name, value in table.items()
    }


def _render_json(batch: pa.RecordBatch, chain: Chain) -> bytes:
    del chain
    return _join(_json_lines(batch), ",\n")


def _write_json(file: Sink, chunks: Iterable[bytes], chain: Chain) -> None:
    """One object: the chain's facts, then ``events``."""
    head = compact(dict(chain.facts)).removesuffix("}")
    file.write(f'{head},"events":['.encode())
    separator = b"\n"
    for chunk in chunks:
        file.write(separator)
        file.write(chunk)
        separator = b",\n"
    file.write(b"\n]}\n")


def _render_csv(batch: pa.RecordBatch, chain: Chain) -> bytes:
    del chain
    fields = event_fields(batch)
    return _csv([_safe(_csv_values(name, values)) for name, values in fields.items()])


def _render_exact_csv(batch: pa.RecordBatch, chain: Chain) -> bytes:
    del chain
    fields = event_fields(batch)
    return _csv([_csv_values(name, values) for name, values in fields.items()])


def _csv(columns: Sequence[Sequence[Any]]) -> bytes:
    """Rows of cells: an empty text stands in quotes, and nothing at all is no text."""
    rows = zip(*(map(_cell_text, values) for values in columns), strict=True)
    return "".join(f"{','.join(row)}\r\n" for row in rows).encode()


def _cell_text(value: Any) -> str:
    text = "" if value is None else str(value)
    if value != "" and not QUOTED.search(text):
        return text
    return '"' + text.replace('"', '""') + '"'


def _safe(values: Sequence[Any]) -> Sequence[Any]:
    """Cells that a spreadsheet shows and does not run; numbers are ours, and never negative."""
    return [cell(value) if isinstance(value, str) else value for value in values]


def cell(text: str) -> str:
    """A text with what it must not do in a spreadsheet taken from it.

    Control characters are shown as escapes, and what would begin a formula stands behind a ``'``.
    """
    printable = IN_CELLS.sub(_escape, text)
    return f"'{printable}" if printable.startswith(FORMULA) else printable


def _csv_values(name: str, values: Sequence[Any]) -> Sequence[Any]:
    """Flags and times as in JSON, nothing where there is none."""
    if EXPORTED[name].kind == "time":
        return [None if value is None else iso_time(value) for value in values]
    if EXPORTED[name].kind == "flag":
        return json_texts(name, values)
    return values


def _write_csv(file: Sink, chunks: Iterable[bytes], chain: Chain) -> None:
    file.write((",".join(EXPORTED) + "\r\n").encode())
    write_chunks(file, chunks, chain)


# The labelled block's lines; an event without a field lacks its line. The rest is in the block's
# title, and around the payload.
OUTSIDE_BLOCK = ("id", "type", "recorded_at", "payload", "payload_encoding", "payload_bytes")
LABELS = {
    name: field.label
    for name, field in EXPORTED.items()
    if name not in (*OUTSIDE_BLOCK, "payload_truncated")
}
TIMES = [name for name in LABELS if EXPORTED[name].kind == "time"]
WIDTH = max(map(len, LABELS.values())) + 2


def _render_txt(batch: pa.RecordBatch, chain: Chain) -> bytes:
    del chain
    fields = event_fields(batch)
    fields |= {name: [*_csv_values(name, fields[name])] for name in TIMES}
    fields["links"] = [_causes(text) for text in batch.column("links").to_pylist()]
    rows = zip(*fields.values(), strict=True)
    return "".join(_block(dict(zip(fields, row, strict=True))) for row in rows).encode()


def _causes(text: str | None) -> str | None:
    return ", ".join(map(str, causes_in(text))) or None


def _block(event: dict[str, Any]) -> str:
    """One event as a block. A client's text never begins a line, so no payload fakes a block."""
    lines = [
        "=" * 80,
        f"{iso_time(event['recorded_at'])}: Event {event['id']}, message {event['type']}",
        "",
        *(
            f"{label + ':':{WIDTH}}{one_line(str(event[name]))}"
            for name, label in LABELS.items()
            if event[name] is not None
        ),
        f"Payload ({_payload_facts(event)}):",
        *(f"  {one_line(line)}" for line in (event["payload"] or "").split("\n")),
        "",
    ]
    return "\n".join(lines) + "\n"


def _payload_facts(event: dict[str, Any]) -> str:
    facts = f"{event['payload_bytes']} bytes, {event['payload_encoding']}"
    if event["payload"] is None:
        return f"{event['payload_bytes']} bytes, not stored"
    return f"{facts}, cut" if event["payload_truncated"] else facts


def one_line(text: str) -> str:
    """The text with control characters as escapes, so that it stays one line and only text."""
    return CONTROL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


JSONL = Renderer(EVENT_COLUMNS, _render_jsonl, _write_jsonl)
JSON = Renderer(EVENT_COLUMNS, _render_json, _write_json)
CSV = Renderer(EVENT_COLUMNS, _render_csv, _write_csv)
EXACT_CSV = Renderer(EVENT_COLUMNS, _render_exact_csv, _write_csv)
TXT = Renderer(EVENT_COLUMNS, _render_txt, write_chunks)
