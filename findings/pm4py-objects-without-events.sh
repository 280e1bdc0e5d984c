#!/usr/bin/env bash
# pm4py drops each object of an OCEL 2.0 log that no event is related to, and what others say of it.
#
# The standard has objects with relations to objects alone. Such a one is the key of a conversation which
# no message carries itself, or a message whose publish was before the log. Read from a file by pm4py alone
# it is gone with the relations to it, from JSON, XML and SQLite alike; with r4pm installed the same call
# keeps it, and a write drops it from the file and from the log in memory. No error, no remark.
#
# Seen: pm4py 2.7.23.11, Python 3.11: read alone, 1 object; with r4pm 0.6.2, 2 objects, and 1 written.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pm4py==2.7.23.11
cat >"$folder/log.json" <<'LOG'
{"objectTypes": [{"name": "conversation", "attributes": []}, {"name": "key", "attributes": []}],
 "eventTypes": [{"name": "received", "attributes": []}],
 "objects": [{"id": "c1", "type": "conversation", "attributes": [],
   "relationships": [{"objectId": "order 7", "qualifier": "known by"}]},
  {"id": "order 7", "type": "key", "attributes": [], "relationships": []}],
 "events": [{"id": "e1", "type": "received", "time": "2026-01-01T12:00:00Z", "attributes": [],
   "relationships": [{"objectId": "c1", "qualifier": "conversation"}]}]}
LOG
count() {
    "$folder/venv/bin/python" -W ignore -c '
import json, sys, pm4py
log = pm4py.read_ocel2_json(f"{sys.argv[1]}/log.json")
print(len(log.objects), len(log.o2o), end=" and ")
pm4py.write_ocel2_json(log, f"{sys.argv[1]}/again.json")
with open(f"{sys.argv[1]}/again.json") as file:
    objects = json.load(file)["objects"]
print(len(objects), sum(len(each.get("relationships", [])) for each in objects), end=" and ")
print(len(log.objects), len(log.o2o))' "$folder" | tail -n 1
}
alone=$(count)
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check r4pm==0.6.2 polars==2.1.0 pyarrow==26.0.1
beside=$(count)
echo "objects and relations, read, written and left: alone $alone; with r4pm $beside"
[ "$alone" = "1 0 and 1 0 and 1 0" ]
[ "$beside" = "2 1 and 1 0 and 1 0" ]
