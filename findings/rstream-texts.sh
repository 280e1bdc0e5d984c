#!/usr/bin/env bash
# rstream reads the texts of a message as bytes, and sends them back as another type.
#
# AMQP 1.0 tells texts from bytes, also in ids. rstream, RabbitMQ's client for streams in Python, writes
# a text id as a text and reads it as bytes, so that "order-7" is not among the requests that a program
# waits for. A worker that answers with the message id of the request as correlation id sends bytes, and
# so it is with texts in application properties: a client that keeps the types does not know them again.
#
# Seen: rstream 1.1.1, Python 3.11: "order-7" is read as b"order-7", and sent on as binary.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check rstream==1.1.1
"$folder/venv/bin/python" - <<'CODE'
from rstream import AMQPMessage, Properties, amqp_decoder

TEXT, BINARY = b"\xa1", b"\xa0"  # the types of AMQP 1.0 whose length is one byte

request = bytes(
    AMQPMessage(body=b"?", properties=Properties(message_id="order-7"), application_properties={"customer": "Ann"})
)
assert TEXT + b"\x07order-7" in request and TEXT + b"\x03Ann" in request

asked = amqp_decoder(request)
print("read as", asked.properties.message_id, asked.application_properties)
assert asked.properties.message_id == b"order-7" != "order-7"
assert asked.application_properties == {b"customer": b"Ann"}

answer = bytes(
    AMQPMessage(
        body=b"!",
        properties=Properties(correlation_id=asked.properties.message_id),
        application_properties=asked.application_properties,
    )
)
print("answered by", answer)
assert BINARY + b"\x07order-7" in answer and BINARY + b"\x03Ann" in answer
CODE
