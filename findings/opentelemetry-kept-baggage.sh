#!/usr/bin/env bash
# A program whose messages share one object of properties sends the baggage of one with all that follow.
#
# OpenTelemetry's instrumentations of pika and of amqplib write a message's trace and baggage into the
# headers that the program handed over, without a copy. The next message has another trace, which is written
# over the former; where it has no baggage nothing is written, so the former customer's stays. A constant
# such as `{ persistent: true }` is enough, since the headers are added to it, and so is a forward of the
# properties of what came. Whoever reads a customer or an order from baggage has the wrong one.
#
# Seen: opentelemetry-instrumentation-pika 0.66b1, opentelemetry-sdk 1.45.1, pika 1.4.4, Python 3.11;
# @opentelemetry/instrumentation-amqplib 0.70.0, @opentelemetry/core and sdk-trace-base 2.12.1,
# @opentelemetry/api 1.9.1, Node 20.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
    opentelemetry-instrumentation-pika==0.66b1 opentelemetry-sdk==1.45.1 pika==1.4.4
npm install --silent --prefix "$folder" @opentelemetry/instrumentation-amqplib@0.70.0 \
    @opentelemetry/core@2.12.1 @opentelemetry/sdk-trace-base@2.12.1 @opentelemetry/api@1.9.1
"$folder/venv/bin/python" - <<'CODE'
from unittest.mock import MagicMock

from opentelemetry import baggage, context
from opentelemetry.instrumentation.pika import PikaInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel

PROPERTIES = BasicProperties(content_type="application/json")
connection = MagicMock()
connection.params.host, connection.params.port = "localhost", 5672
channel = BlockingChannel(MagicMock(), connection)
PikaInstrumentor.instrument_channel(channel, tracer_provider=TracerProvider())

traces = []
for customer in ("Ann", None):
    token = context.attach(baggage.set_baggage("customer", customer) if customer else context.get_current())
    channel.basic_publish("", "orders", b"{}", PROPERTIES)
    context.detach(token)
    print("pika, for", customer, PROPERTIES.headers)
    assert PROPERTIES.headers["baggage"] == "customer=Ann"
    traces.append(PROPERTIES.headers["traceparent"])
assert traces[0] != traces[1]
CODE
FOLDER=$folder/node_modules/@opentelemetry node - <<'CODE'
const assert = require("node:assert");
const load = (name) => require(`${process.env.FOLDER}/${name}`);
const { context, propagation, ROOT_CONTEXT } = load("api");
const { CompositePropagator, W3CBaggagePropagator, W3CTraceContextPropagator } = load("core");
const { BasicTracerProvider } = load("sdk-trace-base");
const { AmqplibInstrumentation } = load("instrumentation-amqplib");

propagation.setGlobalPropagator(
  new CompositePropagator({ propagators: [new W3CTraceContextPropagator(), new W3CBaggagePropagator()] }),
);
const instrumentation = new AmqplibInstrumentation();
instrumentation.setTracerProvider(new BasicTracerProvider());
const arrivals = [];
const send = (exchange, key, body, options) => arrivals.push(structuredClone(options.headers));
const publish = instrumentation.getPublishPatch("2.3.1", send).bind({ connection: {} });

const OPTIONS = { persistent: true };
for (const customer of ["Ann", null]) {
  const bag = customer ? { customer: { value: customer } } : {};
  const active = propagation.setBaggage(ROOT_CONTEXT, propagation.createBaggage(bag));
  context.active = () => active;
  publish("", "orders", Buffer.from("{}"), OPTIONS);
  console.log("amqplib, for", customer, arrivals.at(-1));
  assert.strictEqual(arrivals.at(-1).baggage, "customer=Ann");
}
assert.notStrictEqual(arrivals[0].traceparent, arrivals[1].traceparent);
CODE
