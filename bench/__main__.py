"""Every benchmark in turn, with the machine it ran on: ``python -m bench`` (``make bench``).

Each is a module with its own ``main`` and runs in its own process; what its figures mean is said
there. ``--quick`` takes fewer rounds and smaller stores: to see that all of it works.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile

FULL: tuple[tuple[str, ...], ...] = (
    ("bench.clock",),
    ("bench.growth",),
    ("bench.scale", "{folder}"),
    ("bench.ingest",),
    ("bench.steady",),
    ("bench.steps",),
    ("bench.overhead",),
    ("bench.partial",),
    ("bench.chain", "{folder}"),
    ("bench.spark", "{folder}"),
    ("bench.expectations", "{folder}"),
)
QUICK: tuple[tuple[str, ...], ...] = (
    ("bench.growth", "20000"),
    ("bench.scale", "{folder}", "--sizes", "20000", "40000"),
    ("bench.ingest", "20000", "1"),
    ("bench.steady", "250"),
)


def main() -> int:
    """Run them; returns how many failed."""
    sys.stdout.write(
        f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores\n"
    )
    failed = 0
    for module, *arguments in QUICK if "--quick" in sys.argv[1:] else FULL:
        sys.stdout.write(f"\n## {module}\n\n")
        sys.stdout.flush()
        with tempfile.TemporaryDirectory(prefix="rabbitmq-itc-bench-") as folder:
            command = [argument.format(folder=folder) for argument in arguments]
            failed += subprocess.run([sys.executable, "-m", module, *command]).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
