// What has changed between two JSON values, member by member, for people to read.
import { html, useMemo, useState } from "../vendor/preact.js";
import * as format from "../core/format.js";
import { Text, Tree } from "./parts.js";

const SHOWN = 100;
const FOUND_MAX = 2000;

/**
 * Return the members that differ, in order: [{path, before, after}]; undefined where a member is missing.
 *
 * JSON in texts, as schemas have it, is compared by its members. Of arrays only what was added and removed counts.
 */
export function findChanges(before, after) {
  const found = [];
  compare("", before, after, found);
  return found;
}

function compare(path, before, after, found) {
  if (found.length >= FOUND_MAX || before === after) return;
  let [a, b] = [unwrapJson(before), unwrapJson(after)];
  if (isObject(a) && (b === null || b === undefined)) b = {};
  if (isObject(b) && (a === null || a === undefined)) a = {};
  if (Array.isArray(a) && b === undefined) b = [];
  if (Array.isArray(b) && a === undefined) a = [];
  if (isObject(a) && isObject(b)) {
    for (const name of new Set([...Object.keys(a), ...Object.keys(b)])) {
      compare(path ? `${path}.${name}` : name, own(a, name), own(b, name), found);
    }
    return;
  }
  if (Array.isArray(a) && Array.isArray(b)) {
    const [had, has] = [a.map((each) => JSON.stringify(each)), b.map((each) => JSON.stringify(each))];
    const [hadSet, hasSet] = [new Set(had), new Set(has)];
    const removed = a.filter((_, at) => !hasSet.has(had[at]));
    const added = b.filter((_, at) => !hadSet.has(has[at]));
    for (const each of removed) found.push({ path, before: each, after: undefined });
    for (const each of added) found.push({ path, before: undefined, after: each });
    if (!removed.length && !added.length && JSON.stringify(a) !== JSON.stringify(b)) found.push({ path, before: a, after: b });
    return;
  }
  if (JSON.stringify(a) !== JSON.stringify(b)) found.push({ path, before, after });
}

function own(value, name) {
  return Object.hasOwn(value, name) ? value[name] : undefined;
}

function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** Return the object or array that a text has as JSON; else the value itself. */
function unwrapJson(value) {
  if (typeof value !== "string" || !/^\s*[{[]/.test(value)) return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

/** A value in few words: a caller as type:name, milliseconds of retention as a duration, JSON in one line. */
export function inWords(path, value) {
  if (value === undefined) return "–";
  if (value === null) return "none";
  if (isObject(value) && Object.keys(value).length === 2 && "data_type" in value && "value" in value) return `${value.data_type}:${value.value}`;
  if (/(^|\.)retention_time$/.test(path) && typeof value === "number") return format.duration(value / 1000);
  if (/(^|\.)retention_bytes$/.test(path) && typeof value === "number") return format.bytes(value);
  if (typeof value === "boolean") return path.endsWith("enabled") ? (value ? "on" : "off") : String(value);
  if (typeof value === "string") return value || '""';
  return JSON.stringify(value);
}

/** The first changes in one line: "partition_count 1 → 2, 3 more". */
export function changesInShort(before, after, most = 2) {
  const found = findChanges(before ?? {}, after ?? {});
  const told = found.slice(0, most).map(({ path, before: was, after: is }) => {
    const name = format.line(path, 40);
    if (was === undefined) return `${name} + ${format.line(inWords(path, is), 40)}`;
    if (is === undefined) return `${name} − ${format.line(inWords(path, was), 40)}`;
    return `${name} ${format.line(inWords(path, was), 40)} → ${format.line(inWords(path, is), 40)}`;
  });
  return told.join(", ") + (found.length > most ? `, ${format.count(found.length - most)} more` : "");
}

/** The members that differ as a table of before and after; all of what was made or deleted as a tree. */
export function Changes({ before, after }) {
  const [limit, setLimit] = useState(SHOWN);
  const found = useMemo(() => (before && after ? findChanges(before, after) : null), [before, after]);
  if (!before && !after) return html`<p class="quiet">Neither the state before nor the one after was recorded.</p>`;
  if (!found) return html`<h3>${before ? "It was" : "It began as"}</h3><${Tree} value=${before ?? after} open=${1} />`;
  if (!found.length) return html`<p class="quiet">Before and after are the same.</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="What has changed"><table class="changes">
    <thead><tr><th scope="col">Member</th><th scope="col">Before</th><th scope="col">After</th></tr></thead>
    <tbody>${found.slice(0, limit).map((each, at) => html`<tr key=${at}>
      <th scope="row"><${Text} mono limit=${120}>${each.path || "all of it"}<//></th>
      <td>${each.before === undefined ? html`<span class="quiet">–</span>` : html`<del><${Value} ...${each} value=${each.before} /></del>`}</td>
      <td>${each.after === undefined ? html`<span class="quiet">–</span>` : html`<ins><${Value} ...${each} value=${each.after} /></ins>`}</td>
    </tr>`)}</tbody>
  </table></div>
  ${found.length > limit && html`<p><button class="plain" onClick=${() => setLimit(limit * 10)}>${format.count(found.length - limit)} more</button></p>`}`;
}

function Value({ path, value }) {
  const shown = inWords(path, value);
  return shown.length > 300 && typeof value === "object" ? html`<${Tree} value=${value} open=${0} />` : html`<${Text} limit=${300}>${shown}<//>`;
}
