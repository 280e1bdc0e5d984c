"""Redacts what arrives, before anything else sees it.

What comes again after a crash was perhaps stored by other rules: until `Resume` has decided, each
message is recognised by those, too. Then only the redacted record is left of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from app.tracker import Settlement

if TYPE_CHECKING:
    from app.broker.consumer import TraceStream
    from app.broker.deliveries import Arrival
    from app.traces.recorder import Recorder
    from app.traces.runs.resume import Resume

# The event loop is kept for this long, and one message more.
MOST_SECONDS = 0.005


async def redact(
    messages: Sequence[Arrival],
    recorder: Recorder,
    stream: TraceStream,
    resume: Resume[list[Arrival]],
) -> None:
    """Redact messages in place; those about the service itself stay as they are."""
    redactor, deadline = recorder.redactor, time.perf_counter() + MOST_SECONDS
    if redactor is None or (resume.settled and not redactor.rules):
        return
    stored: Collection[bytes] | None = None
    if not resume.settled:
        stored = {*recorder.window.digests(), *recorder.window.history()}
    for arrival in messages:
        message = arrival.message
        if isinstance(message, Settlement):
            continue
        about = stream.about(message)
        if not (about.is_own or about.sentinel):
            if stored is not None and not arrival.digest:
                arrival.digest = redactor.recognise(message, stored)
            arrival.message = redactor.redact(message)
            arrival.body = arrival.message.body
        if time.perf_counter() > deadline:
            await asyncio.sleep(0)
            deadline = time.perf_counter() + MOST_SECONDS
