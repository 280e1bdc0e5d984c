// What each program on Node is told, as role.py says it.
'use strict';

const fs = require('node:fs');
const path = require('node:path');

const program = process.env.PIPELINE_PROGRAM;
const keyed = 'PIPELINE_KEYED' in process.env;
const connectionName = process.env.PIPELINE_CONNECTION_NAME;
const diary = path.join(process.env.PIPELINE_FOLDER, `${program}.jsonl`);

module.exports = {
  program,
  url: process.env.PIPELINE_URL,
  requests: Number(process.env.PIPELINE_REQUESTS),
  targets: JSON.parse(process.argv[2])[program],
  clientProperties: connectionName ? { connection_name: connectionName } : {},
  body: (message) => JSON.stringify(keyed ? { order: `order-${message.split('>')[0]}` } : {}),
  write: (line) => fs.appendFileSync(diary, `${JSON.stringify(line)}\n`),
};
