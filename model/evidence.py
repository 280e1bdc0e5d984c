"""Parts of a file of touched events and of its manifest.

Writer and checker share only these names and the bytes that are signed: the checker
(`app.cli.verifying`) works from the stamps, by code of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from model.described import members
from model.sound import Certainty

SIGNATURE = "signature"
ALGORITHM = "ed25519"

# A row's columns, by Arrow's names for their types; lines of JSON have the clock in base64.
CAUSE_COLUMNS = {
    "cause": "int64",
    "how": "string",
    "rule": "string",
    "kind": "string",
    "late": "bool",
}
COLUMNS = {
    "id": "int64",
    "verdict": "string",
    "type": "string",
    "participant": "int64",
    "interval": "string",
    "seq": "int64",
    "height": "int64",
    "clock": "binary",
    "doubtful": "bool",
    "candidates": "int64",  # of how many equal messages it may be a delivery, null if it is certain
    "by": f"struct<{', '.join(f'{name}: {kind}' for name, kind in CAUSE_COLUMNS.items())}>",
}


@dataclass(frozen=True, slots=True)
class Start:
    """The event whose future it is: its place and its stamp."""

    id: int
    participant: int
    interval: str
    seq: int
    height: int
    clock: Annotated[str, "Its packed clock, base64."]


@dataclass(frozen=True, kw_only=True)
class TouchedSummary(Certainty):
    """The answer of a job that wrote what an event touched; the manifest has the same."""

    event: int
    vhost: str
    as_of: int
    events: Annotated[int, "How many events came since."]
    caused: int
    may_have: int
    cannot_have: int
    unknown: Annotated[
        int,
        "Those that happened after none, where it is not complete or not sound, or after a delivery"
        " whose publish was not seen.",
    ]
    sentence: str
    starts: list[Start]
    format: str
    file: str
    bytes: int
    sha256: str
    seconds: dict[str, float]
    versions: dict[str, str]


@dataclass(frozen=True, slots=True)
class Signature:
    """The signature that vouches for a manifest, where the service has a key."""

    algorithm: str
    key: Annotated[str, "The public key, base64."]
    value: Annotated[str, "The signature of the rest of the manifest, base64."]


@dataclass(frozen=True, slots=True)
class Signed:
    """The signature of a manifest."""

    signature: Signature


# Fields of the start's place, and of a manifest.
PLACE = tuple(member.name for member in members(Start))
FIELDS = tuple(member.name for member in members(TouchedSummary))


def signed_bytes(manifest: Mapping[str, Any]) -> bytes:
    """The bytes that are signed: a manifest without its signature, in canonical JSON."""
    signed = {name: value for name, value in manifest.items() if name != SIGNATURE}
    return json.dumps(signed, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
