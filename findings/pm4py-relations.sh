#!/usr/bin/env bash
# pm4py reads a valid OCEL 2.0 log otherwise with and without another package beside it.
#
# An event may have two relations to one object (who received a message, and also gave it back). The
# standard has relations as pairs with a qualifier, so both are valid. pm4py alone keeps the last of
# them, without a word; with r4pm installed pm4py uses that for the same call and keeps both.
#
# Seen: pm4py 2.7.23.11, Python 3.11: ['returned by'] alone, ['receiver', 'returned by'] with r4pm 0.6.2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pm4py==2.7.23.11
cat >"$folder/log.json" <<'LOG'
{"objectTypes": [{"name": "participant", "attributes": []}],
 "eventTypes": [{"name": "received", "attributes": []}],
 "objects": [{"id": "billing", "type": "participant", "attributes": [], "relationships": []}],
 "events": [{"id": "e1", "type": "received", "time": "2026-01-01T12:00:00Z", "attributes": [],
   "relationships": [{"objectId": "billing", "qualifier": "receiver"},
                     {"objectId": "billing", "qualifier": "returned by"}]}]}
LOG
qualifiers() {
    "$folder/venv/bin/python" -W ignore -c '
import sys, pm4py
print(sorted(pm4py.read_ocel2_json(sys.argv[1]).relations["ocel:qualifier"]))' "$folder/log.json" | tail -n 1
}
alone=$(qualifiers)
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check r4pm==0.6.2 polars==2.1.0 pyarrow==26.0.1
beside=$(qualifiers)
echo "pm4py alone: $alone; with r4pm: $beside"
[ "$alone" = "['returned by']" ]
[ "$beside" = "['receiver', 'returned by']" ]
