#!/usr/bin/env bash
# totem-tool reads times of OCEL 2.0 in whole seconds, and orders what is within one by ids as texts.
#
# Its graph connects an object's consecutive events by time. A message that is published, received and
# answered within a second has three events at one time, so that the ids decide: "event:10" is before
# "event:8". The answer then leads to the question, as soon as ids have another digit.
#
# Seen: totem-tool 0.1.0 with polars 2.1.0, Python 3.11: 11, 12, 13 in order; 8, 9, 10 as 10, 8, 9.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check totem-tool==0.1.0 polars==2.1.0
"$folder/venv/bin/python" -W ignore - "$folder/log.json" <<'CODE'
import json
import sys

from totem_lib import import_ocel

TYPES = ["published", "received", "answered"]


def edges(first):
    events = [
        {
            "id": f"event:{first + number}", "type": name, "time": f"2026-01-01T12:00:00.{number + 1}00000Z",
            "attributes": [], "relationships": [{"objectId": "message:1", "qualifier": "message"}],
        }
        for number, name in enumerate(TYPES)
    ]
    log = {
        "eventTypes": [{"name": name, "attributes": []} for name in TYPES],
        "objectTypes": [{"name": "message", "attributes": []}],
        "objects": [{"id": "message:1", "type": "message", "attributes": [], "relationships": []}],
        "events": events,
    }
    with open(sys.argv[1], "w") as file:
        json.dump(log, file)
    read = import_ocel(sys.argv[1])
    assert len(set(read.events["_timestampUnix"])) == 1
    names = {event["id"]: event["type"] for event in events}
    return [(names[before], names[after]) for before, after in read.eog.edges]


for first, expected in (
    (11, [("published", "received"), ("received", "answered")]),
    (8, [("answered", "published"), ("published", "received")]),
):
    seen = edges(first)
    print("ids from", first, *seen)
    assert seen == expected
CODE
