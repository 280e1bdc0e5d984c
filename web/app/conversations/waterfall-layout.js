// From messages to rectangles: time to the right, a lane for each copy of a message. Pure.

export const ROW = 30;
const MOST_LANES = 3;
const PAD = 6;
const LEAST = 2; // pixels, so that what took no time can be seen

/** `x(seconds)` for the seconds `from` to `to` on so many pixels. */
export function scaleOf({ from, to }, pixels) {
  const perSecond = pixels / Math.max(to - from, 1e-9);
  return (seconds) => (seconds - from) * perSecond;
}

/** Round times between `from` and `to`, about one to `spacing` pixels. */
export function ticksOf({ from, to }, pixels, spacing = 110) {
  const rough = ((to - from) * spacing) / Math.max(pixels, 1);
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1e-9)));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  const ticks = [];
  for (let n = Math.ceil(from / step - 1e-9); n * step <= to + step * 1e-9; n += 1) ticks.push(n * step);
  return ticks;
}

/**
 * What a row shows: `bars` of `{kind, x, y, width, height, critical, event}` with kind queued, handled,
 * settled, held (not settled yet) or waiting, and `marks` of `{kind, x, y, event}` with kind published, delivered, redelivered or died.
 */
export function rowShapes(message, x, end) {
  const lanes = Math.max(1, Math.min(MOST_LANES, message.copies.length));
  const height = (ROW - 2 * PAD - (lanes - 1) * 2) / lanes;
  const bars = [];
  const marks = [{ kind: "published", x: x(message.offset), y: PAD, height: ROW - 2 * PAD, event: message.event }];
  const bar = (kind, from, to, y, rest) =>
    bars.push({ kind, x: x(from), y, width: Math.max(LEAST, x(to) - x(from)), height, ...rest });
  message.copies.forEach((copy, n) => {
    const y = PAD + Math.min(n, lanes - 1) * (height + 2);
    let before = message.offset;
    for (const delivery of copy.deliveries) {
      const { event, critical } = delivery;
      bar("queued", before, delivery.offset, y, { event, critical: critical && message.critical });
      before = delivery.offset;
      const kind = delivery.match === "dead_lettered" ? "died" : delivery.redelivered ? "redelivered" : "delivered";
      marks.push({ kind, x: x(delivery.offset), y, height, event });
      if (delivery.handled != null) {
        before = delivery.offset + delivery.handled;
        bar("handled", delivery.offset, before, y, { event, critical });
      }
      const low = { event, critical: false, height: height / 3 };
      if (delivery.settled_after != null) {
        before = delivery.offset + delivery.settled_after;
        bar("settled", delivery.offset, before, y + (height * 2) / 3, low);
      } else if (delivery.settlement === "in_hand") bar("held", delivery.offset, end, y + (height * 2) / 3, low);
    }
    if (copy.state === "waiting") bar("waiting", message.offset, end, y, { event: message.event, critical: false });
    if (copy.state === "dead_lettered" && !copy.deliveries.some(({ match }) => match === "dead_lettered")) {
      marks.push({ kind: "died", x: x(before), y, height, event: message.event });
    }
  });
  return { bars, marks };
}
