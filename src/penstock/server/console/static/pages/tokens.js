import { html } from "../vendor/preact.js";
import { Title } from "../parts/parts.js";

export function Tokens() {
  return html`<${Title}>Tokens<//>`;
}
