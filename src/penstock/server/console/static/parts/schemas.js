// JSON Schemas: the fields that one describes, what changes from one to another, and one that describes examples.
import { html } from "../vendor/preact.js";
import * as format from "../core/format.js";
import { to } from "../core/routing.js";
import { Badge, Table, Text } from "./parts.js";

const FIELDS_MAX = 2_000;
const DEPTH_MAX = 12;
const TYPE_DEPTH_MAX = 4;
const EXAMPLES_MAX = 200;

/** Return the JSON of a text with indents; the text itself if it is no JSON. */
export function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** Return {value} of a text of JSON, or {error}, which says where it is wrong. */
export function readJson(text) {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { error: error.message };
  }
}

/**
 * Return the fields that a schema describes, at all depths.
 *
 * @returns {{path: string, type: string, required: boolean, description: string, rules: string[]}[]}
 */
export function listFields(schema) {
  const found = [];
  const visit = (given, path, required, depth) => {
    const node = resolve(given, schema);
    if (found.length >= FIELDS_MAX || depth > DEPTH_MAX || !isObject(node)) return;
    if (path) found.push({ path, type: typeOf(node, schema), required, description: node.description ?? node.title ?? "", rules: rulesOf(node) });
    for (const part of [node, ...(Array.isArray(node.allOf) ? node.allOf.map((each) => resolve(each, schema)) : [])]) {
      if (!isObject(part)) continue;
      const needed = new Set(Array.isArray(part.required) ? part.required : []);
      if (isObject(part.properties)) {
        for (const [name, each] of Object.entries(part.properties)) visit(each, path ? `${path}.${name}` : name, needed.has(name), depth + 1);
      }
    }
    const items = isObject(node.items) ? resolve(node.items, schema) : null;
    if (isObject(items) && (items.properties || items.items)) visitItems(items, `${path}[]`, depth);
  };
  const visitItems = (items, path, depth) => {
    const needed = new Set(Array.isArray(items.required) ? items.required : []);
    if (isObject(items.properties)) for (const [name, each] of Object.entries(items.properties)) visit(each, `${path}.${name}`, needed.has(name), depth + 1);
  };
  visit(schema, "", false, 0);
  return found;
}

function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function resolve(node, root) {
  let found = node;
  for (let turn = 0; turn < DEPTH_MAX && isObject(found) && typeof found.$ref === "string"; turn += 1) {
    if (!found.$ref.startsWith("#")) return found;
    let target = root;
    for (const part of found.$ref.slice(1).split("/").slice(1)) target = target?.[decodeURIComponent(part).replace(/~1/g, "/").replace(/~0/g, "~")];
    found = target;
  }
  return found;
}

function typeOf(node, root, depth = 0) {
  if (depth > TYPE_DEPTH_MAX) return "…"; // A schema may repeat itself.
  if (node.const !== undefined) return JSON.stringify(node.const);
  if (Array.isArray(node.enum)) return "enum";
  const type = Array.isArray(node.type) ? node.type.join(" or ") : node.type;
  if (type === "array") {
    const items = isObject(node.items) ? resolve(node.items, root) : null;
    return isObject(items) ? `array of ${typeOf(items, root, depth + 1)}` : "array";
  }
  if (type) return node.format ? `${type} (${node.format})` : type;
  const choices = node.oneOf ?? node.anyOf;
  if (Array.isArray(choices)) return choices.slice(0, 5).map((each) => (isObject(each) ? typeOf(resolve(each, root) ?? {}, root, depth + 1) : "any")).join(" or ");
  return node.properties ? "object" : "any";
}

const RULES = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems", "default"];

function rulesOf(node) {
  const found = RULES.filter((name) => node[name] !== undefined).map((name) => `${name} ${JSON.stringify(node[name])}`);
  if (Array.isArray(node.enum)) found.unshift(node.enum.slice(0, 20).map((each) => JSON.stringify(each)).join(", ") + (node.enum.length > 20 ? ", …" : ""));
  if (node.additionalProperties === false) found.push("no other fields");
  if (node.deprecated === true) found.push("deprecated");
  return found;
}

/** A table of the fields of a schema. */
export function Fields({ schema }) {
  const rows = listFields(schema);
  return html`<${Table} label="Fields of the schema" rows=${rows} keyOf=${(row) => row.path} pageSize=${100}
    empty="The schema names no fields: it allows any object." columns=${[
      { name: "Field", mono: true, value: (row) => row.path, cell: (row) => html`<${Text}>${row.path}<//>` },
      { name: "Type", cell: (row) => html`<${Text} limit=${80}>${row.type}<//>` },
      { name: "Required", value: (row) => Number(row.required), cell: (row) => (row.required ? html`<${Badge} tone="note">required<//>` : html`<span class="quiet">optional</span>`) },
      { name: "Description", cell: (row) => html`<${Text} limit=${300}>${row.description}<//>${row.rules.length > 0 && html`<div class="quiet"><${Text} limit=${300}>${row.rules.join("; ")}<//></div>`}` },
    ]} />`;
}

const TONES = { MAJOR: "bad", MINOR: "note", PATCH: "" };

/** The differences of two schemas, as a compatibility check tells them. */
export function SchemaChanges({ changes }) {
  return html`<${Table} label="Changes of the schema" rows=${changes} keyOf=${(row) => `${row.pointer} ${row.rule}`} empty="Nothing differs in meaning." columns=${[
    { name: "Where", mono: true, cell: (row) => html`<${Text} limit=${120}>${row.pointer}<//>` },
    { name: "Change", cell: (row) => html`<strong>${format.line(row.says, 200)}</strong>
      <div class="row"><${Value} value=${row.old} />${row.old !== null && row.new !== null && " → "}<${Value} value=${row.new} /></div>
      ${row.instead && html`<div class="quiet">Instead: ${format.line(row.instead, 300)}.</div>`}` },
    { name: "Level", cell: (row) => html`<${Badge} tone=${TONES[row.level]}>${row.level}<//> ${row.refused && html`<${Badge} tone="bad">refused<//>`}` },
    { name: "May break", cell: (row) => (row.producers && row.consumers ? html`<span class="quiet">nobody</span>` : html`<span class="row">
      ${!row.producers && html`<${Badge} tone="warn">producers<//>`} ${!row.consumers && html`<${Badge} tone="warn">consumers<//>`}</span>`) },
  ]} />`;
}

function Value({ value }) {
  return value === null || value === undefined ? null : html`<code dir="ltr">${format.line(JSON.stringify(value), 160)}</code>`;
}

/** What the check of a schema says as a whole, and who is affected, by name. */
export function Verdict({ found, producers, consumers }) {
  const safe = found.producers && found.consumers;
  const tone = !found.compatible ? "bad" : safe ? "good" : "warn";
  return html`<div class="message ${tone}" role="status">
    <strong>${!found.compatible
      ? `The mode ${found.compatibility_mode} refuses this schema.`
      : found.version === found.validated_against_version ? "Nothing changes." : `Allowed: version ${found.validated_against_version} becomes ${found.version}.`}</strong>
    ${" "}${safe ? (found.changes.length ? "Producers and consumers can stay as they are." : "") : "It is not certain that everybody can stay as they are:"}
    ${!safe && html`<ul class="affected">
      ${!found.producers && html`<li><strong>Producers</strong> may publish events that the new schema refuses: <${Names} names=${producers} none="no caller is known to have published in the last 30 days" /></li>`}
      ${!found.consumers && html`<li><strong>Consumers</strong> may get events that they do not expect: <${Names} names=${consumers} none="no consumer keeps a position here" /></li>`}
    </ul>`}
  </div>`;
}

function Names({ names, none }) {
  if (!names) return html`<span class="quiet">…</span>`;
  if (!names.length) return html`<span class="quiet">${none}.</span>`;
  return html`${names.slice(0, 30).map(({ label, group }, at) => html`${at > 0 && ", "}${group ? html`<a href=${to`/consumers/${group}`}><${Text} limit=${60}>${label}<//></a>` : html`<${Text} limit=${60}>${label}<//>`}`)}${names.length > 30 && ` and ${names.length - 30} more`}.`;
}

/** Read examples: one event, an array of events, or a line of JSON each; {value} has a list, {error} says what is wrong. */
export function readExamples(text) {
  const whole = readJson(text);
  if (!whole.error) {
    const list = Array.isArray(whole.value) ? whole.value : [whole.value];
    return list.length && list.every(isObject) ? { value: list.slice(0, EXAMPLES_MAX) } : { error: "An event is a JSON object." };
  }
  const lines = text.split("\n").filter((line) => line.trim());
  if (lines.length < 2) return { error: whole.error };
  const list = lines.slice(0, EXAMPLES_MAX).map(readJson);
  return list.every(({ value }) => isObject(value)) ? { value: list.map(({ value }) => value) } : { error: whole.error };
}

/** Return a schema that describes *examples*, a list of objects: a field is required if all of them have it. */
export function inferSchema(examples) {
  return examples.map(infer).reduce(unify);
}

function infer(value) {
  if (value === null) return { type: "null" };
  if (typeof value === "boolean") return { type: "boolean" };
  if (typeof value === "number") return { type: Number.isInteger(value) ? "integer" : "number" };
  if (typeof value === "string") {
    if (/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/.test(value)) return { type: "string", format: "date-time" };
    return /^\d{4}-\d\d-\d\d$/.test(value) ? { type: "string", format: "date" } : { type: "string" };
  }
  if (Array.isArray(value)) return value.length ? { type: "array", items: value.slice(0, EXAMPLES_MAX).map(infer).reduce(unify) } : { type: "array" };
  const members = Object.entries(value);
  const schema = { type: "object" };
  if (members.length) schema.required = members.map(([name]) => name);
  schema.properties = Object.fromEntries(members.map(([name, each]) => [name, infer(each)]));
  return schema;
}

function unify(a, b) {
  const types = [...new Set([a.type, b.type].flat())];
  const named = (type) => [a, b].filter((each) => [each.type].flat().includes(type));
  if (types.includes("number")) types.splice(types.indexOf("integer"), types.includes("integer") ? 1 : 0);
  const schema = { type: types.length === 1 ? types[0] : types };
  const [one, other] = named("object");
  if (one && other) {
    const required = (one.required ?? []).filter((name) => (other.required ?? []).includes(name));
    if (required.length) schema.required = required;
    schema.properties = { ...one.properties };
    for (const [name, each] of Object.entries(other.properties ?? {})) schema.properties[name] = name in schema.properties ? unify(schema.properties[name], each) : each;
  } else if (one) Object.assign(schema, one.required && { required: one.required }, { properties: one.properties });
  const items = named("array").map((each) => each.items).filter(Boolean);
  if (items.length) schema.items = items.reduce(unify);
  const texts = named("string");
  if (texts.length && texts.every((each) => each.format && each.format === texts[0].format)) schema.format = texts[0].format;
  return schema;
}
