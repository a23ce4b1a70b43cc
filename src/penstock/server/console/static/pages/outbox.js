import { html } from "../vendor/preact.js";
import { Title } from "../parts/parts.js";

export function Outbox() {
  return html`<${Title}>Outbox<//>`;
}
