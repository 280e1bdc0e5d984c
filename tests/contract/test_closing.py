"""A store that is closed leaves one whole file, as whoever copies it takes for granted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from app.store import Store, migrate


async def test_nobody_closes_beside_the_connection_that_is_closed_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'itc.db'}"
    await migrate(url)
    store = await Store.open(url)
    await store.traces.create("/", "channel")
    await asyncio.gather(store.ping(), store.size(), store.traces.find("/"))
    dispose, closing, beside = AsyncEngine.dispose, set[AsyncEngine](), list[int]()

    async def noted(engine: AsyncEngine) -> None:
        closing.add(engine)
        await asyncio.sleep(0)  # whoever else closes now has begun
        beside.append(len(closing))
        await dispose(engine)
        closing.remove(engine)

    monkeypatch.setattr(AsyncEngine, "dispose", noted)
    await store.close()
    assert len(beside) > 1
    assert beside[-1] == 1
    assert [each.name for each in await asyncio.to_thread(lambda: [*tmp_path.iterdir()])] == [
        "itc.db"
    ]
