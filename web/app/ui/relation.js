// The relation of two events, in words.

const WORDS = {
  before: ["happened before", "A may have had a part in B."],
  after: ["happened after", "B may have had a part in A."],
  concurrent: ["is concurrent with", "Neither could have influenced the other."],
  equal: ["is the same as", "Both pins hold the same event."],
};

export const relationWord = (answer) =>
  answer.answer === "unknown"
    ? "has no known relation to"
    : (WORDS[answer.relation]?.[0] ?? answer.relation);

/** The meaning of a relation; an unknown answer has its own. */
export const relationMeaning = (answer) =>
  answer.answer === "unknown"
    ? "As far as is known, neither influenced the other."
    : (WORDS[answer.relation]?.[1] ?? "");
