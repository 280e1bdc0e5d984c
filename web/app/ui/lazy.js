// Parts of the page whose code is loaded when they are first looked at: drawings are large, and most
// visits see none of them.
import { useEffect, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { Failure } from "./panel.js";

/** A component for what `load()` imports, the module's default; `what` names it while it comes. */
export function lazy(load, what) {
  let Part = null;
  return function Lazy(props) {
    const [error, setError] = useState(null);
    const [, setLoaded] = useState(Part !== null);
    useEffect(() => {
      if (Part || error) return undefined;
      let shown = true;
      load().then(
        (module) => {
          Part = module.default;
          if (shown) setLoaded(true);
        },
        (reason) => {
          console.error(reason);
          if (shown) setError({ reason: `The code of ${what} could not be loaded.` });
        },
      );
      return () => (shown = false);
    }, [error]);
    if (Part) return html`<${Part} ...${props} />`;
    if (error) return html`<div class="panel-body"><${Failure} error=${error} onRetry=${() => setError(null)} /></div>`;
    return html`<p class="loading" role="status">Loading ${what} …</p>`;
  };
}
