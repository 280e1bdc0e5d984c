"""The audit log: one line of JSON for each request that somebody's rights decide.

A line is written when the answer begins, and one more where a stream ends because rights were taken
away. It has no query string, as that may hold what messages hold.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any

import msgspec

from app.errors import SettingsError
from model.times import iso_time, now

logger = logging.getLogger(__name__)

_encode = msgspec.json.Encoder().encode


class Decision(msgspec.Struct):
    """The decision about a request, in the making: whose it is, and why it is denied.

    ``user`` is as the broker calls it, None while it is not known; ``named`` is what the caller
    calls itself, or its token: the broker may call all of a client's users by the client's name.
    """

    user: str | None = None
    named: str | None = None
    vhost: str | None = None
    denied: str | None = None
    is_asked: bool = False  # somebody's rights were looked at


class AuditLine(msgspec.Struct):
    """One line: who asked for what, when, and what was decided."""

    time: str
    user: str | None
    named: str | None
    address: str
    method: str
    path: str
    vhost: str | None
    allowed: bool
    status: int
    reason: str | None


class AuditFile(WatchedFileHandler):
    """A file of lines, opened again once it was moved away; 0600 when it is made here."""

    def __init__(self, path: Path) -> None:
        """Open it; raises `SettingsError`."""
        try:
            path.touch(mode=0o600, exist_ok=True)
            super().__init__(path, encoding="utf-8")
        except OSError as error:
            raise SettingsError(f"ITC_AUDIT_LOG: {path}: {error.strerror}") from error

    def write(self, line: AuditLine) -> None:
        """Append a line; where that fails, the service's own log says so, with the line."""
        text = _encode(line).decode()
        self.handle(logging.LogRecord("audit", logging.INFO, "", 0, text, None, None))

    def handleError(self, record: logging.LogRecord) -> None:
        """Say what could not be written: a decision must not be lost without a word."""
        logger.error("the audit log cannot be written: %s", record.msg, exc_info=True)


def decision_of(scope: Mapping[str, Any]) -> Decision:
    """The decision about a request; nobody's where there is no audit log."""
    decision: Decision = scope.get("audit") or Decision()
    return decision


def line_of(decision: Decision, scope: Mapping[str, Any], path: str, status: int) -> AuditLine:
    client = scope.get("client")
    return AuditLine(
        iso_time(now()),
        decision.user,
        None if decision.named == decision.user else decision.named,
        client[0] if client else "",
        scope["method"],
        path,
        decision.vhost,
        decision.denied is None,
        status,
        decision.denied,
    )
