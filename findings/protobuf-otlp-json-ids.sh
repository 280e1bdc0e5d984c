#!/usr/bin/env bash
# protobuf's json_format reads OTLP's JSON without an error, and every id in it is wrong.
#
# OTLP/JSON departs from protobuf's JSON mapping: trace and span ids are hexadecimal. 32 hexadecimal
# digits are also valid base64, so the official protobuf library with OpenTelemetry's official
# messages decodes them to 24 bytes where the protocol has 16, and says nothing.
#
# Seen: protobuf 7.36.2, opentelemetry-proto 1.45.2, Python 3.11: ids of 24 and 12 bytes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check protobuf==7.36.2 opentelemetry-proto==1.45.2
"$folder/venv/bin/python" - <<'CODE'
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

text = """{"resourceSpans": [{"scopeSpans": [{"spans": [{
  "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174", "name": "publish"}]}]}]}"""
span = Parse(text, ExportTraceServiceRequest()).resource_spans[0].scope_spans[0].spans[0]
print("bytes of the trace id:", len(span.trace_id), "of the span id:", len(span.span_id))
assert (len(span.trace_id), len(span.span_id)) == (24, 12)
assert span.trace_id.hex() != "5b8efff798038103d269b633813fc60c"
CODE
