import { html } from "../vendor/preact.js";
import { Title } from "../parts/parts.js";

export function Consumers() {
  return html`<${Title}>Consumers<//>`;
}
