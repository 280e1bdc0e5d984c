#!/bin/sh
# Takes amqplib anew from npm, by name and version: what its promises need, unchanged.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$work"
npm pack --silent amqplib@2.3.1 >/dev/null
tar xzf amqplib-2.3.1.tgz

rm -rf "$here/amqplib"
mkdir -p "$here/amqplib/lib"
cp package/package.json package/channel_api.js package/LICENSE-MIT "$here/amqplib"
cp package/lib/*.js "$here/amqplib/lib"
rm "$here/amqplib/lib/callback_model.js"
