#!/usr/bin/env bash
# amqplib and rabbitmq-client send a Date in a header as an empty table, and do not complain.
#
# Both encode any object that they do not know by its own properties, of which a Date has none: the
# time is gone. rabbitmq-client does so with a Buffer, too, which arrives as a table with a number for
# each byte; amqplib sends that as bytes. @cloudamqp/amqp-client sends both for what they are.
#
# Seen: amqplib 2.3.1, rabbitmq-client 5.0.8, Node 20: {"at": {}} from both, read by amqplib.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --silent --prefix "$folder" amqplib@2.3.1 rabbitmq-client@5.0.8
FOLDER=$folder/node_modules node - <<'CODE'
const assert = require("node:assert");
const { encodeTable, decodeFields } = require(`${process.env.FOLDER}/amqplib/lib/codec.js`);
const { encodeFrame, FrameType } = require(`${process.env.FOLDER}/rabbitmq-client/lib/codec.js`);

const headers = { at: new Date(1782900000123), raw: Buffer.from([7]) };

const buffer = Buffer.alloc(256);
const byAmqplib = decodeFields(buffer.subarray(4, encodeTable(buffer, headers, 0)));

const frame = encodeFrame({ type: FrameType.HEADER, channelId: 1, bodySize: 0, fields: { headers } });
const table = frame.subarray(7 + 2 + 2 + 8 + 2 + 4, -1); // frame, class, weight, size, flags, length
const byRabbitmqClient = decodeFields(table);

console.log("amqplib", byAmqplib, "rabbitmq-client", byRabbitmqClient);
assert.deepStrictEqual(byAmqplib, { at: {}, raw: Buffer.from([7]) });
assert.deepStrictEqual(byRabbitmqClient, { at: {}, raw: { 0: 7 } });
CODE
