#!/usr/bin/env bash
# @cloudamqp/amqp-client sends a whole number from 2^31 to 2^32-1 in a header as a negative one.
#
# Smaller numbers go as signed integers of 32 bits, larger ones as 64 bits; those between are written
# with 32 bits, too, and wrap: 4294967295 arrives as -1, and no error says so. Seconds since 1970 are
# there from 2038 on, and so are ids of 32 bits without a sign today.
#
# Seen: @cloudamqp/amqp-client 4.1.1, read back by itself, by amqplib 2.3.1 likewise; Node 20.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --silent --prefix "$folder" @cloudamqp/amqp-client@4.1.1 amqplib@2.3.1
FOLDER=$folder/node_modules node - <<'CODE'
const assert = require("node:assert");
const { AMQPView } = require(`${process.env.FOLDER}/@cloudamqp/amqp-client/lib/cjs/amqp-view.js`);
const { decodeFields } = require(`${process.env.FOLDER}/amqplib/lib/codec.js`);

for (const [number, other] of [
  [2 ** 31 - 1, 2147483647], [2 ** 31, -2147483648], [2 ** 32 - 1, -1], [2 ** 32, 4294967296],
]) {
  const view = new AMQPView(new ArrayBuffer(64));
  const bytes = view.setTable(0, { id: number });
  const [own] = view.getTable(0);
  const read = decodeFields(Buffer.from(view.buffer, 4, bytes - 4));
  console.log(number, "is read as", own.id, "and by amqplib as", read.id);
  assert.deepStrictEqual([own.id, read.id], [other, other]);
}
CODE
