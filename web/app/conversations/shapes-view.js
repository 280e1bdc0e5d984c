import { html } from "../core/html.js";

/** A token of the style sheet as a colour in an SVG. */
export const paint = (token) => (token ? `var(${token})` : "none");

/** One shape as a part of an SVG; `paint` and `halo`, the attributes of texts with one, where no style sheet is. */
export function Shape({ shape: s, paint: ink = paint, halo }) {
  if (s.kind === "rect") {
    return html`<rect x=${s.x} y=${s.y} width=${s.w} height=${s.h} rx=${s.r} fill=${ink(s.fill)} stroke=${ink(s.stroke)} class=${s.ground ? "ground" : undefined} />`;
  }
  if (s.kind === "path") {
    return html`<path d=${s.d} fill=${ink(s.fill)} stroke=${ink(s.stroke)} stroke-width=${s.width} stroke-dasharray=${s.dash} />`;
  }
  return html`<text x=${s.x} y=${s.y} text-anchor=${s.anchor} font-size=${s.size} font-weight=${s.bold ? 600 : 400} fill=${ink(s.fill)}
    transform=${s.turn ? `rotate(${s.turn} ${s.x} ${s.y})` : undefined} class=${s.halo ? "halo" : undefined} ...${s.halo && halo}>${s.text}</text>`;
}
