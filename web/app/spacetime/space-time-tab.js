import { html } from "../core/html.js"; export function SpaceTimeTab(){ return html`<div class='page-inner'><h1>SpaceTimeTab</h1></div>`; }
