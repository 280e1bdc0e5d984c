#!/usr/bin/env bash
# CloudEvents' Python SDK binds booleans and bytes to RabbitMQ's headers in Python's own spelling.
#
# CloudEvents writes a boolean as true or false and bytes as base64 where a binding has texts alone.
# The SDK's RabbitMQ binding takes str() of them: `True`, and for bytes the literal with its b and
# quotes. Read back by the same SDK they are texts. Its AMQP 1.0 binding keeps booleans as they are.
#
# Seen: cloudevents 2.2.0, Python 3.11: ce-flag True, ce-raw b'\x01\x02', both read back as texts.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check cloudevents==2.2.0
"$folder/venv/bin/python" - <<'CODE'
from cloudevents.core.bindings import amqp, rabbitmq
from cloudevents.core.v1.event import CloudEvent

event = CloudEvent(
    {"id": "1", "source": "/shop", "type": "order", "specversion": "1.0", "flag": True, "raw": b"\x01\x02"}, {}
)
message = rabbitmq.to_binary_event(event)
print("ce-flag", message.headers["ce-flag"], "ce-raw", message.headers["ce-raw"])
assert message.headers["ce-flag"] == "True"
assert message.headers["ce-raw"] == "b'\\x01\\x02'"
attributes = rabbitmq.from_rabbitmq_event(message).get_attributes()
assert (attributes["flag"], attributes["raw"]) == ("True", "b'\\x01\\x02'")
assert amqp.to_binary_event(event).application_properties["cloudEvents_flag"] is True
CODE
