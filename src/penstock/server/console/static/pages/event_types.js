import { html } from "../vendor/preact.js";
import { Title } from "../parts/parts.js";

export function EventTypes() {
  return html`<${Title}>EventTypes<//>`;
}
