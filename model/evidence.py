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

# What is said of the events that happened after none, where the record is not complete and sound.
UNKNOWN = "unknown"


def signed_bytes(manifest: Mapping[str, Any]) -> bytes:
    """What a manifest's signature is of: all of it but the signature, in one way of writing it."""
    signed = {name: value for name, value in manifest.items() if name != SIGNATURE}
    return json.dumps(signed, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
