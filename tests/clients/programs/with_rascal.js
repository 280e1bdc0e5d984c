// A program on rascal (Node), which fails at each message once: rascal publishes it once more.
'use strict';

const { setTimeout } = require('node:timers/promises');
const { BrokerAsPromised } = require('../../node/node_modules/rascal');
const { program, url, requests, targets, clientProperties, body, write } = require('./role.js');

const again = [{ strategy: 'republish', attempts: 1 }, { strategy: 'nack' }];

async function main() {
  const reads = program !== 'front';
  const broker = await BrokerAsPromised.create({
    vhosts: {
      shop: {
        connection: { url, socketOptions: { clientProperties } },
        queues: reads ? { [program]: { assert: true } } : {},
        publications: { direct: { vhost: 'shop', exchange: '' } },
        subscriptions: reads ? { own: { vhost: 'shop', queue: program, prefetch: 3 } } : {},
      },
    },
  });
  broker.on('error', (error) => console.error(error));

  const publish = async (message, because) => {
    for (const target of targets) {
      const messageId = `${message}>${target}`;
      write({ published: `${messageId}/0`, because });
      const options = { routingKey: target, options: { messageId } };
      const publication = await broker.publish('direct', body(messageId), options);
      await new Promise((resolve) => { publication.on('success', resolve); });
    }
  };

  if (!reads) {
    for (let number = 0; number < requests; number += 1) {
      await publish(`${process.pid}.${number}`, []);
    }
    await broker.shutdown();
    return;
  }
  const subscription = await broker.subscribe('own');
  subscription.on('error', (error) => console.error(error));
  subscription.on('message', async (delivery, content, ackOrNack) => {
    const { messageId, headers } = delivery.properties;
    const attempt = headers.rascal?.recovery?.[program]?.republished ?? 0;
    await setTimeout(10); // as the other programs: see WORK_SECONDS in role.py
    if (attempt === 0) {
      write({ published: `${messageId}/1`, because: [`${messageId}/0`] });
      ackOrNack(new Error('not the first time'), again);
    } else {
      await publish(messageId, [`${messageId}/1`]);
      ackOrNack();
    }
    write({ handled: `${messageId}/${attempt}` });
  });
}

main();
