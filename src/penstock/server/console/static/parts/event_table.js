// A table of events, and the fields that filter them: for those that were, and for those that come.
import { html } from "../vendor/preact.js";
import * as format from "../core/format.js";
import { go } from "../core/routing.js";
import { Table, Text, Time } from "./parts.js";

/** The filters' names in the address. */
export const FILTERS = ["key", "kind", "text", "path"];
/** How many events a table has at most. */
export const TABLE_ROWS = 500;

/** The table of events, of which each opens with a click. */
export function EventTable({ rows, empty, pageSize = TABLE_ROWS, label = "Events" }) {
  const pick = (event) => {
    if (event.target.closest("a") || String(getSelection())) return;
    event.target.closest("tr")?.querySelector("a")?.click();
  };
  const open = (event, place) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    go(addressOf(place));
  };
  return html`<div class="events" onClick=${pick}><${Table} label=${label} rows=${rows} keyOf=${placeOf} pageSize=${pageSize} empty=${empty} columns=${[
    { name: "Time", cell: (row) => html`<${Time} value=${row.at / 1000} millis />` },
    { name: "Place", mono: true, cell: (row) => html`<a href=${addressOf(placeOf(row))} onClick=${(event) => open(event, placeOf(row))}>${placeOf(row)}</a>` },
    { name: "Key", mono: true, cell: (row) => (row.key === null ? html`<span class="quiet">–</span>` : html`<div class="cut"><${Text} limit=${60}>${row.key}<//></div>`) },
    { name: "Kind", minor: true, cell: (row) => html`<div class="cut"><${Text} limit=${60}>${row.kind}<//></div>` },
    { name: "Event", mono: true, cell: (row) => html`<div class="start"><${Text} limit=${240}>${row.start}<//></div>` },
    { name: "Size", number: true, minor: true, cell: (row) => html`<span class="quiet">${format.bytes(row.chars)}</span>` },
  ]} /></div>`;
}

/** The place of an event as addresses have it: partition:offset. */
export function placeOf({ partition, offset }) {
  return `${partition}:${offset}`;
}

/** The address of the page that is shown, with the event at *place* opened; "" opens none. */
export function addressOf(place) {
  const search = new URLSearchParams(location.search);
  search.delete("event");
  if (!place) search.delete("as");
  if (place) search.set("event", place);
  const text = search.toString();
  return location.pathname + (text ? `?${text}` : "");
}

/** Fields that filter events; *children* come before them. */
export function Filters({ given, set, count, children }) {
  const field = (member, label, hint, extra = {}) => html`<label>${label}<input value=${given[member] ?? ""} placeholder=${hint} spellcheck=${false} autocomplete="off"
    onInput=${(event) => set({ [member]: event.target.value })} ...${extra} /></label>`;
  return html`
    <label>Partition<select value=${given.partition ?? ""} onChange=${(event) => set({ partition: event.target.value })}>
      <option value="">All ${format.count(count)}</option>
      ${Array.from({ length: Math.min(count, 1000) }, (_, at) => html`<option key=${at} value=${at}>${at}</option>`)}
    </select></label>
    ${children}
    ${field("key", "Key", "whole key")}
    ${field("kind", "Kind", "whole kind")}
    ${field("text", "Text in the event", "any text")}
    ${field("path", "JSONPath", '$.lines[*].sku == "A-1"', { class: "mono path" })}`;
}

/** Say that there is no such partition as the address names; "" if there is, or it names none. */
export function explainPartition(search, count) {
  const chosen = search.get("partition");
  if (!chosen || (/^\d+$/.test(chosen) && Number(chosen) < count)) return "";
  return `There is no partition ${format.line(chosen, 40)}: ${count === 1 ? "the only one is 0" : `they are 0 to ${count - 1}`}.`;
}

/** Return the partitions that the address names. */
export function partitionsOf(search, count) {
  const chosen = search.get("partition");
  return chosen && Number(chosen) < count ? [Number(chosen)] : Array.from({ length: count }, (_, at) => at);
}
