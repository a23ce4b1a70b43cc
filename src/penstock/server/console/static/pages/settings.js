import { html } from "../vendor/preact.js";
import { Title } from "../parts/parts.js";

export function Settings() {
  return html`<${Title}>Settings<//>`;
}
