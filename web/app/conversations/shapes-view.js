import { html } from "../core/html.js";

/** A token of the style sheet as a colour in an SVG. */
export const paint = (token) => (token ? `var(${token})` : "none");

/** One shape as a part of an SVG. */
export function Shape({ shape: s }) {
  if (s.kind === "rect") {
    return html`<rect x=${s.x} y=${s.y} width=${s.w} height=${s.h} rx=${s.r} fill=${paint(s.fill)} stroke=${paint(s.stroke)} />`;
  }
  if (s.kind === "path") {
    return html`<path d=${s.d} fill=${paint(s.fill)} stroke=${paint(s.stroke)} stroke-width=${s.width} stroke-dasharray=${s.dash} />`;
  }
  return html`<text x=${s.x} y=${s.y} text-anchor=${s.anchor} font-size=${s.size} font-weight=${s.bold ? 600 : 400} fill=${paint(s.fill)}
    class=${s.halo ? "halo" : undefined}>${s.text}</text>`;
}
