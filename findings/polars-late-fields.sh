#!/usr/bin/env bash
# Polars' read_ndjson drops a field of a nested object that is new after 100 lines, silently; one that
# is null in the first lines it refuses instead.
#
# So a file loses data or not by whether a writer spells absent fields as null. A new field at the top
# level is dropped in the same way. Both files are valid; infer_schema_length=None reads both whole.
#
# Seen: polars 2.1.0, Python 3.11: absent: dropped without an error; null first: SchemaError.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check polars==2.1.0
"$folder/venv/bin/python" - "$folder" <<'CODE'
import json, sys
import polars

def written(name, first):
    rows = [{"id": n, "headers": {"a": n}} for n in range(150)]
    rows[0]["headers"] |= first
    rows[-1]["headers"]["late"] = "x"
    path = f"{sys.argv[1]}/{name}.jsonl"
    with open(path, "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path

absent, null = written("absent", {}), written("null", {"late": None})
dropped = polars.read_ndjson(absent)["headers"].to_list()[-1]
print("absent in the first 100 lines:", dropped)
assert dropped == {"a": 149}
try:
    polars.read_ndjson(null)
except polars.exceptions.SchemaError as error:
    print("null in the first line:", type(error).__name__)
else:
    raise SystemExit("it was read")
for path in (absent, null):
    assert polars.read_ndjson(path, infer_schema_length=None)["headers"].to_list()[-1] == {
        "a": 149,
        "late": "x",
    }
CODE
