"""The service as it is, but for how soon and how often it asks whether copies still wait.

    python -m drills.acts.hurried serve

The broker's numbers are up to 5 s old, those of quorum queues up to 10 s, whatever it is told.
"""

from __future__ import annotations

from app.cli import main
from app.traces.losses import queuewatch
from app.traces.runs import run

WAITED = 12_000_000  # µs

if __name__ == "__main__":
    run.QUEUE_SECONDS, queuewatch.WAIT = 0.1, WAITED
    main()
