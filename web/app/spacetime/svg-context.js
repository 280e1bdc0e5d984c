// A canvas context, as far as the painter uses one, that writes what is drawn as SVG.
const number = (n) => String(Math.round(n * 100) / 100);

const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (text) => String(text).replace(/[&<>"]/g, (letter) => ESCAPES[letter]);

const ANCHORS = { left: "start", right: "end", center: "middle" };
const BASELINES = { middle: "central", bottom: "text-after-edge" };
const STATE = {
  fillStyle: "#000",
  strokeStyle: "#000",
  lineWidth: 1,
  globalAlpha: 1,
  font: "10px sans-serif",
  textAlign: "left",
  textBaseline: "alphabetic",
};

export class SvgContext {
  isVector = true;

  constructor(width, height) {
    this.size = { width, height };
    this.parts = [];
    this.path = [];
    this.dash = [];
    this.saved = [];
    this.open = 0; // how many groups are open here
    this.clips = 0;
    this.measure = new OffscreenCanvas(1, 1).getContext("2d");
    Object.assign(this, STATE);
  }

  /** The whole drawing as a document. */
  text() {
    const { width, height } = this.size;
    const head = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">`;
    return `${head}${this.parts.join("")}${"</g>".repeat(this.open)}</svg>`;
  }

  save() {
    const state = Object.fromEntries(Object.keys(STATE).map((name) => [name, this[name]]));
    this.saved.push({ state, dash: this.dash, open: this.open });
    this.open = 0;
  }

  restore() {
    const { state, dash, open } = this.saved.pop();
    this.parts.push("</g>".repeat(this.open));
    Object.assign(this, state, { dash, open });
  }

  group(attributes) {
    this.parts.push(`<g ${attributes}>`);
    this.open += 1;
  }

  translate(x, y) {
    this.group(`transform="translate(${number(x)} ${number(y)})"`);
  }

  rotate(angle) {
    this.group(`transform="rotate(${number((angle * 180) / Math.PI)})"`);
  }

  clip() {
    this.clips += 1;
    this.parts.push(`<clipPath id="clip-${this.clips}"><path d="${this.path.join("")}"/></clipPath>`);
    this.group(`clip-path="url(#clip-${this.clips})"`);
  }

  getTransform() {
    return { a: 1 };
  }

  clearRect() {} // nothing has been drawn there yet

  setLineDash(dash) {
    this.dash = dash;
  }

  measureText(text) {
    this.measure.font = this.font;
    return this.measure.measureText(text);
  }

  // -- paths

  beginPath() {
    this.path = [];
  }

  moveTo(x, y) {
    this.path.push(`M${number(x)} ${number(y)}`);
  }

  lineTo(x, y) {
    this.path.push(`L${number(x)} ${number(y)}`);
  }

  bezierCurveTo(...points) {
    this.path.push(`C${points.map(number).join(" ")}`);
  }

  rect(x, y, width, height) {
    this.path.push(`M${number(x)} ${number(y)}h${number(width)}v${number(height)}h${number(-width)}z`);
  }

  /** Whole circles only. */
  arc(x, y, radius) {
    const [r, d] = [number(radius), number(2 * radius)];
    this.path.push(`M${number(x - radius)} ${number(y)}a${r} ${r} 0 1 0 ${d} 0a${r} ${r} 0 1 0 -${d} 0`);
  }

  stroke() {
    const dash = this.dash.length ? ` stroke-dasharray="${this.dash.join(" ")}"` : "";
    this.draw(`fill="none" stroke="${escaped(this.strokeStyle)}" stroke-width="${number(this.lineWidth)}"${dash}`);
  }

  fill() {
    this.draw(`fill="${escaped(this.fillStyle)}"`);
  }

  draw(style) {
    if (this.path.length) this.parts.push(`<path d="${this.path.join("")}" ${style}${this.opacity()}/>`);
  }

  opacity() {
    return this.globalAlpha < 1 ? ` opacity="${number(this.globalAlpha)}"` : "";
  }

  fillRect(x, y, width, height) {
    const place = `x="${number(x)}" y="${number(y)}" width="${number(Math.max(0, width))}" height="${number(Math.max(0, height))}"`;
    this.parts.push(`<rect ${place} fill="${escaped(this.fillStyle)}"${this.opacity()}/>`);
  }

  fillText(text, x, y) {
    const place = `x="${number(x)}" y="${number(y)}" text-anchor="${ANCHORS[this.textAlign]}"`;
    const baseline = BASELINES[this.textBaseline] ? ` dominant-baseline="${BASELINES[this.textBaseline]}"` : "";
    const style = `style="font:${escaped(this.font)}" fill="${escaped(this.fillStyle)}"${this.opacity()}`;
    this.parts.push(`<text ${place}${baseline} ${style}>${escaped(text)}</text>`);
  }
}
