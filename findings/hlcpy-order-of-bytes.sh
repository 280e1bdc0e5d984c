#!/usr/bin/env bash
# hlcpy's hybrid logical clock has another order once it was sent: what was before comes after.
#
# Two stamps are compared by nanoseconds and then by a counter, which begins anew with each nanosecond
# that is later. The 8 bytes that are sent hold milliseconds, rounded up, and the counter, so of two
# stamps within one millisecond the counter decides, which says nothing there. Texts keep the order.
#
# Seen: hlcpy 0.0.2, Python 3.11: a < b in memory, and b < a after to_bytes and from_bytes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check hlcpy==0.0.2
"$folder/venv/bin/python" - <<'CODE'
from hlcpy import HLC

before = HLC(nanos=1_764_000_000_000_100_000, logical=3)
after = HLC(nanos=1_764_000_000_000_900_000, logical=0)
assert before < after
sent = [HLC.from_bytes(stamp.to_bytes()) for stamp in (before, after)]
print(before, "<", after, "and sent", *sent)
assert sent[1] < sent[0]
read = [HLC.from_str(str(stamp)) for stamp in (before, after)]
assert read[0] < read[1]
CODE
