// Whether what is shown is of now: whether the service answers, and what it depends on.
import { useEffect } from "../../vendor/hooks.js";
import { computed, signal } from "../../vendor/signals.js";
import { api } from "./api.js";
import { sentence } from "./format.js";
import { isOutage, useResource } from "./resource.js";
import { traces } from "./traces.js";

const NOUNS = { broker: "the broker", database: "the database" };

// What the service says of what it depends on, `{broker: "ok", jobs: "jobs need …", …}`.
const checks = signal({});

/** Asks while the calling component is shown. */
export function useHealthPolling() {
  const { data } = useResource(api.ready, []);
  useEffect(() => {
    if (data) checks.value = data.checks ?? {};
  }, [data]);
}

/** Why figures may not be of now, as a sentence; null if nothing is known to be wrong. */
export const outage = computed(() => {
  const { error } = traces.value;
  if (error && isOutage(error)) return error.status ? sentence(error.reason) : "The service does not answer.";
  const away = Object.entries(checks.value).filter(([, state]) => state === "unavailable");
  if (!away.length) return null;
  const names = away.map(([name]) => NOUNS[name] ?? name).join(" and ");
  return sentence(`${names} ${away.length > 1 ? "do" : "does"} not answer`);
});

/** What to install before jobs can run, as a sentence; null where they can. */
export const jobsLack = computed(() => {
  const state = checks.value.jobs ?? "ok";
  return ["ok", "unavailable"].includes(state) ? null : sentence(state);
});

/** Whether figures are to look old: what is shown is as it was. */
export const isStale = computed(() => outage.value !== null);
