/** Scrolls a list of rows of this `height` so that one of them is in sight, below a head of this many pixels. */
export function keepInSight(element, index, height, head) {
  if (index == null || index < 0) return;
  const top = index * height;
  if (top < element.scrollTop) element.scrollTop = top;
  else if (top + height + head > element.scrollTop + element.clientHeight) {
    element.scrollTop = top + height + head - element.clientHeight;
  }
}
