// The four relations in words.
import { isSure } from "../ui/caveats.js";

const WORDS = {
  before: ["happened before", "A could have influenced B."],
  after: ["happened after", "B could have influenced A."],
  concurrent: ["is concurrent with", "Neither could have influenced the other."],
  equal: ["is the same as", "Both pins hold the same event."],
};

export const relationWord = (relation) => WORDS[relation]?.[0] ?? relation;
export const relationMeaning = (answer) =>
  answer.relation === "concurrent" && !isSure(answer)
    ? "As far as is known, neither influenced the other."
    : (WORDS[answer.relation]?.[1] ?? "");
