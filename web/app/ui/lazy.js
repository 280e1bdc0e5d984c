// Parts of the page whose code is loaded when they are first looked at: most visits see few of them.
import { useEffect, useState } from "../../vendor/hooks.js";
import { isOutdated } from "../core/api.js";
import { html } from "../core/html.js";
import { Failure } from "./panel.js";

/**
 * A component for the default export that `load()` imports; `what` names it while it comes. Its
 * `ask()` loads the code before the component is shown.
 */
export function lazy(load, what) {
  let Part = null;
  let asked = null;
  const ask = () => (asked ??= load().then((module) => (Part = module.default)));

  function Lazy(props) {
    const [error, setError] = useState(null);
    const [, setLoaded] = useState(Part !== null);
    useEffect(() => {
      if (error) return undefined;
      let shown = true;
      ask().then(
        () => shown && setLoaded(true),
        async (reason) => {
          asked = null;
          console.error(reason);
          const because = (await isOutdated()) ? ": the server has another version of this page by now" : "";
          if (shown) setError({ reason: `The code of ${what} could not be loaded${because}.`, isOutdated: because !== "" });
        },
      );
      return () => (shown = false);
    }, [error]);
    if (Part) return html`<${Part} ...${props} />`;
    // The address keeps what is shown.
    const again = () => (error.isOutdated ? location.reload() : setError(null));
    if (error) return html`<div class="panel-body"><${Failure} error=${error} onRetry=${again} /></div>`;
    return html`<p class="loading" role="status">Loading ${what} …</p>`;
  }
  Lazy.ask = () => ask().catch(() => (asked = null));
  return Lazy;
}
