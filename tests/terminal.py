"""Programs that tests start as a person would in a terminal."""

from __future__ import annotations

import signal


def interruptible() -> None:
    """For ``preexec_fn``: what a shell starts in the background would ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
