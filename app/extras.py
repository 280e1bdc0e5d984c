"""Packages of extras: without ``spark`` no jobs and no Parquet, without ``mcp`` no assistants."""

from __future__ import annotations

from importlib.util import find_spec

from app.errors import NotInstalledError

SPARK = (
    "pyspark",
    "pandas",
    "pyarrow",
    "adbc_driver_manager",
    "adbc_driver_postgresql",
    "adbc_driver_sqlite",
)


def missing_packages() -> list[str]:
    """Optional packages that are not installed; loads none of them."""
    return [name for name in SPARK if not _is_there(name)]


def check_spark(need: str = "jobs need") -> None:
    """Raise `NotInstalledError` unless all are there."""
    if names := missing_packages():
        raise NotInstalledError(
            f"{need} packages that are not installed here ({', '.join(names)})",
            "pip install 'rabbitmq-itc[spark]'",
        )


def check_mcp() -> None:
    """Raise `NotInstalledError` unless the package of the extra ``mcp`` is there."""
    if not _is_there("mcp"):
        raise NotInstalledError(
            "mcp needs a package that is not installed here (mcp)",
            "pip install 'rabbitmq-itc[mcp]'",
        )


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # somebody keeps it from being imported
        return False
