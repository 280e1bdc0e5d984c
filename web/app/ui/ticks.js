// Ticks of a logarithmic axis of durations: round ones, each with its unit.
const DECADES = [0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 36_000, 86_400, 864_000];
const FINE = DECADES.flatMap((n, i) => [n, 2 * n, 5 * n].filter((one) => one < (DECADES[i + 1] ?? Infinity)));

/** `[seconds, text]` from `least` to `most`, at most `room` of them. */
export function ticksOf(least, most, room) {
  const [few, many] = [DECADES, FINE].map((all) => all.filter((n) => n >= least && n <= most));
  const ticks = many.length <= room || few.length < 2 ? many : few;
  const every = Math.ceil(ticks.length / room);
  return ticks.filter((_, i) => i % every === 0).map((n) => [n, tickText(n)]);
}

function tickText(n) {
  if (n < 1) return `${Math.round(1000 * n)} ms`;
  const [size, unit] = [[86_400, n < 172_800 ? "day" : "days"], [3600, "h"], [60, "min"], [1, "s"]].find(([one]) => n >= one);
  return `${n / size} ${unit}`;
}
