"""Restamps a trace by user, says when a moment has come, and goes no further.

With a third argument it reads the messages again, too.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

from app.restamp import replay
from app.store import Store, restamps
from app.stored.capture import ParticipantSettings
from app.traces.pipeline import PipelineSettings
from app.tracker import Policy
from model.jobs import Progress
from tests.contract.naming import BOTH

MOMENT = sys.argv[2]


def _look(progress: Progress) -> None:
    if progress.stage == MOMENT and progress.percent > 20:
        print(MOMENT, flush=True)
        time.sleep(600)


async def _hang(*_: object) -> None:
    print(MOMENT, flush=True)
    await asyncio.Event().wait()


async def _main() -> None:
    replay.CHUNK = replay.CHUNK_WITH_MESSAGES = 7
    store = await Store.open(os.environ["ITC_DATABASE_URL"])
    if MOMENT == "before the commit":
        restamps.note_first_events = _hang
    rules = ParticipantSettings(Policy.user, ("queue:audit",), BOTH if sys.argv[3:] else None)
    work = replay.Replay(
        store.restamps, int(sys.argv[1]), rules, _look, PipelineSettings(link_rules=())
    )
    await work.catch_up()
    await work.finish()
    await _hang()


asyncio.run(_main())
