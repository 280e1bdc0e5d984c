import { askTraces } from "./core/api.js";
import { html, render } from "./core/html.js";
import { resume } from "./core/session.js";
import { App } from "./shell/app.js";

resume();
askTraces(); // they need not wait until it is known who is signed in
render(html`<${App} />`, document.getElementById("app"));
