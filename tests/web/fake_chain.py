"""The chain between two events, and what events touched, as the fake service answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

from model.answers import touched_sentence
from tests.web import history
from tests.web.history import Event
from tests.web.world import World, bad_request, now

MOST_SINCE = 20_000  # as far as effects are followed here


def chain_json(world: World, a: str, b: str, query: Mapping[str, str]) -> dict[str, Any]:
    """What `GET /itc_db/chain/{a}/{b}` answers."""
    one, other = world.event(a), world.event(b)
    if one.id == other.id:
        raise bad_request("a chain needs two events; both ids are the same")
    first, last = sorted((one, other), key=lambda event: event.id)
    via, limit = query.get("via", "any"), min(int(query.get("limit", 200)), 1000)
    said = world.compare_json(one, other) | world.answer_json(one, other)
    ordered = said["relation"] in {"before", "after"}
    ids = history.chain(world.events, first, last, via) if ordered else []
    rest = [number for number in ids if number > int(query.get("after", 0))]
    shown = [world.events[number - 1] for number in rest[:limit]]
    truncated = len(rest) > limit
    return {
        **{name: value for name, value in said.items() if name not in {"a", "b"}},
        "from": one.id,
        "to": other.id,
        "via": via,
        "start": first.id,
        "end": last.id,
        "events": [world.row(event, query) for event in shown],
        "count": len(ids),
        "participants": len({world.events[number - 1].participant for number in ids}),
        "steps": _steps(world, shown),
        "truncated": truncated,
        "next": shown[-1].id if truncated else None,
    }


def _steps(world: World, shown: list[Event]) -> list[dict[str, Any]]:
    ids = {event.id for event in shown}
    return [
        world.step_json(cause, event.id)
        for event in shown
        for cause in history.evident(event)
        if cause in ids
    ]


def verdicts(world: World, asked: list[Event]) -> dict[str, list[int]]:
    """The ids of the events since some, by what these had to do with them."""
    first = min(event.id for event in asked)
    events = world.events[: first + MOST_SINCE]
    ids = {event.id for event in asked}
    since = [e.id for e in events[first:] if e.vhost == asked[0].vhost and e.id not in ids]
    caused = set().union(*(history.evident_future(events, event) for event in asked))
    after = set().union(*(history.future(events, event) for event in asked))
    return {
        "caused": [number for number in since if number in caused],
        "may_have": [number for number in since if number in after - caused],
        "cannot_have": [number for number in since if number not in after | caused],
    }


def touched_json(world: World, query: Mapping[str, str]) -> dict[str, Any]:
    """What `GET /itc_db/touched` answers."""
    asked = [world.event(number) for number in query["events"].split(",")]
    by_verdict = verdicts(world, asked)
    counts = {name: len(ids) for name, ids in by_verdict.items()}
    verdict, limit = query.get("verdict"), min(int(query.get("limit", 100)), 1000)
    rest = [n for n in by_verdict.get(verdict or "", ()) if n > int(query.get("after", 0))]
    certainty = world.certainty_json(asked[0].vhost, asked[0].id, len(world.events))
    return {
        "events": sorted(event.id for event in asked),
        "vhost": asked[0].vhost,
        "as_of": max(e.id for e in world.events if e.vhost == asked[0].vhost),
        "since": sum(counts.values()),
        **counts,
        "caused_truncated": False,
        "sentence": touched_sentence(
            len(asked),
            sum(counts.values()),
            counts["caused"],
            counts["may_have"],
            cut=False,
            complete=certainty["complete"],
            sound=certainty["sound"],
        ),
        "items": None
        if verdict is None
        else [world.row(world.events[number - 1], query) for number in rest[:limit]],
        "truncated": len(rest) > limit,
        "next": rest[limit - 1] if len(rest) > limit else None,
        **certainty,
    }


def start_touched(world: World, number: str, file: str) -> dict[str, Any]:
    """The job of `PUT /itc_db/touched/{event}/{file}`."""
    event = world.event(number)
    if not file.endswith((".jsonl", ".parquet")):
        raise bad_request(f"no format has the extension of {file}")
    job = world.new_job("touched", event.vhost, {"event": event.id, "file": file})
    threading.Thread(target=_run, args=(world, job, event, file), daemon=True).start()
    return job


def _run(world: World, job: dict[str, Any], event: Event, file: str) -> None:
    world.update(job, state="running", started_at=now(), stage="reading", percent=40.0)
    if world.closing.wait(world.job_seconds) or job["state"] == "cancelled":
        return
    by_verdict = verdicts(world, [event]).items()
    rows = sorted((number, name) for name, ids in by_verdict for number in ids)
    body = "".join(json.dumps({"id": number, "verdict": name}) + "\n" for number, name in rows)
    location = f"/itc_db/touched/{event.id}/{file}"
    world.touched_files[location] = body.encode()
    result = {"job": job["id"], "event": event.id, "file": file, "location": location}
    world.update(job, state="succeeded", percent=100.0, finished_at=now(), result=result)
