"""The version of this program."""

from __future__ import annotations

from importlib import metadata

PACKAGE = "rabbitmq-itc"


def program_version() -> str:
    """The installed package's version; ``unknown`` in a checkout that was never installed."""
    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        return "unknown"
