// Two texts, line by line: lines of both, of only the one, of only the other.
const MOST_LINES = 1500;

/** `[{sign: " " | "-" | "+", line}]`, or null if there are too many lines to compare. */
export function diff(before, after) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  const room = Math.min(a.length, b.length) - head;
  while (tail < room && a.at(-1 - tail) === b.at(-1 - tail)) tail += 1;
  const [left, right] = [a.slice(head, a.length - tail), b.slice(head, b.length - tail)];
  if (Math.max(left.length, right.length) > MOST_LINES) return null;
  const same = (lines) => lines.map((line) => ({ sign: " ", line }));
  return [...same(a.slice(0, head)), ...between(left, right), ...same(tail ? a.slice(-tail) : [])];
}

/** By the longest common subsequence. */
function between(a, b) {
  const width = b.length + 1;
  const longest = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const at = i * width + j;
      longest[at] =
        a[i] === b[j] ? longest[at + width + 1] + 1 : Math.max(longest[at + width], longest[at + 1]);
    }
  }
  const found = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    const at = i * width + j;
    if (i < a.length && j < b.length && a[i] === b[j]) {
      found.push({ sign: " ", line: a[i] });
      [i, j] = [i + 1, j + 1];
    } else if (j >= b.length || (i < a.length && longest[at + width] >= longest[at + 1])) {
      found.push({ sign: "-", line: a[i] });
      i += 1;
    } else {
      found.push({ sign: "+", line: b[j] });
      j += 1;
    }
  }
  return found;
}
