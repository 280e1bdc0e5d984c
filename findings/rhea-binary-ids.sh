#!/usr/bin/env bash
# rhea sends an AMQP 1.0 id that is a Buffer as a UUID, cut to 16 bytes or filled up to them.
#
# AMQP 1.0 has ids of four types. rhea reads a binary one and a UUID as a Buffer alike, and writes each
# Buffer as a UUID. So a worker that answers with the message id of the request as correlation id
# changes it: 20 bytes come back as 16, others as another type, and whoever asked does not know them.
#
# Seen: rhea 3.0.5, Node 20: an id of 20 bytes is echoed as the first 16 of them, as a UUID.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --silent --prefix "$folder" rhea@3.0.5
FOLDER=$folder/node_modules node - <<'CODE'
const assert = require("node:assert");
const { message, types } = require(`${process.env.FOLDER}/rhea`);

const id = Buffer.from("00112233445566778899aabbccddeeff01234567", "hex");
for (const size of [16, 20]) {
  const request = message.encode({ message_id: types.wrap_binary(id.subarray(0, size)), body: "?" });
  assert(request.includes(Buffer.concat([Buffer.from([0xa0, size]), id.subarray(0, size)])));
  const asked = message.decode(request);
  assert.strictEqual(asked.message_id.length, size);
  const answer = message.encode({ correlation_id: asked.message_id, body: "!" });
  const uuid = Buffer.concat([Buffer.from([0x98]), id.subarray(0, 16)]);
  assert(answer.includes(uuid) && !answer.includes(id));
  console.log(size, "bytes as", asked.message_id, "answered by", message.decode(answer).correlation_id);
}
CODE
