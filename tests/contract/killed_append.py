"""Begins to store a batch, says so right before the commit, and never commits."""

from __future__ import annotations

import asyncio
import os
import sys

from app.store import Store
from app.store.capture import quarantine
from tests.contract.history import History


async def _hang(*_: object) -> None:
    print("before the commit", flush=True)
    await asyncio.Event().wait()


async def _main() -> None:
    store = await Store.open(os.environ["ITC_DATABASE_URL"])
    quarantine.add = _hang
    await store.batches.append(int(sys.argv[1]), History(seed=70).batch(25))


asyncio.run(_main())
