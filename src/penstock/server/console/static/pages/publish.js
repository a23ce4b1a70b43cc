// Publishes a test event: a form made from the schema, or JSON.
import { html, useMemo, useState } from "../vendor/preact.js";
import { path, query, send } from "../core/api.js";
import { onHub } from "../core/commands.js";
import * as format from "../core/format.js";
import { mayBeRounded, parseExact, writeExact } from "../core/json.js";
import { escapePointer, readViolations, toEntered, toField, toValue } from "../core/schema.js";
import { to } from "../core/routing.js";
import { Card, Command, Failure, Text } from "../parts/parts.js";

const ENTER_JSON = "Enter the event as JSON: that is sent as it is written.";
const DATA_OPERATIONS = ["C", "U", "D", "S"];

function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((each) => each.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

/** The schema of what is entered: events of data changes have the event type's schema below `data`. */
function schemaOf(type) {
  let own = {};
  try {
    own = JSON.parse(type.schema.schema);
  } catch {
    // The registry has other kinds of schemas: raw JSON it is.
  }
  if (type.category !== "data") return { schema: own, root: own };
  const schema = { type: "object", required: ["data_type", "data_op", "data"], properties: { data_type: { type: "string" }, data_op: { enum: DATA_OPERATIONS }, data: own } };
  return { schema, root: own };
}

/** The view that publishes one event. */
export function PublishEvent({ type }) {
  const field = useMemo(() => {
    const { schema, root } = schemaOf(type);
    return toField(schema, root);
  }, [type]);
  const hasForm = field.kind === "object";
  const [isRaw, setRaw] = useState(!hasForm);
  const [entered, setEntered] = useState({});
  const [raw, setRawText] = useState("{}");
  const [key, setKey] = useState("");
  const [partition, setPartition] = useState("");
  const [compactionKey, setCompactionKey] = useState("");
  const [headers, setHeaders] = useState([]);
  const [state, setState] = useState({ busy: false, error: null, sent: null });
  const violations = useMemo(() => readViolations(state.error?.problem?.reason), [state.error]);
  const known = useMemo(() => new Set(isRaw ? [] : pointersOf(field, entered, "#")), [field, entered, isRaw]);
  const elsewhere = [...violations].filter(([pointer]) => !known.has(pointer));
  const hasMetadata = type.category !== "undefined";
  const isCompacted = hasMetadata && type.cleanup_policy.startsWith("compact");

  /** What was entered in the form. */
  function readForm() {
    const value = toValue(field, entered) ?? {};
    if (mayBeRounded(value)) throw new RangeError("This browser rounds whole numbers beyond 2^53, so that the form cannot hold one of these numbers.");
    return value;
  }

  /** The line that is sent. */
  function writeLine(isExample = false) {
    let data;
    if (isRaw) {
      JSON.parse(raw);
      data = raw.trim().replace(/[\r\n]+\s*/g, " ");
    } else {
      const value = readForm();
      if (hasMetadata) value.metadata = { eid: newId(), occurred_at: new Date().toISOString(), ...(isCompacted && compactionKey ? { partition_compaction_key: compactionKey } : {}) };
      data = writeExact(value);
    }
    const named = headers.filter(([name]) => name);
    const beside = { ...(key ? { key } : {}), ...(named.length ? { headers: Object.fromEntries(named) } : {}), ...(partition !== "" ? { partition: Number(partition) } : {}) };
    const members = JSON.stringify(beside).slice(1, -1);
    return `{${members}${members && ","}"data":${data}}${isExample ? "" : "\n"}`;
  }

  async function publish(event) {
    event.preventDefault();
    setState((before) => ({ ...before, busy: true, error: null }));
    try {
      const answer = await send("POST", path`/feeds/${type.name}`, writeLine(), { type: "application/x-ndjson" });
      const [[where, cursor]] = Object.entries(answer.cursors);
      setState({ busy: false, error: null, sent: `${where}:${Number(cursor.slice(cursor.lastIndexOf("-") + 1)) - 1}` });
    } catch (error) {
      const failure = error instanceof SyntaxError ? { message: `This is not JSON: ${error.message}`, hint: "An event is one object, such as {\"order_id\": 1}." }
        : error instanceof RangeError ? { message: error.message, hint: ENTER_JSON } : error;
      setState({ busy: false, error: failure, sent: null });
    }
  }

  function change(toRaw) {
    if (toRaw) {
      let value;
      try {
        value = readForm();
      } catch (error) {
        setState((before) => ({ ...before, error: { message: error.message, hint: "Make it smaller, go to JSON, and write it there." } }));
        return;
      }
      setRawText(writeExact(hasMetadata ? { ...value, metadata: { eid: newId(), occurred_at: new Date().toISOString() } } : value, 2));
    } else {
      try {
        const value = parseExact(raw);
        if (mayBeRounded(value)) throw new Error("this browser rounds whole numbers beyond 2^53");
        const { metadata: _metadata, ...rest } = hasMetadata ? value : { ...value };
        const form = toEntered(field, rest) ?? {};
        if (sorted(toValue(field, form) ?? {}) !== sorted(rest)) throw new Error("the form has no fields for all of it");
        setEntered(form);
      } catch (error) {
        setState((before) => ({ ...before, error: { message: `The form cannot show this JSON: ${error.message}.`, hint: "Go on with JSON." } }));
        return;
      }
    }
    setRaw(toRaw);
    setState((before) => ({ ...before, error: null }));
  }

  let example = null;
  try {
    example = writeLine(true);
  } catch {
    // It is not JSON yet.
  }
  const isViolated = violations.size > 0;
  return html`<form class="publish" onSubmit=${publish}>
    <${Card} title="Publish a test event" more=${hasForm && html`<span class="row" role="group" aria-label="How to enter it">
        <button type="button" aria-pressed=${isRaw ? "false" : "true"} onClick=${() => isRaw && change(false)}>Form</button>
        <button type="button" aria-pressed=${isRaw ? "true" : "false"} onClick=${() => !isRaw && change(true)}>JSON</button></span>`}>
      <p class="quiet">It is a real event: all consumers of this event type get it, and it stays as long as others.${hasMetadata && !isRaw ? " Its metadata, an id and the time, are filled in." : ""}</p>
      <div class="fields">
        ${isRaw
          ? html`<label>Event, as JSON<textarea rows="12" spellcheck=${false} value=${raw} onInput=${(event) => setRawText(event.target.value)}></textarea></label>`
          : html`<${Members} field=${field} entered=${entered} change=${setEntered} pointer="#" violations=${violations} />`}
        <fieldset><legend>Beside the event</legend>
          <div class="toolbar">
            <label>Key<input value=${key} onInput=${(event) => setKey(event.target.value)} /></label>
            ${type.partition_strategy === "user_defined" && html`<label>Partition<input type="number" min="0" max=${type.partition_count - 1} value=${partition} onInput=${(event) => setPartition(event.target.value)} /></label>`}
            ${isCompacted && !isRaw && html`<label>Compaction key<input value=${compactionKey} onInput=${(event) => setCompactionKey(event.target.value)} /></label>`}
            <button type="button" onClick=${() => setHeaders([...headers, ["", ""]])}>Add a header</button>
          </div>
          ${headers.map(([header, value], at) => {
            const set = (pair) => setHeaders(headers.map((each, index) => (index === at ? pair : each)));
            return html`<div class="toolbar" key=${at}>
              <label>Header<input placeholder="ce_type" value=${header} onInput=${(event) => set([event.target.value, value])} /></label>
              <label class="grow">Value<input value=${value} onInput=${(event) => set([header, event.target.value])} /></label>
              <button type="button" onClick=${() => setHeaders(headers.filter((_, index) => index !== at))}>Remove</button></div>`;
          })}
        </fieldset>
      </div>
      ${isViolated
        ? html`<div class="message bad" role="alert"><strong>The event was not published.</strong>${" "}
            ${format.plural([...violations.values()].flat().length, "violation")} of the schema${elsewhere.length ? ":" : ", marked above."}
            ${elsewhere.length > 0 && html`<ul>${elsewhere.map(([pointer, says]) => html`<li key=${pointer}><code><${Text}>${pointer}<//></code> <${Text} limit=${400}>${says.join("; ")}<//></li>`)}</ul>`}</div>`
        : html`<${Failure} error=${state.error} />`}
      ${state.sent && html`<p class="message good" role="status">Published: <a href=${to`/event-types/${type.name}/events` + query({ view: "publish", event: state.sent })}>${state.sent}</a></p>`}
      <div class="buttons"><button class="primary" disabled=${state.busy}>${state.busy ? "Publishing …" : "Publish"}</button></div>
      ${example && example.length < 2000 && html`<details><summary class="quiet">The same on the command line</summary>
        <${Command}>${`printf '%s\\n' ${format.quote(example)} | ${onHub(`penstock publish ${format.argument(type.name)}`)}`}<//></details>`}
    <//>
  </form>`;
}

/** JSON with members in order, to compare. */
function sorted(value) {
  const order = (each) => {
    if (Array.isArray(each)) return each.map(order);
    if (each === null || typeof each !== "object") return each;
    return Object.fromEntries(Object.entries(each).sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, member]) => [name, order(member)]));
  };
  return writeExact(order(value));
}

/** The pointers of all fields that the form shows. */
function pointersOf(field, entered, pointer) {
  const below = (name, member, value) => [`${pointer}/${escapePointer(name)}`, ...pointersOf(member, value, `${pointer}/${escapePointer(name)}`)];
  if (field.kind === "object") return field.members.flatMap(({ name, field: member }) => below(name, member, entered?.[name]));
  return field.kind === "list" ? (entered ?? []).flatMap((each, at) => below(at, field.item, each)) : [];
}

function Members({ field, entered, change, pointer, violations }) {
  return field.members.map(({ name, required, field: member }) => html`<${Field} key=${name} field=${member} name=${name} required=${required}
    entered=${entered?.[name]} change=${(value) => change({ ...entered, [name]: value })} pointer="${pointer}/${escapePointer(name)}" violations=${violations} />`);
}

/** The id of what is said of a field: ids have no spaces, and names of members may. */
function idOf(pointer) {
  return `says-${encodeURIComponent(pointer)}`;
}

function Field({ field, name, required, entered, change, pointer, violations }) {
  const says = violations.get(pointer);
  const label = html`<span><${Text} limit=${80}>${name}<//>${required && html`<span class="required" title="required"> *<span class="visually-hidden"> required</span></span>`}
    <span class="quiet"> ${field.kind === "text" ? (field.format ?? "text") : field.kind === "json" ? "JSON" : field.kind}</span></span>`;
  const about = html`${field.description && html`<span class="quiet about"><${Text} limit=${300}>${field.description}<//></span>`}
    ${says && html`<span class="violation" id=${idOf(pointer)}><${Text} limit=${400}>${says.join("; ")}<//></span>`}`;
  const described = { "aria-invalid": says ? "true" : null, "aria-describedby": says ? idOf(pointer) : null };
  const input = (event) => change(event.target.value);
  if (field.kind === "object") {
    return html`<fieldset class=${says ? "violated" : ""}><legend>${label}</legend>${about}<div class="fields"><${Members} field=${field} entered=${entered} change=${change} pointer=${pointer} violations=${violations} /></div></fieldset>`;
  }
  if (field.kind === "list") {
    const items = entered ?? [];
    return html`<fieldset class=${says ? "violated" : ""}><legend>${label}</legend>${about}<div class="fields">
      ${items.map((each, at) => html`<div class="item" key=${at}>
        <${Field} field=${field.item} name=${String(at)} entered=${each} change=${(value) => change(items.map((old, index) => (index === at ? value : old)))} pointer="${pointer}/${at}" violations=${violations} />
        <button type="button" onClick=${() => change(items.filter((_, index) => index !== at))}>Remove</button></div>`)}
      <div><button type="button" onClick=${() => change([...items, undefined])}>Add an item</button></div></div></fieldset>`;
  }
  if (field.kind === "boolean" || field.kind === "choice") {
    const choices = field.kind === "boolean" ? [["true", "true"], ["false", "false"]] : field.choices.map((each, at) => [String(at), typeof each === "string" ? each : JSON.stringify(each)]);
    return html`<label>${label}<select value=${entered ?? ""} onChange=${input} ...${described}>
      <option value="">–</option>${choices.map(([value, text]) => html`<option key=${value} value=${value}>${format.line(text, 100)}</option>`)}</select>${about}</label>`;
  }
  if (field.kind === "json") return html`<label>${label}<textarea rows="3" spellcheck=${false} value=${entered ?? ""} onInput=${input} ...${described}></textarea>${about}</label>`;
  const hint = field.example === undefined ? (field.format === "date-time" ? new Date().toISOString() : "") : format.line(typeof field.example === "string" ? field.example : JSON.stringify(field.example), 60);
  return html`<label>${label}<input inputmode=${field.kind === "text" ? null : "decimal"} placeholder=${hint} value=${entered ?? ""} onInput=${input} ...${described} />${about}</label>`;
}
