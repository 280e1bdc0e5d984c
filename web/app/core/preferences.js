// Preferences of the browser, which no link carries: theme, refresh, clock, chosen columns.
import { effect, signal } from "../../vendor/signals.js";

function preference(name, fallback, allowed) {
  const key = `itc.${name}`;
  const kept = read(key);
  const value = signal(kept !== undefined && (!allowed || allowed.includes(kept)) ? kept : fallback);
  effect(() => localStorage.setItem(key, JSON.stringify(value.value)));
  return value;
}

function read(key) {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? undefined;
  } catch {
    return undefined; // not ours, so ignored
  }
}

export const THEMES = ["system", "light", "dark"];
export const theme = preference("theme", "system", THEMES);

/** Seconds between refreshes; 0: never. */
export const REFRESH_CHOICES = [5, 10, 30, 0];
export const refreshSeconds = preference("refresh", 5, REFRESH_CHOICES);

const CLOCKS = ["local", "utc"];
export const clock = preference("clock", "local", CLOCKS);

/** True if parts for experts are shown. */
export const expertOpen = preference("expert", false, [true, false]);

/** True once the help was read. */
export const helpRead = preference("help-read", false, [true, false]);

export const eventColumns = preference("columns", null);

/** In rem, by column, where somebody has drawn it wider or narrower. */
export const columnWidths = preference("widths", {});

/** `[{name, address}]`: filters and times of a view under a name. */
export const savedViews = preference("views", []);

export const wrapPayload = preference("wrap", true, [true, false]);

const dark = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(dark.matches);
dark.addEventListener("change", () => (systemDark.value = dark.matches));

/** "light" or "dark", as shown now. Canvases repaint when it changes. */
export const shownTheme = signal("light");
effect(() => {
  const dark = theme.value === "dark" || (theme.value === "system" && systemDark.value);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  shownTheme.value = dark ? "dark" : "light";
});
