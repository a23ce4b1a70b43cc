// Parts of which views are made: titles, tables, messages, dialogs, trees.
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { needs, onHub } from "../core/commands.js";
import * as format from "../core/format.js";
import { keepInAddress, usePlace } from "../core/routing.js";
import { useAuditLog } from "../core/state.js";

/** The head of a page: its title, what it is about, and buttons. */
export function Title({ children, lead, crumbs, buttons }) {
  const text = typeof children === "string" ? children : "Penstock";
  useEffect(() => {
    document.title = `${format.line(text, 80)} – Penstock`;
  }, [text]);
  return html`<header class="title">
    <div>
      ${crumbs && html`<div class="crumbs">${crumbs}</div>`}
      <h1 dir="auto" tabindex="-1">${children}</h1>
      ${lead && html`<p class="lead">${lead}</p>`}
    </div>
    ${buttons && html`<div class="buttons">${buttons}</div>`}
  </header>`;
}

/** A card with a heading, and an optional link or buttons at its right. */
export function Card({ title, more, span = "wide", flush = false, children }) {
  return html`<section class="card ${span} ${flush ? "flush" : ""}">
    ${title && html`<header><h2>${title}</h2>${more && html`<span class="more">${more}</span>`}</header>`}
    ${children}
  </section>`;
}

/** A figure with its name. */
export function Figure({ name, value, note, tone = "" }) {
  return html`<div class="figure ${tone}"><div class="name">${name}</div><div class="value">${value}</div>${note && html`<div class="note">${note}</div>`}</div>`;
}

/** A short mark; *tone* is good, warn, bad or note. */
export function Badge({ tone = "", children, title }) {
  return html`<span class="badge ${tone}" title=${title}>${children}</span>`;
}

/** An error of a call: what went wrong, and what to do. */
export function Failure({ error, retry }) {
  if (!error) return null;
  const refused = error.status === 403;
  return html`<div class="message ${refused ? "warn" : "bad"}" role="alert">
    <strong>${refused ? "You may not do this." : "That did not work."}</strong> ${format.text(error.message)}
    ${error.hint && html`<p>${error.hint}</p>`}
    ${(error.problem?.violations ?? []).length > 1 && html`<ul>${error.problem.violations.map((each) => html`<li><code>${format.line(each.field)}</code> ${format.text(each.reason)}</li>`)}</ul>`}
    ${retry && html`<p><button type="button" onClick=${retry}>Try again</button></p>`}
  </div>`;
}

/** Shows what *answer* (of `usePolled`) has: the children's function gets its value; while it loads, a line says so. */
export function Loaded({ answer, children }) {
  if (answer.value === undefined) {
    return answer.error ? html`<${Failure} error=${answer.error} retry=${answer.refresh} />` : html`<p class="empty" role="status">Loading …</p>`;
  }
  return html`${answer.error && html`<${Failure} error=${answer.error} />`}${children(answer.value)}`;
}

/** A time in the chosen zone, with both zones in its tooltip. */
export function Time({ value, millis = false, relative = false }) {
  if (!value) return html`<span class="quiet">–</span>`;
  return html`<time class="nowrap" datetime=${new Date(value).toISOString()} title=${format.bothTimes(value)}>${relative ? format.ago(value) : format.time(value, { millis })}</time>`;
}

/** A text of a stranger, in one line, safe to look at. */
export function Text({ children, limit = 200, mono = false }) {
  const text = children === null || children === undefined ? "" : String(children);
  return html`<bdi class=${mono ? "mono" : ""} title=${text.length > limit ? format.line(text, 2000) : null}>${format.line(text, limit)}</bdi>`;
}

/** A button that copies a text. */
export function Copy({ text, children = "Copy" }) {
  const [said, setSaid] = useState(null);
  async function copy() {
    const copied = typeof text === "function" ? text() : text;
    const done = await copyByClipboard(copied) || copyBySelection(copied);
    setSaid(done ? "Copied" : "The browser forbids it");
    setTimeout(() => setSaid(null), done ? 1500 : 4000);
  }
  return html`<button type="button" onClick=${copy} aria-live="polite">${said ?? children}</button>`;
}

/** Copy *text*; return whether the browser gives the page a clipboard, which it may deny. */
async function copyByClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** Copy *text* where the browser gives pages no clipboard, such as over plain HTTP from another machine. */
function copyBySelection(text) {
  const area = document.createElement("textarea");
  area.value = text;
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

/** A command to copy; one of `penstock` that calls a hub names this one. */
export function Command({ children }) {
  const command = onHub(String(children));
  return html`<div class="row command"><code dir="ltr">${format.text(command)}</code><${Copy} text=${command} /></div>`;
}

/** Commands that do the same as the console, and what they need. */
export function SameCommand({ children }) {
  const commands = [children].flat().filter(Boolean);
  if (!commands.length) return null;
  return html`<p class="quiet">The same on the command line${needs(commands[0])}:</p>${commands.map((each) => html`<${Command} key=${each}>${each}<//>`)}`;
}

const REASONS = { true: "Reason, for the history and the audit log", false: "Reason, for the history", undefined: "Reason, for the history, and for the audit log if it is on" };

/**
 * A table that stays quick with thousands of rows: it shows a page of them.
 *
 * @param {{name: string, value?: (row) => any, cell?: (row) => any, number?: boolean, mono?: boolean, minor?: boolean}[]} columns
 *   value orders the rows; cell draws it; a minor one is left out on narrow screens
 * @param {string} [about] what was searched for: when it changes, the first page is shown
 * @param {string} [keep] keeps order and page in the address, so that what is seen can be shared: "", or a word before
 *   their names where a view has several such tables
 */
export function Table({ columns, rows, keyOf, order, empty = "Nothing here.", pageSize = 50, label, about = "", keep }) {
  const [{ order: chosenOrder, row: firstRow }, choose] = useChoice(keep);
  const searched = useRef(about);
  useEffect(() => {
    if (searched.current !== about) choose({ row: "" });
    searched.current = about;
  }, [about]);
  const chosen = readOrder(chosenOrder, columns) ?? order;
  const ordered = useMemo(() => {
    const column = columns.find((each) => each.name === chosen?.name);
    if (!column?.value) return rows;
    const sign = chosen.down ? -1 : 1;
    return [...rows].sort((a, b) => sign * compare(column.value(a), column.value(b)));
  }, [rows, chosen?.name, chosen?.down]);
  const pages = Math.max(1, Math.ceil(ordered.length / pageSize));
  const at = Math.max(0, Math.min(Math.floor(((Number(firstRow) || 1) - 1) / pageSize), pages - 1));
  const orderBy = ({ name, number }) => choose({ order: (chosen?.name === name ? !chosen.down : number) ? `-${name}` : name });
  const turnTo = (page) => choose({ row: page ? String(page * pageSize + 1) : "" });
  if (!rows.length) return html`<p class="empty">${empty}</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}><table>
      <thead><tr>${columns.map((column) => html`<th key=${column.name} class=${classOf(column, "number", "minor")} scope="col"
        aria-sort=${column.value ? (chosen?.name === column.name ? (chosen.down ? "descending" : "ascending") : "none") : null}>
        ${column.value
          ? html`<button type="button" onClick=${() => orderBy(column)}>${column.name}</button>`
          : html`${column.name || html`<span class="visually-hidden">Actions</span>`}`}</th>`)}</tr></thead>
      <tbody>${ordered.slice(at * pageSize, (at + 1) * pageSize).map((row) => html`<tr key=${keyOf(row)}>
        ${columns.map((column) => html`<td key=${column.name} class=${classOf(column, "number", "minor", "mono")}>${(column.cell ?? column.value)(row)}</td>`)}
      </tr>`)}</tbody>
    </table></div>
    ${pages > 1 && html`<div class="table-foot">
      <button type="button" disabled=${at === 0} onClick=${() => turnTo(at - 1)}>Previous</button>
      <span>${format.count(at * pageSize + 1)}–${format.count(Math.min((at + 1) * pageSize, ordered.length))} of ${format.count(ordered.length)}</span>
      <button type="button" disabled=${at === pages - 1} onClick=${() => turnTo(at + 1)}>Next</button>
    </div>`}`;
}

/** Use the order and the first row that were chosen for a table, as the texts that the address has or would have. */
function useChoice(keep) {
  const { search } = usePlace();
  const [own, setOwn] = useState({ order: "", row: "" });
  if (keep === undefined) return [own, (members) => setOwn((before) => ({ ...before, ...members }))];
  const named = (members) => Object.fromEntries(Object.entries(members).map(([name, value]) => [keep + name, value]));
  return [{ order: search.get(`${keep}order`) ?? "", row: search.get(`${keep}row`) ?? "" }, (members) => keepInAddress(named(members))];
}

/** Return the order that a text such as "-Gap" means; null if no column can be ordered by it. */
function readOrder(text, columns) {
  const down = text.startsWith("-");
  const name = down ? text.slice(1) : text;
  return columns.some((each) => each.name === name && each.value) ? { name, down } : null;
}

function classOf(column, ...names) {
  return names.filter((each) => column[each]).join(" ");
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return -1;
  if (b === null || b === undefined) return 1;
  return typeof a === "string" ? a.localeCompare(b) : a < b ? -1 : 1;
}

/** A dialog over the page, closed by Escape; with *side* it takes the right side, from top to bottom. */
export function Dialog({ title, onClose, side = false, children }) {
  const element = useRef(null);
  useEffect(() => {
    const dialog = element.current;
    if (dialog.matches(":modal")) return;
    dialog.close(); // It is open and no longer modal where the page was drawn around it, and it was moved for that.
    dialog.showModal();
  });
  useEffect(() => {
    const dialog = element.current;
    return () => dialog.close();
  }, []);
  return html`<dialog ref=${element} class=${side ? "side-sheet" : ""} aria-labelledby="dialog-title" onCancel=${(event) => { event.preventDefault(); onClose(); }}>
    <h2 id="dialog-title">${title}</h2>${children}
  </dialog>`;
}

/**
 * Asks before something happens that cannot be taken back: says what it will do, asks for a reason, shows what failed.
 *
 * @param {(given: {reason: string}) => Promise<void>} act
 * @param {string | string[] | ((given: {reason: string}) => string)} [command] the same on the command line, if it can be done there
 */
export function Confirm({ title, verb, danger = true, reason = false, act, onClose, children, command, disabled = false }) {
  const [text, setText] = useState("");
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const isAudited = useAuditLog(reason || danger);
  async function run(event) {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await act({ reason: text });
      onClose(true);
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  }
  return html`<${Dialog} title=${title} onClose=${() => onClose(false)}>
    <form onSubmit=${run}>
      ${children}
      ${reason && html`<label>${REASONS[isAudited]}<input class="long" required maxlength="200" value=${text} onInput=${(event) => setText(event.target.value)} /></label>`}
      <${SameCommand}>${typeof command === "function" ? command({ reason: text.trim() || "WHY" }) : command}<//>
      ${danger && !reason && isAudited === false && html`<p class="quiet">The audit log is off: nothing will say who did this.</p>`}
      <${Failure} error=${error} />
      <div class="buttons">
        <button type="button" onClick=${() => onClose(false)}>Cancel</button>
        <button class=${danger ? "danger" : "primary"} disabled=${busy || disabled}>${busy ? "Working …" : verb}</button>
      </div>
    </form>
  </${Dialog}>`;
}

const SHOWN_MEMBERS = 200;
const SHOWN_CHARS = 4000;
const SOURCE_CHARS = 100_000;

/** JSON as a tree that opens where one clicks; long texts and arrays are cut, and can be shown whole. */
export function Tree({ value, name, open = 2 }) {
  return html`<div class="tree" dir="ltr"><${Node} value=${value} name=${name} depth=${0} open=${open} /></div>`;
}

function Node({ value, name, depth, open }) {
  const [limit, setLimit] = useState(SHOWN_MEMBERS);
  const [shown, setShown] = useState(depth < open);
  const label = name === undefined ? null : html`<span class="name"><${Text} limit=${120}>${name}</${Text}></span>: `;
  if (value === null || typeof value !== "object") return html`<div class="leaf">${label}<${Leaf} value=${value} /></div>`;
  const members = Array.isArray(value) ? value.map((each, at) => [at, each]) : Object.entries(value);
  const summary = Array.isArray(value) ? `[${members.length}]` : `{${members.length}}`;
  if (!members.length) return html`<div class="leaf">${label}${Array.isArray(value) ? "[]" : "{}"}</div>`;
  return html`<details open=${shown} onToggle=${(event) => setShown(event.currentTarget.open)}>
    <summary>${label}<span class="quiet">${summary}</span></summary>
    ${shown && members.slice(0, limit).map(([key, each]) => html`<${Node} key=${key} value=${each} name=${key} depth=${depth + 1} open=${open} />`)}
    ${shown && members.length > limit && html`<div class="leaf"><button type="button" class="plain" onClick=${() => setLimit(limit * 10)}>${format.count(members.length - limit)} more</button></div>`}
  </details>`;
}

function Leaf({ value }) {
  const [whole, setWhole] = useState(false);
  if (typeof value !== "string") return html`<span class=${typeof value === "number" || typeof value === "bigint" ? "number" : "word"}>${String(value)}</span>`;
  const cut = !whole && value.length > SHOWN_CHARS;
  return html`<span class="string"><bdi>"${format.line(value, whole ? value.length : SHOWN_CHARS)}"</bdi></span>
    ${cut && html` <button type="button" class="plain" onClick=${() => setWhole(true)}>${format.count(value.length)} characters: show all</button>`}`;
}

/** A text of several lines, safe to look at; a long one is cut, and can be shown whole. */
export function Source({ text }) {
  const [whole, setWhole] = useState(false);
  const shown = useMemo(() => format.text(text), [text]);
  return html`<pre tabindex="0" dir="ltr" class="raw"><code>${whole ? shown : shown.slice(0, SOURCE_CHARS)}</code></pre>
    ${!whole && shown.length > SOURCE_CHARS && html`<button type="button" class="plain" onClick=${() => setWhole(true)}>${format.count(shown.length)} characters: show all</button>`}`;
}

/** A small line without axes. */
export function Spark({ values, label }) {
  if (values.length < 2) return html`<svg class="spark" role="img" aria-label=${label}></svg>`;
  const top = Math.max(...values, 1e-9);
  const points = values.map((value, at) => `${((at / (values.length - 1)) * 96).toFixed(1)},${(22 - (value / top) * 20).toFixed(1)}`);
  return html`<svg class="spark" viewBox="0 0 96 24" preserveAspectRatio="none" role="img" aria-label=${label}><path d="M${points.join("L")}" /></svg>`;
}
