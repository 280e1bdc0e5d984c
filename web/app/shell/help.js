// The keys that work on every tab, and the list of all; each tab adds its own.
import { signal } from "../../vendor/signals.js";
import { useEffect, useRef } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { helpRead } from "../core/preferences.js";
import { Icon } from "../ui/icons.js";
import { useKeys } from "../core/keys.js";
import { FirstVisit, Words } from "./first-visit.js";
import { closeEvent, go, goBack, openEvent, patch, TABS } from "../core/route.js";

export const helpOpen = signal(false);

const GROUPS = [
  [
    "Everywhere",
    [
      [["?"], "this help"],
      ...TABS.map(([, label], i) => [[String(i + 1)], label]),
      [["/"], "filter events"],
      [["Esc"], "close the event"],
    ],
  ],
  [
    "Events",
    [
      [["↓", "↑"], "next, previous row (also J, K)"],
      [["Enter"], "open the event"],
      [["Home"], "go to the newest"],
      [["Space"], "pause or resume the live tail"],
      [["Tab"], "complete, in the filter box"],
    ],
  ],
  ["Failures", [[["↓", "↑"], "next, previous failure (also J, K)"], [["←", "→"], "on the plot: next, previous bar"]]],
  [
    "A conversation",
    [
      [["↓", "↑"], "next, previous message"],
      [["→", "←"], "unfold, fold what it led to"],
      [["Enter"], "open the event at the side"],
      [["+", "−", "F"], "zoom in, out, all of it"],
    ],
  ],
  [
    "The open event",
    [
      [["A"], "pin as A"],
      [["B"], "pin as B"],
      [["C"], "go to its cause"],
      [["X"], "unpin both"],
    ],
  ],
  [
    "Space-time",
    [
      [["↓", "↑"], "next, previous on its lane"],
      [["→", "←"], "to its effect, to its cause"],
      [["+", "−"], "zoom in, out"],
      [["F"], "fit all loaded events"],
      [["[", "]"], "narrower, wider lanes"],
      [["PgDn", "PgUp"], "a page down, up"],
      [["Home", "End"], "oldest, newest loaded event"],
      [["L"], "list the events in view"],
      [["G"], "legend of every sign"],
      [["Space"], "follow new events, or stop"],
    ],
  ],
];

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
    ${helpOpen.value && html`<${FirstVisit} onLeave=${() => (helpOpen.value = false)} />`}
    <h3>Keys</h3>
    <div class="keys">
      ${GROUPS.map(
        ([title, keys]) => html`<section key=${title}>
          <h4>${title}</h4>
          <dl>${keys.map(
            ([names, text]) => html`<dt>${names.map((n) => html`<kbd>${n}</kbd>`)}</dt>
              <dd>${text}</dd>`,
          )}</dl>
        </section>`,
      )}
    </div>
    ${helpOpen.value && html`<${Words} />`}
    </div>
  </dialog>`;
}

function focusFilter() {
  const box = document.getElementById("event-filter");
  box?.focus();
  return box !== null;
}

export function useGlobalKeys() {
  const keys = {
    "?": () => (helpOpen.value = true),
    "/": () => {
      if (focusFilter()) return;
      go("events");
      requestAnimationFrame(focusFilter);
    },
    x: () => patch({ a: null, b: null }),
    Escape: closeEvent,
    a: () => openEvent.value && patch({ a: openEvent.value }),
    b: () => openEvent.value && patch({ b: openEvent.value }),
  };
  TABS.forEach(([name], i) => (keys[i + 1] = () => goBack(name)));
  useKeys(keys);
}
