#!/usr/bin/env bash
# A B3 header that leaves it open whether a trace is recorded is a yes or a no to OpenTelemetry, by
# language and by spelling.
#
# B3 may omit the decision, so that the receiver decides. Python's propagator takes that for a yes in
# the one header `b3` and for a no in the headers `x-b3-…`; JavaScript's takes both for a no. With the
# samplers that both SDKs have by themselves, which follow the parent and record all that has none, a
# no means that a consumer records nothing and sends 0 on: the trace ends there for all behind it, too.
#
# Seen: opentelemetry-propagator-b3 1.45.1, opentelemetry-sdk 1.45.2, Python 3.11;
# @opentelemetry/propagator-b3 2.12.0, @opentelemetry/sdk-trace-base 2.12.1 with @opentelemetry/api
# 1.9.1, Node 20.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
    opentelemetry-propagator-b3==1.45.1 opentelemetry-sdk==1.45.2
npm install --silent --prefix "$folder" \
    @opentelemetry/propagator-b3@2.12.0 @opentelemetry/sdk-trace-base@2.12.1 @opentelemetry/api@1.9.1
"$folder/venv/bin/python" - <<'CODE'
from opentelemetry import trace
from opentelemetry.propagators.b3 import B3MultiFormat, B3SingleFormat
from opentelemetry.sdk.trace import TracerProvider

TRACE, SPAN = "463ac35c9f6413ad48485a3953bb6124", "0020000000000001"
tracer = TracerProvider().get_tracer("consumer")
for propagator, headers, is_recorded in (
    (B3SingleFormat(), {"b3": f"{TRACE}-{SPAN}"}, True),
    (B3MultiFormat(), {"x-b3-traceid": TRACE, "x-b3-spanid": SPAN}, False),
    (B3MultiFormat(), {}, True),
):
    span = tracer.start_span("process", propagator.extract(headers))
    sent = {}
    propagator.inject(sent, trace.set_span_in_context(span))
    print("Python", headers, "recorded" if span.is_recording() else "not recorded", "sent on", sent)
    assert span.is_recording() is is_recorded
    decision = sent["b3"][-2:] if "b3" in sent else f"-{sent['x-b3-sampled']}"
    assert decision == ("-1" if is_recorded else "-0")
CODE
FOLDER=$folder/node_modules node - <<'CODE'
const assert = require("node:assert");
const { B3Propagator } = require(`${process.env.FOLDER}/@opentelemetry/propagator-b3`);
const { BasicTracerProvider } = require(`${process.env.FOLDER}/@opentelemetry/sdk-trace-base`);
const { ROOT_CONTEXT, defaultTextMapGetter, defaultTextMapSetter, trace } = require(
  `${process.env.FOLDER}/@opentelemetry/api`,
);
const TRACE = "463ac35c9f6413ad48485a3953bb6124", SPAN = "0020000000000001";
const propagator = new B3Propagator();
const tracer = new BasicTracerProvider().getTracer("consumer");
for (const [headers, isRecorded] of [
  [{ b3: `${TRACE}-${SPAN}` }, false],
  [{ "x-b3-traceid": TRACE, "x-b3-spanid": SPAN }, false],
  [{}, true],
]) {
  const span = tracer.startSpan("process", {}, propagator.extract(ROOT_CONTEXT, headers, defaultTextMapGetter));
  const sent = {};
  propagator.inject(trace.setSpan(ROOT_CONTEXT, span), sent, defaultTextMapSetter);
  console.log("JavaScript", headers, span.isRecording() ? "recorded" : "not recorded", "sent on", sent);
  assert.strictEqual(span.isRecording(), isRecorded);
  assert(sent.b3.endsWith(isRecorded ? "-1" : "-0"));
}
CODE
