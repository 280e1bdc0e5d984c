/**
 * The first place from `low` up to `high` where `reached(place)` holds, or `high` if there is none.
 * Once it holds it must hold for all that follow.
 */
export function lowerBound(low, high, reached) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (reached(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
