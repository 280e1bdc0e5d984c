// Formats of values, in one place, so that a thing looks the same everywhere.
import { now } from "./now.js";
import { clock } from "./preferences.js";

const whole = new Intl.NumberFormat("en-US");
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

export const count = (n) => (n == null ? "–" : whole.format(n));
export const compact = (n) => (n == null ? "–" : n < 10_000 ? whole.format(n) : short.format(n));
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** A reason given by the API as a sentence, made harmless to the eye. */
export function sentence(text) {
  const begun = said(text.charAt(0).toUpperCase() + text.slice(1));
  return /[.!?]$/.test(text) ? begun : `${begun}.`;
}

/** An error as a sentence: the API's reason, or the page's own error. */
export const reasonOf = (error) => sentence(error.reason ?? String(error));

export function rate(n) {
  if (n == null) return "–";
  if (n === 0) return "0/s";
  if (n < 0.1) return "< 0.1/s";
  if (n < 1) return `${Number(n.toFixed(2))}/s`;
  return `${n < 10 ? n.toFixed(1) : compact(Math.round(n))}/s`;
}

export function percent(part, all) {
  if (!all) return "0 %";
  const share = (100 * part) / all;
  if (share > 0 && share < 0.1) return "< 0.1 %";
  return `${share < 10 && share % 1 ? share.toFixed(1) : Math.round(share)} %`;
}

export function bytes(n) {
  if (n == null) return "–";
  if (n < 1000) return `${n} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let value = n;
  let unit = -1;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function seconds(n) {
  if (n == null) return "–";
  if (n < 0.001) return "< 1 ms"; // events are timed when they are read
  if (n < 1) return `${n < 0.01 ? (n * 1000).toFixed(1) : Math.round(n * 1000)} ms`;
  if (n < 59.5) return `${n.toFixed(n < 10 ? 1 : 0)} s`;
  const all = Math.round(n);
  const [amount, one, rest, other] = all < 3600 ? [all / 60, "min", all % 60, "s"] : [all / 3600, "h", Math.floor((all % 3600) / 60), "min"];
  return `${Math.floor(amount)} ${one}${rest ? ` ${rest} ${other}` : ""}`;
}

/** Parts of a whole in percent, which come to 100 together: the last takes what rounding leaves. */
export function shares(parts) {
  const all = parts.reduce((sum, part) => sum + part, 0);
  const rounded = parts.slice(0, -1).map((part) => Math.round((100 * part) / (all || 1)));
  const rest = Math.max(0, 100 - rounded.reduce((sum, n) => sum + n, 0));
  return [...rounded, rest].map((n, i) => (n || !parts[i] ? `${n} %` : "< 1 %"));
}

/** A time in its largest unit: 16 min, 3 h, 2 days; below ten minutes with seconds. */
function roughly(n) {
  if (n < 60) return `${Math.floor(n)} s`;
  if (n < 600) return `${Math.floor(n / 60)} min ${Math.floor(n % 60)} s`;
  if (n < 3600) return `${Math.floor(n / 60)} min`;
  return n < 2 * 86_400 ? `${Math.floor(n / 3600)} h` : `${Math.floor(n / 86_400)} days`;
}

/** The seconds since a moment, by the page's clock; one behind the service's makes none negative. */
export const secondsSince = (at) => Math.max(0, (now.value - Date.parse(at)) / 1000);

export const ageOf = (at) => roughly(secondsSince(at));

const RESOLUTION = 0.01; // s: how far apart the service reads its socket, as a rule

/** A time between two trace messages, which is known no better than when they were read. */
export function passed(n) {
  if (n == null) return "–";
  return n < RESOLUTION ? "under 10 ms" : seconds(n);
}

const pad = (n, width = 2) => String(n).padStart(width, "0");

function fields(iso) {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return null;
  const utc = clock.value === "utc";
  const get = (name) => date[`get${utc ? "UTC" : ""}${name}`]();
  return {
    day: `${get("FullYear")}-${pad(get("Month") + 1)}-${pad(get("Date"))}`,
    time: `${pad(get("Hours"))}:${pad(get("Minutes"))}:${pad(get("Seconds"))}`,
    millis: pad(get("Milliseconds"), 3),
  };
}

/** 12:03:04.678, in the chosen clock. */
export function time(iso) {
  const at = fields(iso);
  return at ? `${at.time}.${at.millis}` : "–";
}

/** 12:03:04. */
export const clockTime = (iso) => fields(iso)?.time ?? "–";

/** 12:03:04.678, with the month and day before it unless that is today. */
export function recent(iso) {
  const at = fields(iso);
  if (!at) return "–";
  return `${isToday(iso) ? "" : `${at.day.slice(5)} `}${at.time}.${at.millis}`;
}

/** The time zone of the shown times. */
export const zone = () => (clock.value === "utc" ? "UTC" : Intl.DateTimeFormat().resolvedOptions().timeZone);

/** A count in words: once, twice, 3 times. */
export const times = (n) => ["never", "once", "twice"][n] ?? `${count(n)} times`;

/** The times that something came back, behind an age: `, where it came back twice`. */
export const returnsText = (returns) => (returns ? `, where it came back ${times(returns)}` : "");

export const isToday = (iso) => fields(iso)?.day === fields(Date.now()).day;

/** 2026-01-02 12:03:04, in the chosen clock. */
export function dateTime(iso) {
  const at = fields(iso);
  return at ? `${at.day} ${at.time}` : "–";
}

/** 12:03:04, with the whole date before it unless that is today. */
export const moment = (iso) => (isToday(iso) ? clockTime : dateTime)(iso);

/** A period, of which the end has a date only where that is another than the begin's. */
export const span = (from, until, to = "to") => {
  if (isToday(from) && clockTime(from) === clockTime(until)) return `${time(from)} ${to} ${time(until)}`; // within a second
  return `${moment(from)} ${to} ${(fields(from)?.day === fields(until)?.day ? clockTime : dateTime)(until)}`;
};

const SAID = /\b(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC\b/g;

/** A sentence of the service with its times in the chosen clock. */
const inOurTime = (text) => text.replace(SAID, (_, day, at) => moment(`${day}T${at}Z`));

/** The same, made harmless to the eye; what is written from right to left turns nothing around but itself. */
export const said = (text) => inOurTime(spelled(text).replace(RUNS_FROM_RIGHT, "\u2068$&\u2069"));

const TYPED = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?))?$/;

/** Turns `dateTime`'s text, or a person's like it, into the API's form; null if it is no time. */
export function ofClock(text) {
  const [, day, at = "00:00"] = TYPED.exec(text.trim()) ?? [];
  const date = new Date(`${day}T${at}${clock.peek() === "utc" ? "Z" : ""}`);
  return Number.isNaN(date.getTime()) ? null : date.toISOString();
}

/** A time of the API in microseconds since the epoch; Date would keep milliseconds only. */
export function toMicros(iso) {
  const digits = /\.(\d+)/.exec(iso)?.[1] ?? "";
  return Math.floor(Date.parse(iso) / 1000) * 1e6 + Number(digits.padEnd(6, "0").slice(0, 6));
}

/**
 * Text of unknown origin, made harmless to the eye: control characters and marks that change the
 * reading direction are spelled out. `lines` keeps line ends and tabs. Not for what went through it already.
 */
export function visible(text, { lines = false } = {}) {
  const shown = spelled(text, lines);
  return !lines && FROM_RIGHT.test(shown) ? `\u2068${shown}\u2069` : shown;
}

/** A text that went through these, cut after this many letters; a name that it cuts is isolated up to there. */
export function shortened(text, most) {
  if (text.length <= most) return text;
  const begin = text.slice(0, most - 1);
  return `${begin}${begin.lastIndexOf("\u2068") > begin.lastIndexOf("\u2069") ? "\u2069" : ""}…`;
}

function spelled(text, lines = false) {
  return String(text).replace(INVISIBLE, (c) => {
    if (lines && (c === "\n" || c === "\t" || c === "\r")) return c === "\r" ? "" : c;
    const code = c.codePointAt(0);
    return `\u27e8${NAMES[code] ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`}\u27e9`;
  });
}

// Text written from right to left is isolated, or it would turn around the text behind it: "204 ms".
const FROM_RIGHT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]/;
// The space behind a full stop is between two sentences, and two names.
const RUNS_FROM_RIGHT = new RegExp(`${FROM_RIGHT.source}+(?:(?:[\\d._-]|(?<!\\.)\\s)*${FROM_RIGHT.source}+)*`, "g");

const NAMES = { 0: "NUL", 7: "BEL", 8: "BS", 9: "TAB", 10: "LF", 13: "CR", 27: "ESC", 127: "DEL" };
const INVISIBLE =
  /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** The default exchange has an empty name; RabbitMQ's own page calls it this. */
export const exchangeName = (name) => (name === "" ? "(default)" : visible(name));

/** The API's field for a participant as people write it: a number, or else a name. */
export const participantField = (value) => (/^\d+$/.test(value) ? "participant" : "participant_name");

/** A regular expression that fits this text alone. */
export const literal = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
