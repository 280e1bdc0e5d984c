import { html, render } from "./core/html.js";
import { resume } from "./core/session.js";
import { App } from "./shell/app.js";

resume();
render(html`<${App} />`, document.getElementById("app"));
