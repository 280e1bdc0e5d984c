"""Assertions of a trace, one by one."""

from __future__ import annotations

from app.store import Store


async def hold(store: Store, trace_id: int, name: str, text: str, set_by: str) -> None:
    """Have a trace have one more, or another in its namesake's place."""
    there = {each.name: each.text for each in await store.assertions.of_traces([trace_id])}
    await store.assertions.set(trace_id, there | {name: text}, set_by)
