// One piece of work at a time, such as a form's.
import { useState } from "../../vendor/hooks.js";

/** `{busy, error, run, forget}`: `run(work)` does nothing while it is busy; `error` is what the last work threw. */
export function useWork() {
  const [state, setState] = useState({ busy: false, error: null });
  const run = async (work) => {
    if (state.busy) return;
    setState({ busy: true, error: null });
    const error = await Promise.resolve().then(work).then(() => null, (refused) => refused);
    setState({ busy: false, error });
  };
  return { ...state, run, forget: () => setState({ ...state, error: null }) };
}
