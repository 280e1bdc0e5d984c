import { html } from "../core/html.js"; export function TopologyTab(){ return html`<div class='page-inner'><h1>TopologyTab</h1></div>`; }
