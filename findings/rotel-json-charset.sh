#!/usr/bin/env bash
# Rotel, an OTLP collector from PyPI, takes spans as application/json, and refuses the same bytes as
# application/json; charset=utf-8, without a word of why.
#
# A media type may have parameters, and .NET's StringContent adds this one whenever it is given an
# encoding. The answer is 400 with an empty body, so an exporter that does not try again on a client's
# error drops the spans, and nobody can see what is wrong with them.
#
# Seen: rotel 0.0.1a15, Python 3.11: 200 and 400.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check rotel==0.0.1a15
FOLDER=$folder "$folder/venv/bin/python" - <<'CODE'
import http.client
import os
import socket
import subprocess
import time
from pathlib import Path

import rotel


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


port, folder = free_port(), os.environ["FOLDER"]
agent = subprocess.Popen(
    [
        Path(rotel.__file__).with_name("rotel-agent"), "start", "--exporter", "blackhole",
        "--otlp-http-endpoint", f"127.0.0.1:{port}", "--otlp-grpc-endpoint", f"127.0.0.1:{free_port()}",
        "--pid-file", f"{folder}/pid", "--log-file", f"{folder}/log",
    ],
    stdout=subprocess.DEVNULL,
)
body = b"""{"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"scope": {"name": "shop"}, "spans": [{
  "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174", "name": "publish", "kind": 4,
  "startTimeUnixNano": "1", "endTimeUnixNano": "2", "attributes": []}]}]}]}"""


def post(kind):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("POST", "/v1/traces", body, {"content-type": kind})
    answer = connection.getresponse()
    return answer.status, answer.read()


try:
    for _ in range(100):
        try:
            plain = post("application/json")
            break
        except ConnectionError:
            time.sleep(0.1)
    charset = post("application/json; charset=utf-8")
finally:
    agent.terminate()
    agent.wait(20)
print("application/json:", plain[0], "with a charset:", *charset)
assert plain[0] == 200
assert charset == (400, b"")
CODE
