// The relation of two events, in words.

const WORDS = {
  before: "happened before",
  after: "happened after",
  concurrent: "is concurrent with",
  equal: "is the same as",
};
const PARTS = {
  caused: { before: "caused", after: "was caused by" },
  "may have": { before: "may have had a part in", after: "may be a result of" },
};

const relationWord = (answer) =>
  answer.answer === "unknown" ? "has no known relation to" : (WORDS[answer.relation] ?? answer.relation);

/** One verdict on what A has to do with B: by messages where they tell, else by the order of causality. */
export const verdictWord = (answer) => PARTS[answer.answer]?.[answer.relation] ?? relationWord(answer);
