"""Who is behind a connection is known before its messages are stamped, and ends after them."""

from __future__ import annotations

from app.traces.runs.acquaintance import OVERLAP, SKEW
from tests.unit.test_acquaintance import SECOND, World
from tests.unit.test_participants import channel


async def test_connections_for_a_message_each_are_few_participants() -> None:
    world = World()
    seen: set[int] = set()
    for port in range(5000, 5500):
        where = channel(f"127.0.0.1:{port}")
        world.open(where, None)
        seen |= set(await world.act(where))
        world.close(where)
    assert len(seen) <= 2 * SKEW // SECOND + 4
    assert OVERLAP > SKEW
