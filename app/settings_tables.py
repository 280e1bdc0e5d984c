"""The settings as Markdown, for ``docs/settings.md``: by subject, and what matters first on top."""

from __future__ import annotations

from collections.abc import Iterator

from app.secret_url import SecretUrl
from app.settings import PREFIX, Settings

# What nearly every installation sets.
FIRST = ("amqp_url", "management_url", "database_url", "host", "retention_days")
# The others stay in the order in which they are declared: each subject by the field it begins with.
SUBJECTS = {
    "heartbeat_seconds": "The broker",
    "data_dir": "Where things are kept",
    "port": "The service",
    "payload_max_bytes": "Capture",
    "trace_queue": "The trace queue",
    "mark_seconds": "Losses",
    "client_seconds": "Participants",
    "pending_copies": "Matching",
    "links": "Links",
    "otlp": "OpenTelemetry",
    "webhook_url": "Assertions",
    "retention_events": "Retention",
    "spark_master": "Spark and jobs",
    "exports_max_bytes": "Exports",
    "page_size": "Lists and searches",
    "tail_max_bytes": "Following live",
    "request_max_bytes": "Requests and connections",
    "auth_cache_seconds": "Sign-in",
}


def settings_tables() -> str:
    """A table for each subject, under its heading."""
    subjects: dict[str, list[str]] = {"The five that matter first": [*FIRST]}
    subject = ""
    for name in Settings.model_fields:
        if name in FIRST:
            continue
        subject = SUBJECTS.get(name, subject)
        subjects.setdefault(subject, []).append(name)
    return "\n".join("\n".join((*_lines(*one), "")) for one in subjects.items())


def _lines(heading: str, names: list[str]) -> Iterator[str]:
    yield from (f"## {heading}", "", "| variable | default | meaning |", "|---|---|---|")
    for name in names:
        meaning = Settings.model_fields[name].description
        yield f"| `{PREFIX}{name.upper()}` | {_shown_default(name)} | {meaning} |"


def _shown_default(name: str) -> str:
    if name == "data_dir":
        return "`~/.local/share/rabbitmq-itc`"
    value = Settings.model_fields[name].default
    if value is None or value == ():
        return "unset"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{','.join(value)}`"
    return f"`{value.reveal() if isinstance(value, SecretUrl) else value}`"
