import { saveBlob } from "../core/download.js";
import { html } from "../core/html.js";
import { attempt, tell } from "../core/notices.js";
import { NO_COPY } from "../ui/copy.js";
import { Icon } from "../ui/icons.js";
import { pngBlob, svgText } from "./picture.js";

/** `drawing()` returns what to save, or a promise of it; `name` is the file's, without its extension. */
export function SaveButtons({ drawing, name }) {
  const picture = async () => pngBlob(await drawing());
  const svg = () => attempt(async () => saveBlob(new Blob([svgText(await drawing())], { type: "image/svg+xml" }), `${name}.svg`));
  const png = () => attempt(async () => saveBlob(await picture(), `${name}.png`));
  // The promise, not the picture: a browser lets a page copy only at once after a click.
  const copy = () =>
    navigator.clipboard && window.ClipboardItem
      ? attempt(() => navigator.clipboard.write([new ClipboardItem({ "image/png": picture() })]), "The picture is copied.")
      : tell(NO_COPY, "bad");
  return html`<button class="button small" onClick=${copy} title="Copy as a picture, to paste into a chat or a ticket"><${Icon} name="copy" />Picture</button>
    <button class="button small" onClick=${svg}><${Icon} name="download" />SVG</button>
    <button class="button small" onClick=${png}><${Icon} name="download" />PNG</button>`;
}
