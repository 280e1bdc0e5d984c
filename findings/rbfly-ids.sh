#!/usr/bin/env bash
# RbFly, a client for RabbitMQ's streams, reads all of a message and sends its body and application properties.
#
# A message that is read has ids, an address for replies and annotations, and may be handed to a publisher
# as it is: these are gone then, and no error says so. The properties cannot be set, either, so no program
# that publishes by RbFly can say which request it answers but in an application property of its own, and
# whoever copies a stream to another one cuts every conversation off.
#
# Seen: rbfly 0.10.0, read back by python-qpid-proton 0.40.0, Python 3.11: no ids.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check rbfly==0.10.0 python-qpid-proton==0.40.0
"$folder/venv/bin/python" - <<'CODE'
from proton import Message, symbol
from rbfly.amqp import decode_amqp, encode_amqp

order = Message(
    body="7",
    id="order 7",
    correlation_id="cart 3",
    reply_to="answers",
    annotations={symbol("x-opt-shop"): "north"},
    properties={"customer": "Ann"},
)
message = decode_amqp(bytes(order.encode()))
properties = message.properties
print("read:", properties.message_id, properties.correlation_id, properties.reply_to, message.annotations)
assert (properties.message_id, properties.correlation_id, properties.reply_to) == ("order 7", "cart 3", "answers")
assert [*message.annotations.values()] == ["north"]
try:
    properties.correlation_id = "cart 4"
except AttributeError as error:
    print("set:", error)
else:
    raise SystemExit("the id was set")

frame = bytearray(1024)
size = encode_amqp(frame, message)
copy = Message()
copy.decode(bytes(frame[:size]))
print("sent on:", copy.id, copy.correlation_id, copy.reply_to, copy.annotations, copy.properties, copy.body)
assert (copy.id, copy.correlation_id, copy.reply_to, copy.annotations) == (None, None, None, None)
assert (copy.body, copy.properties) == ("7", {"customer": "Ann"})
CODE
