"""What a file of touched events and its manifest are made of.

Whoever writes one and whoever checks it share only these names and the bytes that are signed: the
check is made again from the stamps, by code of its own (`app.cli.verifying`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

SIGNATURE = "signature"
ALGORITHM = "ed25519"

# A row's columns, by Arrow's names for their types; lines of JSON have the clock in base64.
BY = {"cause": "int64", "how": "string", "rule": "string", "kind": "string", "late": "bool"}
COLUMNS = {
    "id": "int64",
    "verdict": "string",
    "type": "string",
    "participant": "int64",
    "interval": "string",
    "seq": "int64",
    "height": "int64",
    "clock": "binary",
    "by": f"struct<{', '.join(f'{name}: {kind}' for name, kind in BY.items())}>",
}
# The fields of the place of the event that is asked about, and of a manifest.
PLACE = ("id", "participant", "interval", "seq", "height", "clock")
FIELDS = (
    *("event", "vhost", "as_of", "events", "caused", "may_have", "cannot_have", "unknown"),
    *("sentence", "starts", "complete", "gaps", "sound", "doubts", "quiet"),
    *("format", "file", "bytes", "sha256", "seconds", "versions"),
)

# What is said of the events that happened after none, where the record is not complete and sound.
UNKNOWN = "unknown"


def signed_bytes(manifest: Mapping[str, Any]) -> bytes:
    """What a manifest's signature is of: all of it but the signature, in one way of writing it."""
    signed = {name: value for name, value in manifest.items() if name != SIGNATURE}
    return json.dumps(signed, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
