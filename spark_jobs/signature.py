"""Signing manifests with the service's Ed25519 key."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model.described import json_of
from model.evidence import ALGORITHM, Signature, Signed, signed_bytes
from model.jobs import Problem
from spark_jobs.errors import JobError


def sign(manifest: Mapping[str, Any], key_file: Path | None) -> dict[str, Any]:
    """The manifest with its signature; as it is without a key.

    ``key_file`` holds an Ed25519 private key as PEM. Raises `JobError` if it does not.
    """
    if key_file is None:
        return {**manifest}
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(key_file.read_bytes(), password=None)
    except OSError as error:
        raise JobError(
            Problem.outage, f"ITC_SIGNING_KEY_FILE cannot be read: {error.strerror}."
        ) from None
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise JobError(
            Problem.failed, "ITC_SIGNING_KEY_FILE holds no Ed25519 private key without a password."
        )
    signature = Signature(
        algorithm=ALGORITHM,
        key=base64.b64encode(key.public_key().public_bytes_raw()).decode(),
        value=base64.b64encode(key.sign(signed_bytes(manifest))).decode(),
    )
    return {**manifest, **json_of(Signed(signature))}
