#!/usr/bin/env bash
# pm4py writes OCEL 2.0 as JSON with times cut to whole seconds, and as XML and SQLite with all of them.
#
# It reads microseconds from JSON, too. So a log that is read, filtered and written back has a message
# published, received and answered at one moment, and whoever reads it next cannot tell causes from
# effects by time. No error, no remark; attributes that are times are cut as well.
#
# Seen: pm4py 2.7.23.11, Python 3.11: 12:00:00.123456 is 12:00:00 as JSON.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pm4py==2.7.23.11
cat >"$folder/log.json" <<'LOG'
{"objectTypes": [{"name": "message", "attributes": []}],
 "eventTypes": [{"name": "received", "attributes": [{"name": "settled", "type": "time"}]}],
 "objects": [{"id": "m1", "type": "message", "attributes": [], "relationships": []}],
 "events": [{"id": "e1", "type": "received", "time": "2026-01-01T12:00:00.123456Z",
   "attributes": [{"name": "settled", "value": "2026-01-01T12:00:00.654321Z"}],
   "relationships": [{"objectId": "m1", "qualifier": "message"}]}]}
LOG
"$folder/venv/bin/python" -W ignore - "$folder" <<'CODE'
import sys

import pm4py


def times(log):
    return [str(log.events[column].iloc[0]) for column in ("ocel:timestamp", "settled")]


read = pm4py.read_ocel2_json(f"{sys.argv[1]}/log.json")
print("read", *times(read))
assert [time[19:26] for time in times(read)] == [".123456", ".654321"]
for kind, fractions in (("xml", (".123456", ".654321")), ("sqlite", (".123456", ".654321")), ("json", ("+00:00",) * 2)):
    path = f"{sys.argv[1]}/again.{kind}"
    getattr(pm4py, f"write_ocel2_{kind}")(read, path)
    again = times(getattr(pm4py, f"read_ocel2_{kind}")(path))
    print("written as", kind, *again)
    assert tuple(time[19:26] for time in again) == fractions
    assert kind != "json" or '"2026-01-01T12:00:00Z"' in open(path).read()
CODE
