"""Files of touched events made without the job: by looking at the whole of a random history."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from app.cli.verifying import sentence_of
from itc import pack
from model.exports import manifest_of
from model.words import BY_BROKER, EdgeKind, Via
from tests.spark.histories import History

Json = dict[str, Any]


def place(history: History, event: int) -> Json:
    """An event's place and stamp, as such files have them."""
    row = history.rows[event - 1]
    actor = history.actors[row["trace_id"]][row["participant"] - 1]
    clock = base64.b64encode(pack(row["stamp"])).decode()
    names = ("id", "participant", "seq", "height")
    return {**{name: row[name] for name in names}, "interval": actor.interval, "clock": clock}


def touched(history: History, event: int, *, sure: bool = True) -> tuple[Json, list[Json]]:
    """The manifest and the rows of what an event touched."""
    trace = history.rows[event - 1]["trace_id"]
    rest = "cannot_have" if sure else "unknown"
    counts = dict.fromkeys(("caused", "may_have", "cannot_have", "unknown"), 0)
    caused, rows = {event}, []
    for row in history.rows[event:]:
        if row["trace_id"] != trace:
            continue
        is_behind = history.is_behind_doubtful(event, row["id"])
        verdict, by = ("unknown" if is_behind else rest), None
        if event in history.past[row["id"]]:
            verdict = "may_have"
        if event in history.evident_past(row["id"], Via.links):
            verdict, by = "caused", _by(history, row, caused)
            caused.add(row["id"])
        counts[verdict] += 1
        type_ = ("published", "received")[row["type"]]
        said = {
            "type": type_,
            "verdict": verdict,
            "by": by,
            "doubtful": row["doubtful"] and not row["quiet"],
            "candidates": row.get("candidates"),
        }
        rows.append({**place(history, row["id"]), **said})
    manifest = {
        "event": event,
        "vhost": "/",
        "as_of": rows[-1]["id"] if rows else event,
        "events": len(rows),
        **counts,
        "sentence": sentence_of(counts, complete=True, sound=sure),
        "starts": [place(history, event)],
        "complete": True,
        "gaps": [],
        "sound": sure,
        "doubts": [] if sure else ["nobody knows"],
        "quiet": 0,
        "format": "jsonl",
        "file": "touched.jsonl",
        "bytes": 0,
        "sha256": "",
        "seconds": {},
        "versions": {},
    }
    return manifest, rows


def _by(history: History, row: Json, caused: set[int]) -> Json:
    if row["cause_id"] in caused:
        message = {"how": "message", "rule": None, "kind": None}
        return {"cause": row["cause_id"], **message, "late": False}
    link = next(
        each
        for each in history.links[row["id"]]
        if each.cause in caused and each.kind is not EdgeKind.candidate
    )
    if link.kind in BY_BROKER:
        its = {"how": link.kind.name, "rule": None, "kind": None}
    else:
        its = {"how": "link", "rule": link.rule, "kind": link.kind.name}
    return {"cause": link.cause, **its, "late": False}


def written(folder: Path, manifest: Json, rows: list[Json]) -> Path:
    """The file, with its manifest beside it."""
    file = folder / "touched.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    content = file.read_bytes()
    sums = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    manifest_of(file).write_text(json.dumps({**manifest, **sums}))
    return file
