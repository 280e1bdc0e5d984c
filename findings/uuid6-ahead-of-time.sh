#!/usr/bin/env bash
# uuid6's ids of version 7 run ahead of the clock: each one is a millisecond later than the one before.
#
# To have its ids in order within a process, the library gives each a time that no other one has. Whoever
# makes 20,000 messages in a second has ids of the next 20 seconds, and all that it makes until then goes
# on from there. So a request has a later id than its answer from another program, and whoever sorts by
# id, or reads the time in it, has effects before causes. uuid-utils counts within the millisecond.
#
# Seen: uuid6 2025.0.1, uuid-utils 1.2.0, Python 3.11: ahead by 19.9 seconds after 20,000 ids.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check uuid6==2025.0.1 uuid-utils==1.2.0
"$folder/venv/bin/python" - <<'CODE'
import subprocess
import sys
import time
import uuid

import uuid6
import uuid_utils

COUNT = 20_000
ANSWER = "import uuid6; print(uuid6.uuid7())"


def milliseconds(name):
    return uuid.UUID(str(name)).int >> 80


for library in (uuid_utils, uuid6):
    names = [library.uuid7() for _ in range(COUNT)]
    lead = milliseconds(names[-1]) - time.time() * 1000
    print(library.__name__, "is ahead by", round(max(lead, 0)), "ms")
    assert names == sorted(names)
    assert lead > COUNT / 2 if library is uuid6 else lead < 1000

request = uuid6.uuid7()
answer = uuid.UUID(subprocess.check_output([sys.executable, "-c", ANSWER], text=True).strip())
print("request", request, "answer", answer)
assert answer.bytes < request.bytes
CODE
