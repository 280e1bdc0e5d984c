"""Which conversations that have ended are done, by what messages carry: `python -m bench.endings`.

Of `tests.contract.endings`' applications, asked at rest and in the middle of runs; lies are those
that are called done and go on.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile

from app.store import Store, migrate
from model.words import Via
from tests.contract.endings import APPLICATIONS, MOMENTS, run, verdict


async def rows(beginnings: int) -> None:
    """Print a line for each application and bound."""
    for name, application in APPLICATIONS.items():
        for via in (Via.links, Via.conversation):
            with tempfile.TemporaryDirectory() as folder:
                await migrate(url := f"sqlite:///{folder}/itc.db")
                store = await Store.open(url)
                records = run(application.programs, beginnings, 3)
                told = [await verdict(store, f"{at}", records, at, via) for at in MOMENTS]
                await store.close()
            ended, lies = told[-1].ended, sum(len(each.lies) for each in told)
            decided = f"{told[-1].decided} of {ended} at rest"
            sys.stdout.write(f"| {name} | {via.name} | {decided} | {lies} lies |\n")


if __name__ == "__main__":
    asyncio.run(rows(int((sys.argv[1:] or ["24"])[0])))
