import { html } from "../vendor/preact.js";
import { Title } from "../parts/parts.js";

export function EventType() {
  return html`<${Title}>EventType<//>`;
}
