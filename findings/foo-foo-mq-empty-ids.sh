#!/usr/bin/env bash
# foo-foo-mq gives each event an id and a correlation id, and all of them are the empty text.
#
# It is the successor of rabbot. A message that is published without ids has the properties all the same,
# with nothing in them, so a query that groups by correlation id, or drops what has one message id, takes
# all events for one. Each has the program's own queue for replies as `reply_to`, too, whether somebody
# waits or not, and a time in milliseconds where AMQP has seconds: 58,000 years from now.
#
# Seen: foo-foo-mq 8.0.1 with amqplib 0.8.0, Node 20: messageId '', correlationId '', replyTo 'shop.answers'.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --silent --prefix "$folder" foo-foo-mq@8.0.1 amqplib@0.8.0
FOLDER=$folder/node_modules node - <<'CODE'
const assert = require("node:assert");
const exchange = require(`${process.env.FOLDER}/foo-foo-mq/src/amqp/exchange.js`);
const { encodeProperties, decode } = require(`${process.env.FOLDER}/amqplib/lib/defs.js`);

const HEADER = 60; // the class of basic.publish, whose header has the properties
const START = 7 + 12; // before the properties: the frame's head, and class, weight and size
const arrivals = [];
const channel = {
  publish(name, key, body, options, confirm) {
    const frame = encodeProperties(HEADER, 1, body.length, options);
    arrivals.push(decode(HEADER, frame.subarray(START, -1)));
    confirm(null, 1);
  },
};
const topology = {
  replyQueue: { name: "shop.answers" },
  connection: { name: "default", getChannel: async () => channel },
};
const serializers = { "application/json": { serialize: (body) => Buffer.from(JSON.stringify(body)) } };
(async () => {
  const orders = await exchange({ name: "orders", type: "topic" }, topology, { add() {}, remove() {} }, serializers);
  for (const order of [7, 8]) await orders.publish({ type: "order.new", body: { order } });
  for (const { messageId, correlationId, replyTo, timestamp } of arrivals) {
    console.log({ messageId, correlationId, replyTo, timestamp });
    assert.deepStrictEqual([messageId, correlationId, replyTo], ["", "", "shop.answers"]);
    assert(timestamp > Date.now() / 2);
  }
})();
CODE
