// A program on amqplib (Node): one connection, a channel to consume and one to publish on.
'use strict';

const { setTimeout } = require('node:timers/promises');
const amqplib = require('../../node/node_modules/amqplib-2');
const { program, url, requests, targets, clientProperties, body, write } = require('./role.js');

async function main() {
  const connection = await amqplib.connect(url, { clientProperties });
  const consuming = await connection.createChannel();
  const publishing = await connection.createChannel();

  const publish = (message, because) => {
    for (const target of targets) {
      const messageId = `${message}>${target}`;
      publishing.sendToQueue(target, Buffer.from(body(messageId)), { messageId });
      write({ published: messageId, because });
    }
  };

  if (program === 'front') {
    for (let number = 0; number < requests; number += 1) publish(`${process.pid}.${number}`, []);
    await publishing.close();
    await connection.close();
    return;
  }
  await consuming.consume(program, async (delivery) => {
    const message = delivery.properties.messageId;
    await setTimeout(10); // as the other programs: see WORK_SECONDS in role.py
    publish(message, [message]);
    consuming.ack(delivery);
    write({ handled: message });
  });
}

main();
