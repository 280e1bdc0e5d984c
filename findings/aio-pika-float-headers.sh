#!/usr/bin/env bash
# aio-pika sends a float in a header with 32 bits: 0.1 arrives as 0.10000000149011612.
#
# Python's float has 64 bits, and the protocol has a type for those too. pamqp, which encodes for
# aio-pika, takes the one of 32 bits and says nothing; a sum of money or a time in seconds is another
# number at the other end. py-amqp, for Celery and kombu, keeps all 64.
#
# Seen: pamqp 4.0.1 (of aio-pika 10.2.1), amqp 5.4.2, Python 3.11: 1795874645.25 arrives as 1795874688.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check aio-pika==10.2.1 pamqp==4.0.1 amqp==5.4.2
"$folder/venv/bin/python" - <<'CODE'
from aio_pika import Message
from amqp import serialization
from pamqp import decode, encode

for value, other in ((0.1, 0.10000000149011612), (1795874645.25, 1795874688.0)):
    properties = Message(b"", headers={"at": value}).properties
    arrived = decode.field_table(encode.field_table(properties.headers))[1]["at"]
    kept = serialization.loads("F", serialization.dumps("F", [{"at": value}]), 0)[0][0]["at"]
    print(value, "by aio-pika arrives as", arrived, "and by amqp as", kept)
    assert arrived == other and kept == value
CODE
