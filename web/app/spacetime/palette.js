// The diagram's colours in the theme that is shown.
import { channels, color } from "../ui/color.js";
import { packed } from "./density.js";

const DIMMED = 0.25;

export function palette() {
  const dots = ["--published", "--received", "--bad"].map((token) => channels(token));
  return {
    ground: color("--panel"),
    stripe: color("--sunk", 0.6),
    ink: color("--ink"),
    soft: color("--ink-soft"),
    faint: color("--ink-faint"),
    line: color("--line"),
    lane: color("--line-strong"),
    arrow: color("--ink-faint"),
    published: color("--published"),
    received: color("--received"),
    odd: color("--bad"),
    warn: color("--warn"),
    brand: color("--brand"),
    past: color("--link"),
    future: color("--good"),
    chain: color("--pin-a"),
    pinA: color("--pin-a"),
    pinB: color("--pin-b"),
    pixels: Uint32Array.from([
      ...dots.map((tone) => packed(tone)),
      ...dots.map((tone) => packed(tone, DIMMED)),
    ]),
  };
}
