// The console: shows the hub that serves it.
import { html, render } from "./vendor/preact.js";

const hub = new URL("..", document.baseURI);
const answer = await fetch(new URL("version", hub));
const { name, version } = await answer.json();
render(html`<h1>${name} ${version}</h1>`, document.body);
