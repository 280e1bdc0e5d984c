// Glossary of the page's own words: shown on hover and focus, and listed by `?`.
export const GLOSSARY = {
  participant: "Who acts: by default a program, told by its user, its place and its connection's name. Where its name alone stands, those of one name count as one. What it receives may have a part in everything it publishes later.",
  event: "A publish, or the delivery of a message to a consumer.",
  consumer: "Whoever takes messages from a queue: a participant while it is handed something.",
  "9 of 10": "Nine of ten took at most this long. Half took at most the median.",
  stamp: "An event's logical clock (an interval tree clock). Comparing two stamps tells whether one event can have influenced the other.",
  Lamport: "A number that is greater for every effect than for its causes. The other way round it says nothing: a greater number need not be an effect.",
  unmatched: "A delivery whose publish was not seen: published before the trace began, or lost in a gap. Its causes are not known.",
  chain: "Every event on a causal path between two events: all that can have carried something from one to the other.",
  complete: "No trace message was lost in this period, as far as is known. Where there is a gap, events may be missing, and with them signs of influence.",
  sound: "Participants are those who really act. Where two programs count as one, or one as two, an answer may name too much or too little.",
  unknown: "What happened was not recorded: nothing was traced, or the trace does not run, or the events were removed since.",
  gap: "A time in which trace messages may have been lost, or some were not asked for. Answers across it are not complete.",
  partial: "Only some exchanges and queues are taken, because the trace was told so. Nothing that was asked for is known to be lost, but answers are not complete.",
  link: "A message that names its cause: by a correlation id, a parent's id, a trace context.",
  concurrent: "Neither of two events can have influenced the other: no message and no participant leads from one to the other.",
  lag: "Trace messages that wait in the broker to be read. Their events are not stored yet.",
  quiet: "Traffic that is stored but not followed, such as heartbeats: no clock takes it in.",
};

// Forms of the words in headings.
const ALSO = { participants: "participant", gaps: "gap", events: "event", doubts: "sound" };

/** The glossary's name of a word as it is written somewhere, or undefined. */
export function termOf(word) {
  const small = String(word).toLowerCase();
  const name = ALSO[small] ?? small;
  return Object.keys(GLOSSARY).find((known) => known.toLowerCase() === name);
}
