"""The versions of what wrote an export."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import pyarrow as pa
import pyspark


def versions() -> dict[str, str]:
    try:
        own_version = version("rabbitmq-itc")
    except PackageNotFoundError:  # run from a folder, as on a cluster's driver
        own_version = "unknown"
    return {
        "rabbitmq-itc": own_version,
        "python": platform.python_version(),
        "pyspark": pyspark.__version__,
        "pyarrow": pa.__version__,
    }
