import { html } from "../vendor/preact.js";
import { Title } from "../parts/parts.js";

export function Audit() {
  return html`<${Title}>Audit<//>`;
}
