#!/usr/bin/env bash
# AsyncAPI's own parser refuses documents, valid by AsyncAPI's own schema, for a field's name.
#
# JSON Schema allows any name of a property. With `hasOwnProperty` among a payload's properties
# @asyncapi/parser gives no document but errors about other places, and in JSON a property `<<` is
# merged into its object, since JSON is read as YAML. Neither error names the field.
#
# Seen: @asyncapi/parser 3.6.6, Node 20: plain: a document; hasOwnProperty, <<: none.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --ignore-scripts --no-audit --no-fund @asyncapi/parser@3.6.6
cat >try.js <<'CODE'
const { Parser } = require("@asyncapi/parser");
const document = (name) => JSON.stringify({
  asyncapi: "3.0.0",
  info: { title: "orders", version: "1" },
  channels: { orders: { address: "orders", messages: { order: {
    payload: { type: "object", properties: JSON.parse(`{"${name}": {"type": "string"}}`) } } } } },
});
(async () => {
  for (const name of ["total", "hasOwnProperty", "<<"]) {
    const read = await new Parser().parse(document(name));
    const errors = read.diagnostics.filter((each) => each.severity === 0);
    console.log(`${name}: ${read.document ? "a document" : "none"}, ${errors.length} errors; first: ${errors[0]?.message ?? "-"}`);
    if (Boolean(read.document) !== (name === "total")) process.exitCode = 1;
  }
})();
CODE
node try.js 2>&1 | grep -E "^(total|hasOwnProperty|<<): "  # the parser prints a stack, too
