// The chain between two events as a file that the browser writes: no job, as long as it is not too long.
import { api } from "./api.js";
import { saveBlob } from "./download.js";
import { count, sentence } from "./format.js";
import { tell } from "./notices.js";

const PAGE = 1000; // that the API gives at once
const MOST = 10_000;

/** JSON, an event a line, in the order of ids: along links where these lead there, else any way. */
export default async function saveChain(a, b) {
  const via = (await api.compare(a, b)).answer === "caused" ? "links" : "any";
  const events = [];
  let part;
  let truncated = true;
  while (truncated && events.length < MOST) {
    part = await api.chain(a, b, { via, limit: PAGE, after: events.at(-1)?.id });
    events.push(...part.events);
    truncated = part.truncated && part.events.length > 0;
  }
  if (!events.length) return tell(`No chain to save. ${sentence(part.sentence)}`, part.answer === "cannot have" ? "good" : "bad");
  if (truncated) return tell(`The chain has more than ${count(MOST)} events: a job writes it, under Compare and chain.`, "bad");
  return saveBlob(new Blob(events.map((event) => `${JSON.stringify(event)}\n`)), `chain-${a}-${b}.jsonl`);
}
