import { html } from "../vendor/preact.js";
import { Title } from "../parts/parts.js";

export function ColdTier() {
  return html`<${Title}>ColdTier<//>`;
}
