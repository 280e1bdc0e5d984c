import { saveBlob } from "../core/download.js";
import { html } from "../core/html.js";
import { attempt } from "../core/notices.js";
import { Icon } from "../ui/icons.js";
import { pngBlob, svgText } from "./picture.js";

/** `drawing()` returns what to save; `name` is the file's, without its extension. */
export function SaveButtons({ drawing, name }) {
  const svg = () => attempt(() => saveBlob(new Blob([svgText(drawing())], { type: "image/svg+xml" }), `${name}.svg`));
  const png = () => attempt(async () => saveBlob(await pngBlob(drawing()), `${name}.png`));
  return html`<button class="button small" onClick=${svg}><${Icon} name="download" />SVG</button>
    <button class="button small" onClick=${png}><${Icon} name="download" />PNG</button>`;
}
