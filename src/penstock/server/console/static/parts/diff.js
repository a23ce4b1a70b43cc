// Two texts beside each other, line by line.
import { html, useMemo, useState } from "../vendor/preact.js";
import * as format from "../core/format.js";

/** Above so many pairs of lines, the middle of two texts is shown as replaced. */
const PAIRS_MAX = 4_000_000;
const LINES_MAX = 2_000;

/**
 * Compare two texts.
 *
 * @returns {{kind: "=" | "-" | "+", text: string}[]} the lines of both, in order
 */
export function diffLines(before, after) {
  const old = before.split("\n");
  const now = after.split("\n");
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start += 1;
  let end = 0;
  while (end < old.length - start && end < now.length - start && old.at(-1 - end) === now.at(-1 - end)) end += 1;
  const as = (kind) => (text) => ({ kind, text });
  return [
    ...old.slice(0, start).map(as("=")),
    ...compareMiddle(old.slice(start, old.length - end), now.slice(start, now.length - end)),
    ...old.slice(old.length - end).map(as("=")),
  ];
}

function compareMiddle(old, now) {
  const whole = [...old.map((text) => ({ kind: "-", text })), ...now.map((text) => ({ kind: "+", text }))];
  if (!old.length || !now.length || old.length * now.length > PAIRS_MAX) return whole;
  const width = now.length + 1;
  const common = new Uint32Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      common[i * width + j] = old[i] === now[j] ? common[(i + 1) * width + j + 1] + 1 : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  const found = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      found.push({ kind: "=", text: old[i] });
      i += 1;
      j += 1;
    } else if (i < old.length && (j === now.length || common[(i + 1) * width + j] >= common[i * width + j + 1])) {
      found.push({ kind: "-", text: old[i] });
      i += 1;
    } else {
      found.push({ kind: "+", text: now[j] });
      j += 1;
    }
  }
  return found;
}

/** The lines that differ, each with *context* lines around it; the others can be shown. */
export function Diff({ before, after, context = 3, label = "Differences" }) {
  const [whole, setWhole] = useState(false);
  const lines = useMemo(() => diffLines(before, after), [before, after]);
  const shown = useMemo(() => {
    const near = new Set();
    lines.forEach(({ kind }, at) => {
      if (kind !== "=") for (let each = at - context; each <= at + context; each += 1) near.add(each);
    });
    const found = [];
    lines.forEach((line, at) => {
      if (whole || near.has(at)) found.push(line);
      else if (found.at(-1)?.kind === "…") found.at(-1).count += 1;
      else found.push({ kind: "…", count: 1 });
    });
    return found;
  }, [lines, whole, context]);
  if (lines.every(({ kind }) => kind === "=")) return html`<p class="quiet">The texts are the same.</p>`;
  const hidden = lines.length - shown.filter(({ kind }) => kind !== "…").length;
  return html`<div class="diff" dir="ltr" role="region" aria-label=${label} tabindex="0">
      ${shown.slice(0, LINES_MAX).map((line, at) => html`<${Line} key=${at} line=${line} />`)}
      ${shown.length > LINES_MAX && html`<div class="skipped">${format.plural(shown.length - LINES_MAX, "more line")}</div>`}
    </div>
    ${(hidden > 0 || whole) && html`<p><button type="button" class="plain" onClick=${() => setWhole(!whole)}>${whole ? "Show the differences alone" : `Show ${format.plural(hidden, "equal line")} too`}</button></p>`}`;
}

function Line({ line: { kind, text, count } }) {
  if (kind === "…") return html`<div class="skipped">${format.plural(count, "equal line")}</div>`;
  const content = html`<span aria-hidden="true">${kind === "=" ? " " : kind} </span>${indented(text)}`;
  if (kind === "-") return html`<del>${content}</del>`;
  return kind === "+" ? html`<ins>${content}</ins>` : html`<div>${content}</div>`;
}

function indented(text) {
  const start = text.length - text.trimStart().length;
  return `${" ".repeat(start)}${format.line(text.slice(start), 1000)}`;
}
