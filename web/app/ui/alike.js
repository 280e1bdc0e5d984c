// Items that are alike as one row, which opens to each.
import { useState } from "../../vendor/hooks.js";

export const FEWEST = 3; // are one row

/** Items with alike ones as one, `{...the first, alike, id}`, at the place of the first; `kindOf(item)` is equal for alike ones. */
export function foldedOf(items, kindOf) {
  const kinds = Map.groupBy(items, kindOf);
  return items.flatMap((one) => {
    const alike = kinds.get(kindOf(one));
    return alike.length < FEWEST ? [one] : one === alike[0] ? [{ ...one, alike, id: kindOf(one) }] : [];
  });
}

/** Ids of the rows that are open, and `turn(id)`. */
export function useOpen() {
  const [open, setOpen] = useState(() => new Set());
  return [open, (id) => setOpen((before) => new Set(before.has(id) ? [...before].filter((one) => one !== id) : [...before, id]))];
}
