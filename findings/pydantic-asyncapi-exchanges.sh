#!/usr/bin/env bash
# No AsyncAPI document that names an exchange is valid both to pydantic-asyncapi and to AsyncAPI's own parser.
#
# A channel of AMQP is a queue or an exchange with a routing key, and its binding says which by `is`: `queue`
# or `routingKey` in the standard. pydantic-asyncapi has `exchange` for the second, in what it reads and
# writes, and requires fields of a queue that the standard has as optional. So a document that it makes is
# refused by the parser, on which most of AsyncAPI's tools are built, and the other way round.
#
# Seen: pydantic-asyncapi 0.3.2, Python 3.11; @asyncapi/parser 3.6.6, Node 20.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pydantic-asyncapi==0.3.2
npm install --silent --ignore-scripts --no-audit --no-fund --prefix "$folder" @asyncapi/parser@3.6.6
"$folder/venv/bin/python" - "$folder" <<'CODE'
import json
import sys
from pathlib import Path

from pydantic import ValidationError
from pydantic_asyncapi import AsyncAPI


def document(word):
    binding = {"is": word, "exchange": {"name": "orders", "type": "topic"}, "bindingVersion": "0.3.0"}
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "orders", "version": "1"},
        "channels": {"orders": {"address": "order.new", "bindings": {"amqp": binding}}},
    }


def is_valid(word):
    try:
        AsyncAPI.model_validate(document(word))
    except ValidationError:
        return False
    return True


for word in ("routingKey", "exchange"):
    print("pydantic-asyncapi,", word, is_valid(word))
    assert is_valid(word) is (word == "exchange")
    (Path(sys.argv[1]) / f"{word}.json").write_text(json.dumps(document(word)))
CODE
FOLDER=$folder node - <<'CODE' 2>&1 | grep -E "^parser"  # the parser prints a stack, too
const { readFileSync } = require("node:fs");
const { Parser } = require(`${process.env.FOLDER}/node_modules/@asyncapi/parser`);
(async () => {
  for (const word of ["routingKey", "exchange"]) {
    const read = await new Parser().parse(readFileSync(`${process.env.FOLDER}/${word}.json`, "utf8"));
    const errors = read.diagnostics.filter((each) => each.severity === 0);
    console.log("parser,", word, errors.length === 0, errors[0]?.message ?? "");
    if ((errors.length === 0) !== (word === "routingKey")) process.exitCode = 1;
  }
})();
CODE
