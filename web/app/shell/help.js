// The help, and the keys that work on every tab; each tab adds its own.
import { signal } from "../../vendor/signals.js";
import { useEffect, useRef } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { helpRead } from "../core/preferences.js";
import { Icon } from "../ui/icons.js";
import { filterWanted, useKeys } from "../core/keys.js";
import { lazy } from "../ui/lazy.js";
import { closeEvent, go, goToTab, openEvent, patch, TABS } from "../core/route.js";

export const helpOpen = signal(false);
const HelpText = lazy(() => import("./help-text.js"), "the help");

export function Help() {
  const dialog = useRef(null);
  useEffect(() => {
    if (helpOpen.value) helpRead.value = true;
    if (helpOpen.value) dialog.current.showModal();
    else dialog.current.close();
  }, [helpOpen.value]);

  return html`<dialog ref=${dialog} aria-labelledby="help-title"
    onClose=${() => (helpOpen.value = false)}>
    <div class="dialog-head">
      <h2 id="help-title">Help</h2>
      <button class="button quiet icon" aria-label="Close" onClick=${() => (helpOpen.value = false)}>
        <${Icon} name="close" />
      </button>
    </div>
    <div class="dialog-body help">
    ${helpOpen.value && html`<${HelpText} onLeave=${() => (helpOpen.value = false)} />`}
    </div>
  </dialog>`;
}

/** The open event, or that of the row with the focus. */
function pin(name) {
  const id = openEvent.value ?? /^event (\d+)$/.exec(document.activeElement?.dataset.focus)?.[1];
  if (id) patch({ [name]: id });
}

export function useGlobalKeys() {
  const keys = {
    "?": () => (helpOpen.value = true),
    "/": () => {
      const box = document.querySelector("#event-filter, .find input");
      filterWanted.value = !box;
      if (box) box.focus();
      else go("events");
    },
    x: () => patch({ a: null, b: null }),
    Escape: closeEvent,
    a: () => pin("a"),
    b: () => pin("b"),
  };
  TABS.forEach((tab, i) => (keys[i + 1] = () => goToTab(tab)));
  useKeys(keys);
}
