import { html } from "../vendor/preact.js";
import { Title } from "../parts/parts.js";

export function Consumer() {
  return html`<${Title}>Consumer<//>`;
}
