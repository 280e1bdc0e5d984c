#!/usr/bin/env bash
# RabbitMQ's client for streams in JavaScript reads ids from 128 to 255 as negative numbers.
#
# AMQP 1.0 writes a number that is an id in one byte if it fits. rabbitmq-stream-js-client reads that byte
# with a sign, and ids from 256 on, which have eight bytes, as BigInt without one. So the ids of a program
# that counts its messages are right up to 127, wrong for as many, and then right again; and 1 is a number,
# 300 a BigInt. rhea, whose bytes these are, reads what it wrote.
#
# Seen: rabbitmq-stream-js-client 1.0.0, rhea 3.0.5, Node 20: 127, -128, -1, 256n for 127, 128, 255, 256.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --silent --prefix "$folder" rabbitmq-stream-js-client@1.0.0 rhea@3.0.5
FOLDER=$folder/node_modules node - <<'CODE'
const assert = require("node:assert");
const client = `${process.env.FOLDER}/rabbitmq-stream-js-client/dist`;
const { BufferDataReader } = require(`${client}/response_decoder.js`);
const { Properties } = require(`${client}/amqp10/properties.js`);
const { message } = require(`${process.env.FOLDER}/rhea`);

const PROPERTIES = Buffer.from([0x00, 0x53, 0x73, 0xd0]); // a described list of AMQP 1.0
for (const [id, other] of [[127, 127], [128, -128], [255, -1], [256, 256n]]) {
  const bytes = message.encode({ message_id: id, correlation_id: id, body: "order" });
  const list = bytes.subarray(bytes.indexOf(PROPERTIES) + PROPERTIES.length);
  const read = Properties.parse(new BufferDataReader(list.subarray(8)), list.readUInt32BE(4));
  console.log(id, "is read as", read.messageId, "and by rhea as", message.decode(bytes).message_id);
  assert.deepStrictEqual([read.messageId, read.correlationId], [other, other]);
  assert.strictEqual(message.decode(bytes).message_id, id);
}
CODE
