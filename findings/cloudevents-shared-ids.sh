#!/usr/bin/env bash
# CloudEvents' Python SDK gives two events that are made from one dictionary the same id.
#
# An id that nobody gives is a new one, and so is the time; both are written into the dictionary that
# was handed over, where the next event finds them. Source and id say which event it is, so whoever
# drops duplicates drops all but the first. The SDK's former class, still in `cloudevents.v1`, copies.
# In the same way an event without a time, which is optional, has the time at which it was read.
#
# Seen: cloudevents 2.2.0, Python 3.11: one id of two events, and two times of one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check cloudevents==2.2.0
"$folder/venv/bin/python" - <<'CODE'
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from cloudevents.v1.http import CloudEvent as FormerCloudEvent

template = {"source": "/shop", "type": "order.new"}
first, second = (CloudEvent(template, {"order": order}) for order in (7, 8))
print("order", first.get_data()["order"], first.get_id(), "order", second.get_data()["order"], second.get_id())
assert (first.get_id(), first.get_time()) == (second.get_id(), second.get_time())
assert sorted(template) == ["id", "source", "specversion", "time", "type"]

template = {"source": "/shop", "type": "order.new"}
assert FormerCloudEvent(template, {})["id"] != FormerCloudEvent(template, {})["id"]

text = b'{"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.new"}'
times = [JSONFormat().read(CloudEvent, text).get_time() for _ in range(2)]
print("read", *times)
assert None not in times and times[0] < times[1]
CODE
