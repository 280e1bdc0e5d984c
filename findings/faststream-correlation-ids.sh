#!/usr/bin/env bash
# FastStream hands a correlation id on where a decorator publishes, and not where the handler itself does.
#
# What a subscriber returns through `publisher` has the correlation id of the message at hand. What
# the same call publishes by `broker.publish` has a new random one, so that half of a conversation is
# lost to whoever follows it by that id. A message id that nobody gives is the correlation id.
#
# Seen: faststream 0.7.8, in its own memory broker, Python 3.11.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "faststream[rabbit]==0.7.8"
"$folder/venv/bin/python" - <<'CODE'
import asyncio

from faststream import Context
from faststream.rabbit import RabbitBroker, TestRabbitBroker

broker = RabbitBroker()
seen = {}


@broker.subscriber("orders")
@broker.publisher("invoices")
async def bill(order: str) -> str:
    await broker.publish(order, "stock")
    return order


@broker.subscriber("invoices")
async def file_invoice(order: str, message=Context("message")) -> None:
    seen["by the decorator"] = message.correlation_id, message.message_id


@broker.subscriber("stock")
async def pick(order: str, message=Context("message")) -> None:
    seen["by the handler"] = message.correlation_id, message.message_id


async def run() -> None:
    async with TestRabbitBroker(broker, connect_only=False):
        await broker.publish("shoes", "orders", correlation_id="order 7")


asyncio.run(run())
print(seen)
assert seen["by the decorator"] == ("order 7", "order 7")
assert len(set(seen["by the handler"])) == 1 and seen["by the handler"][0] != "order 7"
CODE
