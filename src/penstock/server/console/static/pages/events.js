import { html } from "../vendor/preact.js";
import { Title } from "../parts/parts.js";

export function Events() {
  return html`<${Title}>Events<//>`;
}
