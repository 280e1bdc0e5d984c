"""Some faults that the record must survive, or own up to; ``python -m drills.faults`` does all."""

from __future__ import annotations

import pytest

from drills.faults.rows import FAULTS
from drills.faults.runner import Runner, chosen
from drills.faults.table import Fault, Store
from tools.servers import Broker, PostgresServer

# How many seconds the longer ones take; the others stand for them in every run.
LONG = {
    "doubts": 25,
    "full-slow": 20,
    "kills-postgres": 20,
    "ttl": 15,
    "clock-back": 20,
    "restored": 20,
    "purge-behind": 15,
}
SHORT = [
    pytest.param(fault, store, id=name, marks=pytest.mark.long(seconds) if seconds else ())
    for fault, store in chosen(FAULTS.values(), short=True)
    if (name := f"{fault.name}-{store}")
    and (seconds := LONG.get(name, LONG.get(fault.name, 0))) is not None
]


@pytest.mark.parametrize(("fault", "store"), SHORT)
async def test_nothing_is_lost_or_wrong_outside_gaps_and_nothing_is_doubled(
    fault: Fault, store: Store, rabbit: Broker, postgres: PostgresServer
) -> None:
    async with Runner(rabbit, postgres) as runner:
        result = await runner.row(fault, store)
    assert result.errors == 0, "\n".join([result.line(), *result.remarks])
    assert result.events > 500
