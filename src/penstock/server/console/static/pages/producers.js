import { html } from "../vendor/preact.js";
import { Title } from "../parts/parts.js";

export function Producers() {
  return html`<${Title}>Producers<//>`;
}
