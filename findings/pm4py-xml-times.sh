#!/usr/bin/env bash
# pm4py and r4pm do not read each other's times in OCEL 2.0 as XML, and pm4py with r4pm not its own.
#
# The standard's type of a time is `time`, which pm4py reads as a text. It writes `date`, of which r4pm
# makes nothing. With r4pm installed pm4py takes that for the same call: then the attributes that it has
# written itself a moment before are empty, and those of others are times. No error, no remark in any case.
#
# Seen: pm4py 2.7.23.11, r4pm 0.6.2, Python 3.11: time, text alone; none, time with r4pm.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pm4py==2.7.23.11
cat >"$folder/log.json" <<'LOG'
{"objectTypes": [{"name": "message", "attributes": []}],
 "eventTypes": [{"name": "received", "attributes": [{"name": "settled", "type": "time"}]}],
 "objects": [{"id": "m1", "type": "message", "attributes": [], "relationships": []}],
 "events": [{"id": "e1", "type": "received", "time": "2026-01-01T12:00:00Z",
   "attributes": [{"name": "settled", "value": "2026-01-01T12:00:01Z"}],
   "relationships": [{"objectId": "m1", "qualifier": "message"}]}]}
LOG
"$folder/venv/bin/python" -W ignore - "$folder" <<'CODE' | tail -n 1
import sys
from pathlib import Path

import pm4py

folder = Path(sys.argv[1])
pm4py.write_ocel2_xml(pm4py.read_ocel2_json(str(folder / "log.json")), str(folder / "own.xml"))
text = (folder / "own.xml").read_text()
assert text.count('name="settled" type="date"') == 1
(folder / "standard.xml").write_text(text.replace('type="date"', 'type="time"'))
CODE
kinds() {
    "$folder/venv/bin/python" -W ignore -c '
import sys, pm4py
for name in ("own", "standard"):
    value = pm4py.read_ocel2_xml(f"{sys.argv[1]}/{name}.xml").events["settled"].iloc[0]
    print(name, type(value).__name__, end=" ")' "$folder" | tail -n 1
}
alone=$(kinds)
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check r4pm==0.6.2 polars==2.1.0 pyarrow==26.0.1
beside=$(kinds)
echo "pm4py alone: $alone; with r4pm: $beside"
[ "$alone" = "own Timestamp standard str " ]
[ "$beside" = "own NoneType standard Timestamp " ]
