// The fields of an event, as the service describes them: asked once for as long as the page is open.
import { api } from "./api.js";
import { useResource } from "./resource.js";

let known;

/** `{data, error, reload}` as of `useResource`; `data` is a list of `{name, kind, label, …}`. */
export const useFields = () =>
  useResource(async (signal) => (known ??= await api.fields(signal)), [], { every: 0 });
