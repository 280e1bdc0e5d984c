// All that a colleague can be given of a conversation: its sentence, its link, its picture, and the picture's file.
import { saveBlob } from "../core/download.js";
import { html } from "../core/html.js";
import { attempt, tell } from "../core/notices.js";
import { CopyButton, NO_COPY } from "../ui/copy.js";
import { Icon } from "../ui/icons.js";
import { Menu } from "../ui/menu.js";
import { summaryOf } from "./words.js";

/**
 * `drawn.current`: `{drawing, name, mermaid}` once there is a drawing. `drawing()` returns its shapes, or a promise of
 * them; `name` is its file's, without the extension; `mermaid()` is its text, where it has one.
 */
export const Share = ({ model, drawn }) => html`<${Menu} label="Share" icon="link" small>
  ${() => html`<p class="small soft">Copy, to paste into a chat or a ticket</p>
    <div class="drawer-line"><${CopyButton} text=${() => summaryOf(model)} label="Sentence" />
      <${CopyButton} text=${() => location.href} label="Link" icon="link" />
      ${drawn.current && html`<${Picture} ...${drawn.current} />`}</div>
    ${drawn.current && html`<p class="small soft">Save the picture</p><${Files} ...${drawn.current} />`}`}
<//>`;

// The code that draws pictures comes with the first one.
const blobOf = async (drawing, kind) => (await import("./picture.js")).default(await drawing(), kind);

function Picture({ drawing, mermaid }) {
  // The promise, not the picture: a browser lets a page copy only at once after a click.
  const copy = () =>
    navigator.clipboard && window.ClipboardItem
      ? attempt(() => navigator.clipboard.write([new ClipboardItem({ "image/png": blobOf(drawing, "png") })]), "The picture is copied.")
      : tell(NO_COPY, "bad");
  return html`<button class="button small" onClick=${copy}><${Icon} name="copy" />Picture</button>
    ${mermaid && html`<${CopyButton} text=${mermaid} label="Mermaid" title="A text that many tickets and documents draw" />`}`;
}

const Files = ({ drawing, name }) => html`<div class="drawer-line">${["png", "svg"].map((kind) => html`<button class="button small" key=${kind}
  onClick=${() => attempt(async () => saveBlob(await blobOf(drawing, kind), `${name}.${kind}`))}><${Icon} name="download" />${kind.toUpperCase()}</button>`)}</div>`;
