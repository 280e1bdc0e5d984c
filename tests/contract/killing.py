"""A restamp in a process of its own, killed at a moment."""

from __future__ import annotations

import asyncio
import os
import sys


async def kill_restamp(database_url: str, trace_id: int, moment: str, *more: str) -> None:
    """Kill `tests.contract.killed_restamp` as soon as it says that the moment has come."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.contract.killed_restamp",
        str(trace_id),
        moment,
        *more,
        env={**os.environ, "ITC_DATABASE_URL": database_url},
        stdout=asyncio.subprocess.PIPE,
    )
    assert child.stdout is not None
    try:
        assert await child.stdout.readline() == moment.encode() + b"\n"
    finally:
        child.kill()
        await child.wait()
