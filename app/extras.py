"""The packages of the extra ``spark``, without which the service does all but jobs and Parquet."""

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


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # somebody keeps it from being imported
        return False
