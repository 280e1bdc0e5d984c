// The markup language bound to the renderer. Text always becomes text nodes and attribute values:
// nothing in this page parses data as HTML.
import htm from "../../vendor/htm.js";
import { Fragment, h, render } from "../../vendor/preact.js";

export const html = htm.bind(h);
export { Fragment, render };
