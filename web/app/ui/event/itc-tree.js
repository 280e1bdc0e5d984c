// The trees of the paper as functions over [0, 1): what an id owns, how high an event tree is.

/** Intervals `{from, to}` that an id tree (0, 1 or [left, right]) owns. */
export function ownedIntervals(id) {
  const found = [];
  walk(id, 0, 1, (leaf, from, to) => {
    const last = found.at(-1);
    if (leaf !== 1) return;
    if (last && last.to === from) last.to = to;
    else found.push({ from, to });
  });
  return found;
}

/** Steps `{from, to, height}` of an event tree (n or [n, left, right]), neighbours joined. */
export function steps(event) {
  const found = [];
  const todo = [[event, 0, 1, 0]];
  while (todo.length) {
    const [tree, from, to, below] = todo.pop();
    if (!Array.isArray(tree)) {
      const height = below + tree;
      const last = found.at(-1);
      if (last && last.height === height && last.to === from) last.to = to;
      else found.push({ from, to, height });
      continue;
    }
    const middle = (from + to) / 2;
    const base = below + tree[0];
    todo.push([tree[2], middle, to, base], [tree[1], from, middle, base]);
  }
  return found;
}

// A stack of its own: trees may be thousands deep.
function walk(id, from, to, leaf) {
  const todo = [[id, from, to]];
  while (todo.length) {
    const [tree, left, right] = todo.pop();
    if (!Array.isArray(tree)) {
      leaf(tree, left, right);
      continue;
    }
    const middle = (left + right) / 2;
    todo.push([tree[1], middle, right], [tree[0], left, middle]);
  }
}
