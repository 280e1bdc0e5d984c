#!/usr/bin/env bash
# aio-pika cannot use a queue or an exchange whose name has a parenthesis, an equals sign or an umlaut.
#
# RabbitMQ takes any 255 bytes for a name, and so do pika and py-amqp. pamqp, which encodes for aio-pika
# and aiormq, holds names to a pattern of its own, and exchanges to 127 characters: so a consumer in Python
# cannot read "orders (new)" or "Größe" that a service in another language declared, nor ask about it by a
# passive declaration, nor delete it. It is a ValueError of the client's; the broker is never asked.
#
# Seen: pamqp 4.0.1 (of aio-pika 10.2.1), pika 1.4.4, amqp 5.4.2, Python 3.11: "Invalid value for queue".
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
    aio-pika==10.2.1 pamqp==4.0.1 pika==1.4.4 amqp==5.4.2
"$folder/venv/bin/python" - <<'CODE'
import aio_pika  # noqa: F401  whose frames pamqp makes
import pika
from amqp.serialization import dumps, loads
from pamqp import commands


def refusal(method, **names):
    try:
        method(**names)
    except ValueError as error:
        return str(error)
    return None


LONG = "e" * 200
for name in ("orders (new)", "a=b", "Größe"):
    for method in (commands.Queue.Declare, commands.Basic.Consume, commands.Queue.Delete):
        assert refusal(method, queue=name) == "Invalid value for queue", (method, name)
    assert refusal(commands.Basic.Publish, exchange=name) == "Invalid value for exchange"
    by_pika = b"".join(pika.spec.Queue.Declare(queue=name, passive=True).encode())
    assert name.encode() in by_pika
    assert loads("s", dumps("s", [name]), 0)[0] == [name]
    print(name, "is no name for aio-pika, and one for pika and py-amqp")
assert refusal(commands.Basic.Publish, exchange=LONG) == "Max length exceeded for exchange"
assert LONG.encode() in b"".join(pika.spec.Exchange.Declare(exchange=LONG).encode())
assert refusal(commands.Basic.Publish, routing_key="orders (new)") is None
print("nor is an exchange's name of", len(LONG), "characters")
CODE
