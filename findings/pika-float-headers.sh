#!/usr/bin/env bash
# pika reads a header that is a float as a whole number: 1.5 arrives as 1, and 0.1 as 0.
#
# AMQP 0-9-1 as RabbitMQ speaks it has floats of 32 and of 64 bits. py-amqp (Celery, kombu) writes the
# latter, pamqp (aio-pika) the former. pika converts both to its integer type and says nothing.
#
# Seen: pika 1.4.4, amqp 5.4.2, pamqp 4.0.1, Python 3.11: 1.5 read as 1 from both writers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pika==1.4.4 amqp==5.4.2 pamqp==4.0.1
"$folder/venv/bin/python" - <<'CODE'
from amqp import serialization
from pamqp import encode
from pika import data

for price, whole in ((1.5, 1), (0.1, 0), (-2.75, -2)):
    for writer, table in (
        ("amqp", serialization.dumps("F", [{"price": price}])),
        ("pamqp", encode.field_table({"price": price})),
    ):
        value = data.decode_table(table, 0)[0]["price"]
        print(price, "by", writer, "is read as", int(value), type(value).__name__)
        assert value == whole != price
CODE
