#!/usr/bin/env bash
# A space in OpenTelemetry's baggage is a plus sign once it went from Python to JavaScript, and a plus
# sign is a space the other way round.
#
# W3C Baggage has values percent-encoded. Python's propagator writes and reads them as forms are, with
# + for a space; JavaScript's decodes percent signs alone. So an order of "Ann Lee" is one of "Ann+Lee"
# behind the first service in JavaScript. What others send as + is a space for Python.
#
# Seen: opentelemetry-api 1.45.2, Python 3.11; @opentelemetry/core 2.12.1 with @opentelemetry/api 1.9.1,
# Node 20.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check opentelemetry-api==1.45.2
npm install --silent --prefix "$folder" @opentelemetry/core@2.12.1 @opentelemetry/api@1.9.1
header=$("$folder/venv/bin/python" - <<'CODE'
from opentelemetry import baggage
from opentelemetry.baggage.propagation import W3CBaggagePropagator

carrier = {}
W3CBaggagePropagator().inject(carrier, baggage.set_baggage("customer", "Ann Lee"))
assert carrier == {"baggage": "customer=Ann+Lee"}, carrier
context = W3CBaggagePropagator().extract({"baggage": "blend=A+B"})
assert baggage.get_baggage("blend", context) == "A B", context
print(carrier["baggage"])
CODE
)
echo "Python writes $header, and reads A+B as A B"
HEADER=$header FOLDER=$folder/node_modules node - <<'CODE'
const assert = require("node:assert");
const { W3CBaggagePropagator } = require(`${process.env.FOLDER}/@opentelemetry/core`);
const { ROOT_CONTEXT, propagation, defaultTextMapGetter, defaultTextMapSetter } = require(
  `${process.env.FOLDER}/@opentelemetry/api`,
);
const propagator = new W3CBaggagePropagator();
const context = propagator.extract(ROOT_CONTEXT, { baggage: process.env.HEADER }, defaultTextMapGetter);
const customer = propagation.getBaggage(context).getEntry("customer").value;
console.log("JavaScript reads", customer);
assert.strictEqual(customer, "Ann+Lee");
const carrier = {};
const own = propagation.createBaggage({ customer: { value: "Ann Lee" } });
propagator.inject(propagation.setBaggage(ROOT_CONTEXT, own), carrier, defaultTextMapSetter);
assert.strictEqual(carrier.baggage, "customer=Ann%20Lee");
CODE
