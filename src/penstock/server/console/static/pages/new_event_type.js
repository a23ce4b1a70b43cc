// A new event type: from an example to a schema, checked by the hub while it is written.
import { html, useContext, useEffect, useMemo, useState } from "../vendor/preact.js";
import { get, path, send } from "../core/api.js";
import { option } from "../core/commands.js";
import { argument } from "../core/format.js";
import { go, to } from "../core/routing.js";
import { CallerContext, useAnswer, useRights } from "../core/state.js";
import { AccessLists, CATEGORIES, CheckResult, Choice, completeAccess, Field, isUnreadable, MODES, POLICIES, RetentionFields, splitNames, useDefinitionCheck } from "../parts/definitions.js";
import { Card, Command, Copy, Failure, Title } from "../parts/parts.js";
import { Fields, inferSchema, listFields, pretty, readExamples, readJson } from "../parts/schemas.js";

const EXAMPLE = `{
  "order_id": 4711,
  "customer": "Ada",
  "total": 12.5,
  "placed_at": "2026-11-30T15:42:34Z"
}`;
/** The hub looks up event types by names of this form alone. */
const NAME = /^[a-zA-Z][-0-9a-zA-Z_]*(\.[0-9a-zA-Z][-0-9a-zA-Z_]*)*$/;
const PARTITIONS = 4;
const EMPTY_SCHEMA = '{\n  "type": "object",\n  "properties": {}\n}';

/** The form for a new event type. */
export function NewEventType() {
  const caller = useContext(CallerContext);
  const { create, administer } = useRights();
  const usual = useAnswer(administer ? "/settings/retention" : null);
  const [name, setName] = useState("");
  const [draft, setDraft] = useState({
    owning_application: caller?.method && caller.type === "service" ? caller.name : "", category: "undefined", partition_count: PARTITIONS, partition_key_fields: [], ordering_key_fields: [],
    compatibility_mode: "forward", cleanup_policy: "delete", options: {}, authorization: null,
  });
  const [description, setDescription] = useState("");
  const [schema, setSchema] = useState(EMPTY_SCHEMA);
  const [example, setExample] = useState("");
  const [exampleError, setExampleError] = useState("");
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const isName = NAME.test(name);
  const taken = useTaken(isName ? name : "");
  const set = (members) => setDraft((now) => ({ ...now, ...members }));
  const definition = useMemo(() => {
    const whole = {
      name, ...draft, partition_strategy: draft.partition_key_fields.length ? "hash" : "random", schema: { type: "json_schema", schema },
      enrichment_strategies: draft.category === "undefined" ? [] : ["metadata_enrichment"], authorization: completeAccess(draft.authorization),
    };
    if (description) whole.annotations = { description };
    if (!whole.authorization) delete whole.authorization;
    return whole;
  }, [name, draft, schema, description]);
  const parsed = useMemo(() => readJson(schema), [schema]);
  const fields = useMemo(() => (parsed.value ? listFields(parsed.value) : []), [parsed]);
  const keys = fields.filter((each) => !each.path.includes("[]") && /^(string|integer|number)/.test(each.type)).map((each) => each.path);
  const unreadable = isUnreadable(definition);
  const check = useDefinitionCheck(name, isName && !unreadable && !parsed.error ? definition : null);
  const wrong = check.violations;
  const wrongName = taken ? "There is an event type of this name already." : name && !isName ? "has letters, digits, - and _, in parts separated by dots, and begins with a letter" : null;
  if (create === false) return html`<${Title}>New event type<//><p class="message warn">You may not create event types here: an administrator of the hub can give the right, or has switched creation off for all others.</p>`;

  function readExample(text) {
    setExample(text);
    if (!text.trim()) return setExampleError("");
    const { value, error: failure } = readExamples(text);
    setExampleError(failure ?? "");
    if (!value) return undefined;
    const bare = value.map(({ metadata, ...rest }) => (draft.category === "undefined" && metadata !== undefined ? { metadata, ...rest } : draft.category === "data" && rest.data !== null && typeof rest.data === "object" ? rest.data : rest));
    return setSchema(JSON.stringify(inferSchema(bare), null, 2));
  }
  async function submit(event) {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await send("POST", "/event-types", definition);
      go(to`/event-types/${name}`);
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  }
  const command = ["penstock event-type create", draft.owning_application && option("owning-application", draft.owning_application), draft.category !== "undefined" && option("category", draft.category),
    option("partitions", draft.partition_count), ...draft.partition_key_fields.map((each) => option("partition-key-field", each)), argument(name || "NAME")].filter(Boolean).join(" ");
  return html`
    <${Title} crumbs=${html`<a href=${to`/event-types`}>Event types</a>`} lead="Paste an event, look at what the hub makes of it, and create.">New event type<//>
    <form class="stack" onSubmit=${submit}>
      <div class="grid">
        <${Card} title="What it is" span="half"><div class="fields-grid">
          <${Field} label="Name" field="name" violations=${wrong} wrong=${wrongName} hint="In parts, such as order.placed: the thing, and what happened to it.">
            ${(attributes) => html`<input ...${attributes} required maxlength="255" autocomplete="off" spellcheck="false" placeholder="order.placed" value=${name} onInput=${(event) => setName(event.target.value.trim())} />`}<//>
          <${Field} label="Owner" field="owning_application" violations=${wrong} hint="The application or team that answers for these events.">
            ${(attributes) => html`<input ...${attributes} placeholder="shop" value=${draft.owning_application} onInput=${(event) => set({ owning_application: event.target.value })} />`}<//>
          <${Field} label="Description" wide field="annotations" violations=${wrong}>
            ${(attributes) => html`<textarea ...${attributes} class="prose" maxlength="1000" placeholder="A customer has placed an order, and pays for it later." value=${description} onInput=${(event) => setDescription(event.target.value)}></textarea>`}<//>
          <${Choice} label="Category" field=${["category", "enrichment_strategies"]} violations=${wrong} value=${draft.category} choices=${CATEGORIES} onChange=${(value) => set({ category: value })} />
          <${Field} label="Partitions" field=${["partition_count", "default_statistic"]} violations=${wrong} hint="As many consumers can read at once. More can be added, none removed.">
            ${(attributes) => html`<input ...${attributes} type="number" min="1" max="256" required value=${draft.partition_count} onInput=${(event) => set({ partition_count: Math.trunc(Number(event.target.value)) })} />`}<//>
          <${Field} label="Key fields" wide field=${["partition_key_fields", "partition_strategy"]} violations=${wrong} hint=${draft.partition_key_fields.length
            ? "Events of the same key are in the same partition, in the order of publishing." : "Without a key events have no order. Name the field of the thing that they are about, such as its id."}>
            ${(attributes) => html`<input ...${attributes} placeholder="none" value=${draft.partition_key_fields.join(", ")} onChange=${(event) => set({ partition_key_fields: splitNames(event.target.value) })} />
              ${keys.length > 0 && html`<div class="row choices" role="group" aria-label="Fields of the schema">${keys.slice(0, 24).map((each) => html`<button type="button" key=${each} aria-pressed=${draft.partition_key_fields.includes(each)}
                onClick=${() => set({ partition_key_fields: draft.partition_key_fields.includes(each) ? draft.partition_key_fields.filter((other) => other !== each) : [...draft.partition_key_fields, each] })}>${each}</button>`)}</div>`}`}<//>
          <${Field} label="Ordered by" wide field="ordering_key_fields" violations=${wrong} hint="Fields such as a version, by which consumers can order events; may stay empty.">
            ${(attributes) => html`<input ...${attributes} placeholder="none" value=${draft.ordering_key_fields.join(", ")} onChange=${(event) => set({ ordering_key_fields: splitNames(event.target.value) })} />`}<//>
        </div><//>
        <${Card} title="What its events look like" span="half">
          <${Field} label="An example, or several: one JSON object, an array, or one a line" wide wrong=${exampleError || null} hint="The schema is made from it; a field is required if all examples have it.">
            ${(attributes) => html`<textarea ...${attributes} spellcheck="false" dir="ltr" placeholder=${EXAMPLE} value=${example} onInput=${(event) => readExample(event.target.value)}></textarea>`}<//>
          <p><button type="button" class="plain" onClick=${() => readExample(EXAMPLE)}>Fill in an example</button></p>
          <${Field} label="JSON Schema${draft.category === "data" ? " of the member data" : draft.category === "business" ? ", without metadata" : ""}" wide field="schema" violations=${wrong} wrong=${parsed.error ? `This is no JSON: ${parsed.error}` : null}
            hint="Change it as you like: descriptions help those who read.">
            ${(attributes) => html`<textarea ...${attributes} class="tall" spellcheck="false" dir="ltr" value=${schema} onInput=${(event) => setSchema(event.target.value)}></textarea>`}<//>
          <p><button type="button" disabled=${Boolean(parsed.error)} onClick=${() => setSchema(pretty(schema))}>Format</button></p>
        <//>
        ${fields.length > 0 && html`<${Card} title="Fields" flush><${Fields} schema=${parsed.value} /><//>`}
        <${Card} title="How long events stay" span="half">
          <${RetentionFields} isNew options=${draft.options} violations=${wrong} usual=${usual.value ?? undefined} onChange=${(options) => set({ options })} />
          <div class="fields-grid">
            <${Choice} label="Cleanup" field="cleanup_policy" violations=${wrong} value=${draft.cleanup_policy} choices=${POLICIES} onChange=${(value) => set({ cleanup_policy: value })} />
            <${Choice} label="Compatibility of schemas" field="compatibility_mode" violations=${wrong} value=${draft.compatibility_mode} choices=${MODES} onChange=${(value) => set({ compatibility_mode: value })} hint="Later versions may have ${MODES[draft.compatibility_mode]}." />
          </div>
        <//>
        <${Card} title="Who may use it" span="half"><${AccessLists} value=${draft.authorization} violations=${wrong} onChange=${(authorization) => set({ authorization })} /><//>
      </div>
      <div class="save" role="region" aria-label="Create">
        ${unreadable ? html`<p class="wrong">A duration or size cannot be read.</p>` : !isName ? html`<p class="quiet">Give it a name: then the hub checks the definition while you write.</p>` : taken ? html`<p class="message warn">There is an event type <a href=${to`/event-types/${name}`}>${name}</a> already: choose another name, or change that one.</p>` : html`<${CheckResult} check=${check} good="The hub would create this." />`}
        <${Failure} error=${error} />
        <div class="buttons">
          <button class="primary" disabled=${busy || !check.taken || taken || Boolean(parsed.error)}>${busy ? "Creating …" : "Create event type"}</button>
          <${Copy} text=${() => JSON.stringify(definition, null, 2)}>Copy definition<//>
        </div>
        <details><summary class="quiet">The same on the command line</summary><${Command}>${command}<//><p class="quiet">This has no schema; with <code>--file definition.json</code> it takes the whole definition, as it is copied by the button.</p></details>
      </div>
    </form>`;
}

/** Whether an event type of this name is there already. */
function useTaken(name) {
  const [found, setFound] = useState({ name: "", taken: false });
  useEffect(() => {
    if (!name) return undefined;
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      try {
        await get(path`/event-types/${name}`, { signal: stop.signal });
        setFound({ name, taken: true });
      } catch (error) {
        if (error.name !== "AbortError") setFound({ name, taken: error.status === 403 });
      }
    }, 300);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [name]);
  return found.name === name && found.taken;
}
