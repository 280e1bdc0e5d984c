#!/usr/bin/env bash
# OpenTelemetry for pika puts what a program sends while it waits into the trace of the last message.
#
# `channel.consume` hands messages out one by one. The instrumentation makes a message's trace the current
# one when it is taken, and leaves it when the next one is, so what a loop does when nothing came, as a
# report each minute, and all that the program does after the loop, goes on in that trace: a cause that
# was none, for days if nothing comes. The message's baggage, though, is not there at all; a callback given
# to `basic_consume` has it, and its trace ends with it.
#
# Seen: opentelemetry-instrumentation-pika 0.66b1, opentelemetry-sdk 1.45.1, pika 1.4.4, Python 3.11.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
    opentelemetry-instrumentation-pika==0.66b1 opentelemetry-sdk==1.45.1 pika==1.4.4
"$folder/venv/bin/python" - <<'CODE'
from contextvars import Context
from unittest.mock import MagicMock

from opentelemetry import baggage
from opentelemetry.instrumentation.pika import PikaInstrumentor, utils
from opentelemetry.sdk.trace import TracerProvider
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel, _ConsumerDeliveryEvt
from pika.spec import Basic

TRACE = "463ac35c9f6413ad48485a3953bb6124"
HEADERS = {"traceparent": f"00-{TRACE}-0020000000000001-01", "baggage": "customer=Ann"}
wire, connection = MagicMock(), MagicMock()
connection.params.host, connection.params.port = "localhost", 5672
channel = BlockingChannel(wire, connection)
delivery = Basic.Deliver("reader", 1, False, "", "orders")
message = _ConsumerDeliveryEvt(delivery, BasicProperties(headers=HEADERS), b"order 7")
channel._basic_consume_impl = lambda alternate_event_sink, **_: alternate_event_sink(message)
provider = TracerProvider()
PikaInstrumentor().instrument(tracer_provider=provider)
PikaInstrumentor.instrument_channel(channel, tracer_provider=provider)


def trace_of_publish(name):
    channel.basic_publish("", name, b"", BasicProperties())
    trace = wire.basic_publish.call_args.kwargs["properties"].headers["traceparent"].split("-")[1]
    print(name, "is in the trace", trace)
    return trace


assert trace_of_publish("before") != TRACE
for method, _, body in channel.consume("orders", inactivity_timeout=0.1):
    if method is None:
        break
    assert body == b"order 7" and baggage.get_all() == {}
    assert trace_of_publish("answer") == TRACE
assert trace_of_publish("report of a quiet minute") == TRACE
assert trace_of_publish("next day") == TRACE


def handle(*_):
    assert baggage.get_all() == {"customer": "Ann"}
    assert trace_of_publish("answer of a callback") == TRACE


def run():
    tracer = provider.get_tracer("reader")
    utils._decorate_callback(handle, tracer, "reader")(channel, delivery, message.properties, message.body)
    assert trace_of_publish("after a callback") != TRACE


Context().run(run)
CODE
