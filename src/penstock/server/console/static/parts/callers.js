// Lists of callers, as authorizations have them: {data_type, value} each.
import { html, useState } from "../vendor/preact.js";
import { Badge, Text } from "./parts.js";

/** Return a caller as type:name. */
export function callerText({ data_type: type, value }) {
  return `${type}:${value}`;
}

/** Return a caller in words, also one that stands for many. */
export function describeCaller({ data_type: type, value }) {
  if (type === "*") return "everybody";
  return value === "*" ? `every ${type}` : `${type}:${value}`;
}

/** Return what *after* has and *before* lacks. */
export function newCallers(before, after) {
  const had = new Set(before.map(callerText));
  return after.filter((each) => !had.has(callerText(each)));
}

/**
 * A list of callers that can be changed: each with a button that takes it off, and a form that adds one.
 *
 * @param {{label: string, value: {data_type: string, value: string}[], onChange: (value) => void, everybody?: boolean}} given
 *   everybody: whether the list may name everybody at once
 */
export function CallerList({ label, value, onChange, everybody = true }) {
  const [type, setType] = useState("service");
  const [name, setName] = useState("");
  const isAll = type === "*";
  const added = { data_type: type, value: isAll ? "*" : name.trim() };
  const isThere = value.some((each) => callerText(each) === callerText(added));
  function add(event) {
    event.preventDefault();
    if (!added.value || isThere) return;
    onChange([...value, added]);
    setName("");
  }
  return html`<fieldset class="callers">
    <legend>${label}</legend>
    ${value.length
      ? html`<ul>${value.map((each) => html`<li key=${callerText(each)}>
          <${Badge}>${each.data_type === "*" ? "all" : each.data_type}<//> <${Text} limit=${80}>${each.data_type === "*" ? "everybody" : each.value}<//>
          <button type="button" class="plain" aria-label=${`Take ${callerText(each)} off`} onClick=${() => onChange(value.filter((other) => other !== each))}>Remove</button>
        </li>`)}</ul>`
      : html`<p class="quiet">Nobody.</p>`}
    <form class="row" onSubmit=${add}>
      <select aria-label=${`Kind of caller to add to ${label}`} value=${type} onChange=${(event) => setType(event.target.value)}>
        <option value="service">service</option><option value="user">user</option>${everybody && html`<option value="*">everybody</option>`}</select>
      ${!isAll && html`<input aria-label=${`Name to add to ${label}`} placeholder=${type === "user" ? "jane" : "billing"} maxlength="255" value=${name} onInput=${(event) => setName(event.target.value)} />`}
      <button disabled=${!added.value || isThere}>Add</button>
    </form>
  </fieldset>`;
}
