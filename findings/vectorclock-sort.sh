#!/usr/bin/env bash
# A sort by vector clocks, as the packages vectorclock and @thi.ng/vclock offer it, puts effects before causes.
#
# Their comparators say 0 for clocks that are equal and for concurrent ones, and array.sort takes 0 for
# equal: what is beside something concurrent with both stays where it is. So a list that came in another
# order keeps it. The repair that vectorclock's own page shows, which sorts, takes the first for the newest
# and compares the others with it, then keeps an old version and drops the one that replaced it.
#
# Seen: vectorclock 0.0.0, @thi.ng/vclock 0.1.10, Node 20: answer, other, question; 1 of 3 versions is lost.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --silent --prefix "$folder" vectorclock@0.0.0 @thi.ng/vclock@0.1.10
cp "$folder/node_modules/@thi.ng/vclock/index.js" "$folder/vclock.mjs"
FOLDER=$folder node --input-type=module - <<'CODE'
import assert from "node:assert";
import { createRequire } from "node:module";

const clocks = createRequire(import.meta.url)(`${process.env.FOLDER}/node_modules/vectorclock`);
const other = await import(`${process.env.FOLDER}/vclock.mjs`);

const message = (name, clock) => ({ name, clock });
const list = () => [message("answer", { a: 2, b: 1 }), message("other", { c: 1 }), message("question", { a: 1 })];
const [answer, , question] = list();
assert.strictEqual(clocks.compare(question, answer), clocks.LT);
assert(other.isBefore(question.clock, answer.clock));
for (const [name, order] of [
  ["vectorclock", clocks.ascSort],
  ["@thi.ng/vclock", (one, two) => other.orderAsc(one.clock, two.clock)],
]) {
  const names = list().sort(order).map((each) => each.name);
  console.log(name, "sorts as", names.join(", "));
  assert.deepStrictEqual(names, ["answer", "other", "question"]);
}

const versions = [message("former", { a: 1 }), message("beside", { c: 1 }), message("latest", { a: 2 })];
const [first, ...rest] = versions.sort(clocks.descSort);
const repair = [first, ...rest.filter((each) => clocks.isConcurrent(each, first))].map((each) => each.name);
console.log("after the repair there are", repair.join(", "));
assert.deepStrictEqual(repair, ["former", "beside"]);
CODE
