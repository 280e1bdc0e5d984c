"""Periods for other tools through the service, with its real Spark process."""

from __future__ import annotations

import json
from pathlib import Path

from app.jobs.process import SparkProcess
from app.tracker import Channel, Record
from tests.api.conftest import World, connected, make_world
from tests.api.story import deliver, publish
from tests.spark.test_asyncapi import faults as document_faults
from tests.spark.test_ocel import faults as log_faults

ALL = {"since": "2000-01-01", "until": "2100-01-01"}
SHOP, BILLING = (
    Channel("rabbit@one", f"10.0.1.{n}:1 -> 10.0.0.9:5672", 1, name)
    for n, name in enumerate(("shop", "billing"))
)


def orders() -> list[Record]:
    records: list[Record] = []
    for number in range(20):
        body = json.dumps({"order": f"order {number}"}).encode()
        records.append(publish(SHOP, "orders", "work", body=body))
        records.append(deliver(BILLING, "orders", "work", body))
    return records


async def test_a_period_is_written(tmp_path: Path) -> None:
    world: World = make_world(tmp_path)
    world.spark = SparkProcess(f"sqlite:///{tmp_path / 'itc.db'}", master="local[2]", memory="512m")
    async with connected(world.app(), auth=("admin", "secret"), timeout=300) as client:
        await world.tell(*orders())
        rule = {"kind": "conversation", "child": "$message.payload#/order"}
        await client.put("/itc_db/links/%2F/by-order", json=rule)

        await client.put("/itc_db/periods/%2F/a.ocel.json", params=ALL)
        log = (await client.get("/itc_db/periods/%2F/a.ocel.json")).json()
        await client.put("/itc_db/periods/%2F/a.asyncapi.json", params=ALL)
        api = (await client.get("/itc_db/periods/%2F/a.asyncapi.json")).json()
    assert log_faults(log) == document_faults(api) == []
    assert sum(each["type"].endswith("received") for each in log["events"]) >= 20
    messages = [each for each in api["components"]["messages"].values() if "payload" in each]
    assert "$message.payload#/order" in {
        each.get("correlationId", {}).get("location") for each in messages
    }
