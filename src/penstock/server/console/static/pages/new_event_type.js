import { html } from "../vendor/preact.js";
import { Title } from "../parts/parts.js";

export function NewEventType() {
  return html`<${Title}>NewEventType<//>`;
}
