// What need not wait for the page's own code: who is signed in, and the code of the view that the address names.
import { askWhoami } from "./core/api.js";
import { CODE } from "./shell/views.js";

askWhoami();
const [, name] = /^#\/?([\w-]*)/.exec(location.hash) ?? [];
(CODE[name] ?? CODE.overview)().catch(() => {}); // the page says so, and asks again
