// A program whose messages are events of the CloudEvents SDK (Node), bound as for HTTP; on amqplib.
'use strict';

const { setTimeout } = require('node:timers/promises');
const amqplib = require('../../node/node_modules/amqplib-2');
const { CloudEvent, HTTP } = require('../../node/node_modules/cloudevents');
const { program, url, requests, targets, clientProperties, write } = require('./role.js');

async function main() {
  const connection = await amqplib.connect(url, { clientProperties });
  const channel = await connection.createChannel();

  const publish = (message, cause) => {
    for (const target of targets) {
      const id = `${message}>${target}`;
      const named = cause ? { causationid: cause.id } : {};
      const event = new CloudEvent({ id, type: target, source: `/${program}`, data: {}, ...named });
      const { headers, body } = HTTP.binary(event);
      channel.sendToQueue(target, Buffer.from(body), { messageId: id, headers });
      write({ published: id, because: cause ? [cause.id] : [] });
    }
  };

  if (program === 'front') {
    for (let number = 0; number < requests; number += 1) publish(`${process.pid}.${number}`);
    await channel.close();
    await connection.close();
    return;
  }
  await channel.consume(program, async (delivery) => {
    const body = delivery.content.toString();
    const event = HTTP.toEvent({ headers: delivery.properties.headers, body });
    await setTimeout(10); // as the other programs: see WORK_SECONDS in role.py
    publish(event.id, event);
    channel.ack(delivery);
    write({ handled: event.id });
  });
}

main();
