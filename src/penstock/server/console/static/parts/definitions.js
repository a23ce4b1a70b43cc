// Definitions of event types: their words, the hub's check of a draft, and the fields of forms.
import { html, useContext, useEffect, useRef, useState } from "../vendor/preact.js";
import { path, request } from "../core/api.js";
import * as format from "../core/format.js";
import { CallerContext } from "../core/state.js";
import { describeCaller } from "./callers.js";
import { Badge, Failure, Text } from "./parts.js";

export const CATEGORIES = {
  undefined: "any JSON object",
  business: "a step of a business process, with metadata",
  data: "a change of data: data_op, data_type, data, with metadata",
};
export const MODES = {
  compatible: "new optional fields, titles and descriptions: nobody breaks",
  forward: "changes that consumers can read if they ignore fields unknown to them",
  none: "every change: consumers have to be told",
};
export const POLICIES = {
  delete: "delete events by age or size",
  compact: "keep the newest event of each key",
  compact_and_delete: "keep the newest event of each key, up to the age limit",
};
export const STRATEGIES = {
  random: "any partition: events have no order by key",
  hash: "the same key, the same partition: events of a key stay in order",
  user_defined: "the producer chooses the partition",
};
export const AUDIENCES = ["component-internal", "business-unit-internal", "company-internal", "external-partner", "external-public"];

/** How long events stay, in words; *usual* is the hub's default as `GET /settings/retention` has it, undefined if it is not known. */
export function describeRetention({ options, cleanup_policy: policy }, usual) {
  const { retention_time: time, retention_bytes: size, retention_wait: wait } = options ?? {};
  const found = [];
  if (policy === "compact") found.push("The newest event of each key stays; older ones are removed.");
  else if (policy === "compact_and_delete") found.push("Only the newest event of each key stays.");
  const limits = (one, other) => [one && `after ${exactDuration(one)}`, other && `when all partitions together exceed ${exactBytes(other)}`].filter(Boolean).join(", or ");
  if (policy !== "compact") {
    if (time || size) found.push(`Events are deleted ${limits(time, size)}.`);
    else if (usual === undefined) found.push("No limit of its own: the hub's default holds.");
    else if (usual?.retention_time || usual?.retention_bytes) found.push(`By the hub's default, events are deleted ${limits(usual.retention_time, usual.retention_bytes)}.`);
    else found.push("Events stay forever.");
  }
  if (wait?.groups?.length) {
    found.push(`Events that ${wait.groups.join(", ")} ${wait.groups.length === 1 ? "has" : "have"} not committed wait for longer, and are deleted ${limits(wait.retention_time, wait.retention_bytes)} all the same.`);
  }
  return found.join(" ");
}

const DURATIONS = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1_000], ["ms", 1]];
const SIZES = [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3], ["B", 1]];

/** A duration of milliseconds with nothing cut: 1 d 12 h. */
export function exactDuration(millis) {
  let left = millis;
  const found = [];
  for (const [unit, size] of DURATIONS) {
    if (left >= size) found.push(`${Math.floor(left / size)} ${unit}`);
    left %= size;
  }
  return found.join(" ") || "0 s";
}

/** A size of bytes with nothing cut: 1500 kB. */
export function exactBytes(value) {
  const [unit, size] = SIZES.find(([, each]) => value % each === 0 && value >= each) ?? ["B", 1];
  return `${value / size} ${unit}`;
}

/** Return the milliseconds of a text such as 7d or 1 d 12 h; null if it is empty, NaN if it is no duration. */
export function parseDuration(text) {
  return parseSum(text, { w: 604_800_000, week: 604_800_000, weeks: 604_800_000, day: 86_400_000, days: 86_400_000, m: 60_000, ...Object.fromEntries(DURATIONS) });
}

/** Return the bytes of a text such as 10 GB; null if it is empty, NaN if it is no size. */
export function parseBytes(text) {
  return parseSum(text.toLowerCase(), { "": 1, ...Object.fromEntries(SIZES.map(([unit, size]) => [unit.toLowerCase(), size])) });
}

function parseSum(text, units) {
  const given = text.trim();
  if (!given) return null;
  if (!/^(\d+(\.\d+)?\s*[a-zA-Z]*\s*)+$/.test(given)) return Number.NaN;
  let total = 0;
  for (const [, number, unit] of given.matchAll(/(\d+(?:\.\d+)?)\s*([a-zA-Z]*)/g)) {
    if (!Object.hasOwn(units, unit)) return Number.NaN;
    total += Number(number) * units[unit];
  }
  return Math.round(total);
}

/** Whether a draft has a member that could not be read, such as a duration with a typing error. */
export function isUnreadable(value) {
  if (typeof value === "number") return Number.isNaN(value);
  return value !== null && typeof value === "object" && Object.values(value).some(isUnreadable);
}

/** Return what a problem says of single fields. */
export function violationsOf(error) {
  const { violations, field, reason } = error?.problem ?? {};
  if (violations?.length) return violations;
  return field ? [{ field, reason: reason ?? error.message }] : [];
}

/** Return the texts of the headers `Warning` of a response. */
export function readWarnings(response) {
  return [...(response.headers.get("warning") ?? "").matchAll(/299 penstock "([^"]*)"/g)].map(([, text]) => text);
}

/**
 * Ask the hub, shortly after *draft* has changed, whether it would take it as the definition of *name*; nothing is changed.
 *
 * @param {object | null} draft null asks nothing
 * @returns {{checking: boolean, taken: boolean, error: Error | null, violations: {field: string, reason: string}[], warnings: string[]}}
 */
export function useDefinitionCheck(name, draft, { query = "", delay = 400 } = {}) {
  const [found, setFound] = useState({ error: null, warnings: [], of: null });
  const body = draft && name ? JSON.stringify(draft) : null;
  const key = body && name + query + body;
  useEffect(() => {
    if (!key) return undefined;
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const response = await request("POST", path`/event-types/${name}/definition-check` + query, { body, signal: stop.signal });
        setFound({ error: null, warnings: readWarnings(response), of: key });
      } catch (error) {
        if (error.name !== "AbortError") setFound({ error, warnings: [], of: key });
      }
    }, delay);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [key]);
  return { checking: key !== null && found.of !== key, taken: key !== null && found.of === key && !found.error, error: key ? found.error : null,
    violations: key ? violationsOf(found.error) : [], warnings: key ? found.warnings : [] };
}

let fields = 0;

/** An input with its name, a hint, and what is wrong with it; *children* gets the attributes that the input needs. */
export function Field({ label, hint, field, violations = [], wrong, wide = false, children }) {
  const id = useRef(`field-${(fields += 1)}`).current;
  const found = [...(wrong ? [wrong] : []), ...violations.filter((each) => covers(field, each.field)).map((each) => each.reason)];
  const attributes = { id, "aria-invalid": found.length ? "true" : null, "aria-describedby": `${id}-more` };
  return html`<div class="field ${wide ? "all" : ""}">
    <label for=${id}>${label}</label>
    ${children(attributes)}
    <div id=${`${id}-more`}>
      ${found.map((reason) => html`<p class="wrong">${format.line(reason, 600)}</p>`)}
      ${hint && html`<p class="hint">${hint}</p>`}
    </div>
  </div>`;
}

/** Whether a violation of *found* belongs to the input of *field*. */
function covers(field, found) {
  return [field].flat().some((each) => found === each || found?.startsWith(`${each}.`) || found?.startsWith(`${each}[`));
}

/** What is wrong as a whole, and the warnings, below a form. */
export function CheckResult({ check, good = "The hub would take this." }) {
  if (check.error) {
    return check.violations.length
      ? html`<div class="message bad" role="status"><strong>The hub would refuse this.</strong><ul>${check.violations.map((each) => html`<li><code>${format.line(each.field ?? "", 100)}</code> ${format.line(each.reason, 400)}</li>`)}</ul></div>`
      : html`<${Failure} error=${check.error} /><${Findings} warnings=${check.error.problem?.broken ?? []} />`;
  }
  return html`<div role="status" class="quiet">${check.checking ? "Checking …" : check.taken ? html`<${Badge} tone="good">checked<//> ${good}` : ""}</div>
    ${check.warnings.length > 0 && html`<details><summary>${format.plural(check.warnings.length, "note")}: guidelines that it breaks, members without effect</summary><${Findings} warnings=${check.warnings} /></details>`}`;
}

/** Guidelines that a definition breaks, and members without effect. */
export function Findings({ warnings }) {
  if (!warnings.length) return null;
  return html`<ul class="findings">${warnings.map((text) => {
    const [, level, rule, within, pointer, says] = /^(MUST|SHOULD|MAY) ([a-z0-9-]+): (\w+) (#\S*): (.*)$/.exec(text) ?? [];
    return html`<li>${level
      ? html`<${Badge} tone=${level === "MUST" ? "warn" : "note"}>${level}<//> <span>${says} <span class="quiet">(${within} <code>${format.line(pointer, 120)}</code>; guideline <code>${rule}</code>)</span></span>`
      : html`<${Badge} tone="note">note<//> <span>${format.line(text, 400)}</span>`}</li>`;
  })}</ul>`;
}

/** An input for a duration in milliseconds, or a size in bytes; it gives NaN while its text cannot be read. */
export function Amount({ label, hint, field, violations, value, unit, onChange, placeholder }) {
  const [parse, print, example] = unit === "bytes" ? [parseBytes, exactBytes, "10 GB"] : [parseDuration, exactDuration, "30 d, 12 h or 15 min"];
  const [text, setText] = useState(value ? print(value) : "");
  const wrong = Number.isNaN(parse(text)) ? `is such as ${example}` : null;
  function change(event) {
    setText(event.target.value);
    onChange(parse(event.target.value));
  }
  return html`<${Field} label=${label} hint=${hint} field=${field} violations=${violations} wrong=${wrong}>
    ${(attributes) => html`<input ...${attributes} value=${text} placeholder=${placeholder} onInput=${change} />`}
  <//>`;
}

/** The fields of retention: *options* of a definition in, those with changes out. */
export function RetentionFields({ options, onChange, violations, groups = [], usual, isNew = false }) {
  const wait = options.retention_wait;
  const set = (members) => onChange({ ...options, ...members });
  const setWait = (members) => {
    const next = { groups: [], ...wait, ...members };
    set({ retention_wait: next.groups.length || next.retention_time || next.retention_bytes ? next : null });
  };
  const kept = usual?.retention_time ? `empty: the hub's default, ${exactDuration(usual.retention_time)}` : "empty: no limit of its own";
  return html`<div class="fields-grid">
    <${Amount} label="Delete events after" unit="time" field="options.retention_time" violations=${violations} value=${options.retention_time} onChange=${(value) => set({ retention_time: value })}
      hint=${isNew || !options.retention_time ? kept : "It cannot become empty again: the hub keeps the last one."} placeholder="30 d" />
    <${Amount} label="Keep at most" unit="bytes" field="options.retention_bytes" violations=${violations} value=${options.retention_bytes} onChange=${(value) => set({ retention_bytes: value })}
      hint="Bytes of data, over all partitions." placeholder="10 GB" />
    <${Field} label="Wait for these consumers" field="options.retention_wait" violations=${violations} hint="Names, separated by commas: events that they have not committed stay longer.">
      ${(attributes) => html`<input ...${attributes} list="retention-groups" value=${(wait?.groups ?? []).join(", ")} onChange=${(event) => setWait({ groups: splitNames(event.target.value) })} />
        <datalist id="retention-groups">${groups.map((name) => html`<option value=${name} />`)}</datalist>`}
    <//>
    ${wait && html`<${Amount} label="but no longer than" unit="time" field="options.retention_wait.retention_time" value=${wait.retention_time} onChange=${(value) => setWait({ retention_time: value })} placeholder="7 d" />
      <${Amount} label="and no more than" unit="bytes" field="options.retention_wait.retention_bytes" value=${wait.retention_bytes} onChange=${(value) => setWait({ retention_bytes: value })} placeholder="50 GB" />`}
  </div>`;
}

/** Return the names of a text that are separated by commas. */
export function splitNames(text) {
  return text.split(",").map((each) => each.trim()).filter(Boolean);
}

const LISTS = [
  ["readers", "Readers", "may read events and commit positions"],
  ["writers", "Writers", "may publish"],
  ["admins", "Admins", "may change and delete the event type, and reset its consumers"],
];
const EVERYBODY = { data_type: "*", value: "*" };

/** The lists of who may do what: `authorization` of a definition in, the same with changes out. */
export function AccessLists({ value, onChange, violations = [] }) {
  const caller = useContext(CallerContext);
  const isKnown = Boolean(caller?.method);
  if (!value) {
    const first = isKnown ? { data_type: caller.type, value: caller.name } : EVERYBODY;
    return html`<p>This event type has no lists: it is open to all callers, unless the hub serves with <code>--default-access closed</code>. Once it has lists, they can be changed but not removed.</p>
      <p><button type="button" onClick=${() => onChange({ readers: [EVERYBODY], writers: [EVERYBODY], admins: [first] })}>Restrict access</button></p>`;
  }
  return html`${!isKnown && html`<p class="message after">This hub does not authenticate its callers: the lists are kept, and have an effect once it serves with <code>--auth</code>.</p>`}
    <div class="access">${LISTS.map(([name, label, says]) => html`<${AccessList} key=${name} name=${name} label=${label} says=${says}
      members=${value[name] ?? []} violations=${violations} onChange=${(members) => onChange({ ...value, [name]: members })} />`)}</div>`;
}

function AccessList({ name, label, says, members, violations, onChange }) {
  const replace = (at, member) => onChange(members.map((each, place) => (place === at ? member : each)));
  const found = violations.filter((each) => covers([`authorization.${name}`], each.field));
  return html`<fieldset>
    <legend>${label}</legend>
    <p class="hint">${says}</p>
    ${members.map((member, at) => html`<div class="member access-member" key=${at}>
      <select aria-label="${label}, ${at + 1}: type" value=${member.data_type} onChange=${(event) => replace(at, event.target.value === "*" ? EVERYBODY : { data_type: event.target.value, value: member.value === "*" ? "" : member.value })}>
        <option value="service">service</option><option value="user">user</option><option value="*">everybody</option>
        ${!["service", "user", "*"].includes(member.data_type) && html`<option value=${member.data_type}>${format.line(member.data_type, 30)}</option>`}
      </select>
      ${member.data_type === "*" ? html`<span></span>` : html`<input aria-label="${label}, ${at + 1}: name" placeholder="billing, or * for all" value=${member.value} onInput=${(event) => replace(at, { ...member, value: event.target.value })} />`}
      <button type="button" aria-label="Remove ${describeCaller(member)} from ${label.toLowerCase()}" title="Remove" onClick=${() => onChange(members.filter((_, place) => place !== at))}>×</button>
    </div>`)}
    ${found.map((each) => html`<p class="wrong">${format.line(each.reason, 300)}</p>`)}
    <button type="button" onClick=${() => onChange([...members, { data_type: "service", value: "" }])}>Add to ${label.toLowerCase()}</button>
  </fieldset>`;
}

/** Return lists without members that have no name yet. */
export function completeAccess(value) {
  if (!value) return value ?? null;
  return Object.fromEntries(Object.entries(value).map(([name, members]) => [name, members.filter((each) => each.value.trim()).map((each) => ({ ...each, value: each.value.trim() }))]));
}

/** An editor of texts by key: labels and annotations. */
export function Pairs({ label, hint, field, value, onChange, violations = [], hidden = [] }) {
  const [rows, setRows] = useState(() => Object.entries(value ?? {}).filter(([key]) => !hidden.includes(key)));
  function change(next) {
    setRows(next);
    const kept = Object.fromEntries(Object.entries(value ?? {}).filter(([key]) => hidden.includes(key)));
    onChange({ ...kept, ...Object.fromEntries(next.filter(([key]) => key.trim())) });
  }
  const replace = (at, row) => change(rows.map((each, place) => (place === at ? row : each)));
  const found = violations.filter((each) => covers([field], each.field));
  return html`<fieldset>
    <legend>${label}</legend>
    ${hint && html`<p class="hint">${hint}</p>`}
    ${rows.map(([key, text], at) => html`<div class="member" key=${at}>
      <input aria-label="${label}, ${at + 1}: key" value=${key} onInput=${(event) => replace(at, [event.target.value, text])} />
      <input aria-label="${label}, ${at + 1}: value" value=${text} onInput=${(event) => replace(at, [key, event.target.value])} />
      <button type="button" aria-label="Remove ${format.line(key, 60)}" title="Remove" onClick=${() => change(rows.filter((_, place) => place !== at))}>×</button>
    </div>`)}
    ${found.map((each) => html`<p class="wrong"><code>${format.line(each.field, 80)}</code> ${format.line(each.reason, 300)}</p>`)}
    <button type="button" onClick=${() => change([...rows, ["", ""]])}>Add</button>
  </fieldset>`;
}

/** A choice of one of *choices*, values with their words. */
export function Choice({ label, field, violations, value, choices, onChange, hint, disabled = false }) {
  return html`<${Field} label=${label} field=${field} violations=${violations} hint=${hint ?? choices[value]}>
    ${(attributes) => html`<select ...${attributes} value=${value} disabled=${disabled} onChange=${(event) => onChange(event.target.value)}>
      ${Object.keys(choices).map((each) => html`<option key=${each} value=${each}>${each.replaceAll("_", " ")}</option>`)}
    </select>`}
  <//>`;
}

/** The lists of an event type, in words. */
export function AccessWords({ authorization }) {
  if (!authorization) return html`<span class="quiet">No lists: it is open to all callers, unless the hub serves with <code>--default-access closed</code>.</span>`;
  return html`${LISTS.map(([name, label]) => html`<div key=${name}><span class="quiet">${label}:</span> ${(authorization[name] ?? []).slice(0, 40).map((each, at) => html`${at > 0 && ", "}<${Text} limit=${80}>${describeCaller(each)}<//>`)}${(authorization[name] ?? []).length > 40 && ", …"}</div>`)}`;
}
