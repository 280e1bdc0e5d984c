import { html, render } from "./core/html.js";
import { resume } from "./core/session.js";
import { App } from "./shell/app.js";

render(html`<${App} />`, document.getElementById("app"));
resume();
