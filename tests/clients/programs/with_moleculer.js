// A program on moleculer (Node): a node whose service calls those of the next, or emits an event.
'use strict';

const { setTimeout } = require('node:timers/promises');
const { ServiceBroker } = require('../../node/node_modules/moleculer');
const { program, url, requests, targets, clientProperties, write } = require('./role.js');

async function send(context, message, because) {
  for (const target of targets) {
    const params = { message: `${message}>${target}` };
    write({ published: params.message, because });
    if (target === 'mail') context.emit('mail.wanted', params);
    else await context.call(`${target}.handle`, params);
  }
}

async function handle(context) {
  const { message } = context.params;
  await setTimeout(10); // as the other programs: see WORK_SECONDS in role.py
  await send(context, message, [message]);
  write({ handled: message });
}

async function main() {
  const broker = new ServiceBroker({
    nodeID: program,
    logger: false,
    transporter: { type: 'AMQP', options: { url: [url], socketOptions: { clientProperties } } },
  });
  if (program === 'mail') {
    broker.createService({ name: program, events: { 'mail.wanted': handle } });
  } else if (program !== 'front') {
    broker.createService({ name: program, actions: { handle } });
  }
  await broker.start();
  await broker.waitForServices(['orders', 'billing', 'shipping', 'mail']);
  if (program !== 'front') return;
  for (let number = 0; number < requests; number += 1) {
    await send(broker, `${process.pid}.${number}`, []);
  }
  await broker.stop();
}

main();
