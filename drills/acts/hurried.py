"""The service as it is, but for how soon and how often it asks whether copies still wait.

    python -m drills.acts.hurried serve

The broker is to count every `COUNTED_MS`. Of quorum queues its numbers are up to 9 s old all the
same, so these are not asked for theirs.
"""

from __future__ import annotations

from app.cli import main
from app.traces import queuewatch

COUNTED_MS = 200
WAITED = 1_500_000  # µs

if __name__ == "__main__":
    queuewatch.LOOK_SECONDS, queuewatch.WAITED = 0.1, WAITED
    queuewatch.KEEPING = frozenset({"classic"})
    main()
