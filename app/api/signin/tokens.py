"""Read permissions of tokens that the broker's OAuth 2 plugin accepts.

The broker has checked the token, and said who brings it: here its claims are read, not judged.
Scopes are ``RESOURCE.read:VHOST/NAME``, with ``*`` for any characters in percent-encoded patterns.
Which resource the broker goes by is what it tells, or the only one that the token is for; and the
broker must have found the same tags by it. Anything else, such as aliases of scopes, lets nothing
be read.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Collection, Iterable
from typing import Any
from urllib.parse import unquote

import msgspec

from app.api.signin.permissions import ReadRights, pattern_of

LONGEST_SUBJECT = 255
_EVERYTHING = ".*"


def token_rights(
    token: bytes,
    tags: Collection[str],
    vhosts: Iterable[str],
    resources: Collection[str] | None = None,
) -> ReadRights:
    """The read permissions in a token that the broker accepts.

    ``tags`` and ``vhosts`` are the broker's word about who brings it, ``resources`` its own names,
    None where it does not tell them.
    """
    claims = _claims(token)
    audience = claims.get("aud")
    names = [audience] if isinstance(audience, str) else audience
    names = names if isinstance(names, list) else []
    names = [name for name in names if isinstance(name, str)]
    if resources is not None:
        names = [name for name in names if name in resources]
    scopes = claims.get("scope")
    scopes = scopes.split() if isinstance(scopes, str) else scopes
    if len(names) != 1 or not isinstance(scopes, list):
        return ReadRights(unknown="it is not known which of the token's scopes the broker goes by")
    prefix = f"{names[0]}."
    ours = [
        scope[len(prefix) :]
        for scope in scopes
        if isinstance(scope, str) and scope.startswith(prefix)
    ]
    if {scope[4:] for scope in ours if scope.startswith("tag:")} != set(tags):
        return ReadRights(unknown="the broker reads the token's scopes otherwise than this service")
    return ReadRights(frozenset(_patterns(ours, vhosts)))


def token_subject(token: bytes) -> str | None:
    """The name of whoever a token says that it is about, which only the broker can check."""
    subject = _claims(token).get("sub")
    return subject[:LONGEST_SUBJECT] if isinstance(subject, str) else None


def _claims(token: bytes) -> dict[str, Any]:
    parts = token.split(b".")
    try:
        body = urlsafe_b64decode(parts[1] + b"=" * (-len(parts[1]) % 4))
        claims = msgspec.json.decode(body)
    except (IndexError, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _patterns(scopes: Iterable[str], vhosts: Iterable[str]) -> Iterable[tuple[str, str]]:
    readable: dict[str, list[str]] = {}
    for scope in scopes:
        permission, _, path = scope.partition(":")
        parts = path.split("/")
        if permission == "read" and len(parts) in (2, 3):
            vhost_pattern, name_pattern = (_expression(unquote(part)) for part in parts[:2])
            is_meant = pattern_of(f"^(?:{vhost_pattern})$").reads
            for vhost in filter(is_meant, vhosts):
                readable.setdefault(vhost, []).append(name_pattern)
    for vhost, patterns in readable.items():
        if _EVERYTHING in patterns:
            yield vhost, _EVERYTHING
        else:
            yield vhost, f"^(?:{'|'.join(patterns)})$"


def _expression(pattern: str) -> str:
    """A pattern with `*` as a regular expression; several of them in a row are one."""
    return ".*".join(map(re.escape, re.split(r"\*+", pattern)))
