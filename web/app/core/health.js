// The service's health, and so whether the page shows the present.
import { useEffect } from "../../vendor/hooks.js";
import { computed, signal } from "../../vendor/signals.js";
import { api } from "./api.js";
import { sentence } from "./format.js";
import { isOutage, useResource } from "./resource.js";
import { traces } from "./traces.js";

const NOUNS = { broker: "the broker", database: "the database" };

// The state of each thing that the service depends on, `{broker: "ok", jobs: "jobs need …", …}`.
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
  if (error && isOutage(error)) return error.status ? sentence(error.reason) : "The server does not answer.";
  const away = Object.entries(checks.value).filter(([, state]) => state === "unavailable");
  if (!away.length) return null;
  const names = away.map(([name]) => NOUNS[name] ?? name).join(" and ");
  return sentence(`${names} ${away.length > 1 ? "do" : "does"} not answer`);
});

/** A sentence on what to install before jobs can run; null if they can. */
export const jobsLack = computed(() => {
  const state = checks.value.jobs ?? "ok";
  return ["ok", "unavailable"].includes(state) ? null : sentence(state);
});

/** True if the shown figures are old, and must look so. */
export const isStale = computed(() => outage.value !== null);
