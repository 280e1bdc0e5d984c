#!/usr/bin/env bash
# AMQPStorm gives each message a correlation id of its own, so that it correlates nothing.
#
# A message that is made without `correlation_id` has a random one, beside a random message id and the
# time. A worker that answers with a new message therefore breaks a conversation off without having
# named any id, and whoever groups messages by correlation id has as many groups as messages.
#
# Seen: AMQPStorm 3.1.4, Python 3.11: two messages from the same properties, two correlation ids.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check amqpstorm==3.1.4
"$folder/venv/bin/python" - <<'CODE'
from amqpstorm import Message

properties = {"reply_to": "answers"}
first, second = (Message.create(None, "order 7", properties).properties for _ in range(2))
print(first, second, sep="\n")
assert sorted(first) == ["correlation_id", "message_id", "reply_to", "timestamp"]
assert first["correlation_id"] != second["correlation_id"] != second["message_id"]
assert properties == {"reply_to": "answers"}
CODE
