"""What a process is told of its traces, also by way of the one that died before it."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from app.stored.capture import Trace
from app.traces import processes
from app.traces.feed import Feed
from app.traces.life import Life
from app.traces.processes import Notice, TraceProcesses
from app.traces.status import Snapshot

TRACE = Trace(1, "shop", "channel", (), True, 0, None, None, 5, 5, 2, 0)

# Writes down what it is told. The first one dies when it is told to end a trace; the next one says
# that the trace has ended.
CHILD = """
import json, os, sys
told, notice = sys.argv[1:]
first = not os.path.exists(told)
sys.stdin.readline()
for line in sys.stdin:
    order = json.loads(line)["do"]
    with open(told, "a") as file:
        file.write(order + "\\n")
    if order == "end":
        if first:
            os._exit(1)
        print(notice, flush=True)
"""


async def test_a_trace_whose_process_dies_while_it_ends_is_ended_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "RESTART_SECONDS", 0.01)
    told = tmp_path / "told"
    over = msgspec.json.encode(Notice(TRACE.id, Snapshot(Life().standing), False)).decode()
    command = (sys.executable, "-c", CHILD, str(told), over)
    pool = TraceProcesses(1, b"{}", command)
    pool.start(Feed())
    remote = pool.run(TRACE)
    await remote.end(drain=True, deadline=30.0)
    assert not remote.is_alive
    assert told.read_text().split() == ["run", "end", "run", "end"]
    await pool.close()
