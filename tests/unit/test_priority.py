"""The service lets others go first, with all of its children, unless it was told otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.priority import NICENESS

GROUP = Path("/proc/self/autogroup")
SCRIPT = """
import os, sys, uvloop
from pathlib import Path
from app.children import Child
from app.priority import let_others_go_first

GROUP = Path("/proc/self/autogroup")

def own():
    group = GROUP.read_text().split()[-1] if GROUP.exists() else ""
    return f"{os.getpriority(os.PRIO_PROCESS, 0)} {group}"

async def main():
    let_others_go_first()
    child = await Child.start((sys.executable, "-c", CHILD), str, line_bytes=1000)
    await child.send("go")
    print(own(), "-", await child.read())
    await child.kill()

CHILD = '''
import json, os, sys
from pathlib import Path
sys.stdin.readline()
group = Path("/proc/self/autogroup")
its = group.read_text().split()[-1] if group.exists() else ""
print(json.dumps(f"{os.getpriority(os.PRIO_PROCESS, 0)} {its}"), flush=True)
'''
uvloop.run(main())
"""


@pytest.mark.skipif(os.getpriority(os.PRIO_PROCESS, 0) > 0, reason="the tests run with less")
@pytest.mark.parametrize(("started", "runs"), [(0, NICENESS), (3, 3)])
def test_it_lags_rather_than_slow_others(started: int, runs: int) -> None:
    """As a process of its own session, the way systemd and containers start it."""
    said = subprocess.run(
        ["nice", "-n", str(started), sys.executable, "-c", SCRIPT],
        start_new_session=True,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    group = str(runs) if GROUP.exists() else ""
    assert said.strip() == f"{runs} {group} - {runs} {group}".strip()


@pytest.mark.skipif(not GROUP.exists(), reason="this kernel weighs no sessions")
def test_it_changes_nothing_of_a_session_that_is_not_its_own() -> None:
    code = "from app.priority import let_others_go_first as let; let()"
    before = GROUP.read_text()
    subprocess.run([sys.executable, "-c", code], check=True)
    assert GROUP.read_text() == before
