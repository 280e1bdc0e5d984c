"""The daemon that forks Spark's Python workers on this machine: Spark's own, ready in less time.

Spark puts its packages on the path as a zip without compiled modules, and a jar, each of which
every process would read again. Here the interpreter is the driver's, which has the same packages
installed. What all tasks need is imported once, before the first fork, and shared by the workers.
"""

from __future__ import annotations

import gc
import os
import sys

# Few of the objects that a task makes are in cycles: looking for these took a third of its time.
YOUNG = 200_000


def without_archives(path: list[str], home: str) -> list[str]:
    """The path without what Spark adds from its ``home``: zips and jars."""
    archives = (".zip", ".jar")
    return [
        entry
        for entry in path
        if not (home and entry.startswith(home) and entry.endswith(archives))
    ]


def main() -> None:
    """Serve until Spark closes our stdin."""
    sys.path[:] = without_archives(sys.path, os.environ.get("SPARK_HOME", ""))
    # Forks must not find threads that hold locks. NumPy's would be the only one: that of Arrow's
    # allocator is ready for forks.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from pyspark import daemon, worker  # noqa: F401 - workers find it imported

    import spark_jobs.formats.renderer_job  # noqa: F401 - likewise, with Arrow and the database's drivers

    gc.freeze()
    gc.set_threshold(YOUNG)
    daemon.manager()


if __name__ == "__main__":
    main()
