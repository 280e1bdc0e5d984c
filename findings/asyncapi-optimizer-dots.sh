#!/usr/bin/env bash
# AsyncAPI's own optimizer makes an invalid document of a valid one where an id has a dot in it.
#
# AsyncAPI allows dots in ids, and routing keys, from which these are often made, are full of them. The
# optimizer keeps places as texts joined by dots: of `order.new` it makes an object `order` with a field
# `new` beside the message that stays, and of its payload a schema without a type, whose fields lead
# nowhere. It reports success; with `order_new` its output is valid. So it is by any of its rules that move.
#
# Seen: @asyncapi/optimizer 2.0.0, @asyncapi/parser 3.6.6, Node 20: order_new: valid; order.new: 5 errors.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --silent --ignore-scripts --no-audit --no-fund --prefix "$folder" \
    @asyncapi/optimizer@2.0.0 @asyncapi/parser@3.6.6
FOLDER=$folder/node_modules/@asyncapi node - <<'CODE' 2>&1 | grep -E "^order"  # the parser prints a stack, too
const assert = require("node:assert");
const { Optimizer, Output } = require(`${process.env.FOLDER}/optimizer`);
const { Parser } = require(`${process.env.FOLDER}/parser`);

const payload = { type: "object", required: ["id"], properties: { id: { type: "string" } } };
const channel = (address, id) => ({ address, messages: { [id]: { payload } } });
const errors = async (text) =>
  (await new Parser().parse(text)).diagnostics.filter((each) => each.severity === 0).map((each) => each.message);
(async () => {
  for (const id of ["order_new", "order.new"]) {
    const document = {
      asyncapi: "3.0.0",
      info: { title: "orders", version: "1" },
      channels: { work: channel("work", id), audit: channel("audit", id) },
    };
    assert.deepStrictEqual(await errors(JSON.stringify(document)), []);
    const optimizer = new Optimizer(document);
    await optimizer.getReport();
    const text = optimizer.getOptimizedDocument({ output: Output.JSON });
    const list = await errors(text);
    console.log(`${id}: ${list.length} errors; first: ${list[0] ?? "-"}`);
    assert.strictEqual(list.length > 0, id.includes("."));
  }
})();
CODE
