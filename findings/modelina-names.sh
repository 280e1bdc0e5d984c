#!/usr/bin/env bash
# Modelina drops a field, silently, that another one is named like but for the spelling of words.
#
# AsyncAPI's generator of models spells fields as a language does: `correlation_id` and `correlationId`, as
# programs in two languages send them, are one name in TypeScript, Java and Go, and in Python
# `correlation-id` is, too. Its rule for names that occur twice does not see these, so the class has one
# field for both, with the type of the one that comes last: a text is a number there. Rust's keeps both.
#
# Seen: @asyncapi/modelina 5.10.1, Node 20: 1 of 2 fields in TypeScript, Java, Go and Python.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --silent --ignore-scripts --no-audit --no-fund --prefix "$folder" @asyncapi/modelina@5.10.1
FOLDER=$folder/node_modules node - <<'CODE'
const assert = require("node:assert");
const modelina = require(`${process.env.FOLDER}/@asyncapi/modelina`);

const schema = (...names) => ({
  $id: "headers",
  type: "object",
  additionalProperties: false,
  properties: Object.fromEntries(names.map((name, place) => [name, { type: place ? "integer" : "string" }])),
});
(async () => {
  for (const language of ["TypeScript", "Java", "Go", "Python", "Rust"]) {
    const counts = [
      ["order_id", 2],
      ["correlationId", language === "Rust" ? 2 : 1],
      ["correlation-id", language === "Python" ? 1 : 2],
    ];
    for (const [other, count] of counts) {
      const generator = new modelina[`${language}Generator`]();
      const [model] = await generator.generate(schema("correlation_id", other));
      const fields = Object.values(model.model.properties);
      const texts = fields.map((each) => `${each.unconstrainedPropertyName}: ${each.property.type}`);
      console.log(language, "of correlation_id and", other, "has", texts.join(", "));
      assert.strictEqual(fields.length, count);
    }
  }
})();
CODE
