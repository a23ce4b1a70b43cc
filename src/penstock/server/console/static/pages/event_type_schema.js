// The schema of an event type: its versions, what changed between them, and what a new one would break.
import { html, useEffect, useMemo, useState } from "../vendor/preact.js";
import { get, getAll, path, query, send } from "../core/api.js";
import { curl } from "../core/commands.js";
import * as format from "../core/format.js";
import { keepInAddress, to, usePlace } from "../core/routing.js";
import { useAnswer, usePolled } from "../core/state.js";
import { MODES } from "../parts/definitions.js";
import { Diff } from "../parts/diff.js";
import { listConsumers } from "../parts/event_type_head.js";
import { Badge, Card, Confirm, Copy, Failure, Loaded, Source, Time } from "../parts/parts.js";
import { Fields, pretty, readJson, SchemaChanges, Verdict } from "../parts/schemas.js";

const VERSIONS_SHOWN = 200;
const COMMAND_CHARS_MAX = 2000;

/** The tab: the address has `version`, `against`, `as` and `edit`. */
export function SchemaTab({ name, definition, rights, refresh }) {
  const { search } = usePlace();
  const versions = usePolled((signal) => getAll(path`/event-types/${name}/schemas` + query({ limit: 50 }), VERSIONS_SHOWN, { signal }), 30, [name, definition.schema.version]);
  if (search.get("edit") === "1") {
    return html`<${Editor} name=${name} definition=${definition} mayAdd=${rights.admin} onAdded=${() => { refresh(); versions.refresh(); }} />`;
  }
  return html`<${Loaded} answer=${versions}>${(items) => html`<${Versions} name=${name} items=${items} search=${search} />`}<//>`;
}

function Versions({ name, items, search }) {
  const shown = items.find((each) => each.version === search.get("version")) ?? items[0];
  const against = items.find((each) => each.version === search.get("against"));
  const as = search.get("as") ?? "fields";
  const previous = items[items.indexOf(shown) + 1];
  const option = (each) => html`<option key=${each.version} value=${each.version}>${each.version}${each === items[0] ? " (latest)" : ""} · ${format.time(each.created_at).slice(0, 16)}</option>`;
  return html`
    <div class="toolbar">
      <label>Version<select value=${shown.version} onChange=${(event) => keepInAddress({ version: event.target.value })}>${items.map(option)}</select></label>
      <label>Compared with<select value=${against?.version ?? ""} onChange=${(event) => keepInAddress({ against: event.target.value })}>
        <option value="">nothing</option>${items.filter((each) => each !== shown).map(option)}</select></label>
      ${previous && against !== previous && html`<button onClick=${() => keepInAddress({ against: previous.version })}>What changed since ${previous.version}?</button>`}
      <a class="button primary" href=${to`/event-types/${name}/schema` + query({ edit: 1 })}>Try a new schema</a>
    </div>
    ${items.length >= VERSIONS_SHOWN && html`<p class="quiet">The newest ${VERSIONS_SHOWN} versions are listed.</p>`}
    ${against ? html`<${Compared} name=${name} before=${against} after=${shown} />` : html`<${One} schema=${shown} as=${as} />`}`;
}

function One({ schema, as }) {
  const text = useMemo(() => pretty(schema.schema), [schema]);
  const parsed = useMemo(() => readJson(schema.schema).value, [schema]);
  return html`<${Card} title="Version ${schema.version}" flush more=${html`<span class="row"><span class="quiet">since <${Time} value=${schema.created_at} /></span>
      <span class="buttons" role="group" aria-label="Show as">
        <button aria-pressed=${as === "fields"} onClick=${() => keepInAddress({ as: "" })}>Fields</button>
        <button aria-pressed=${as === "json"} onClick=${() => keepInAddress({ as: "json" })}>JSON Schema</button>
      </span><${Copy} text=${text}>Copy<//></span>`}>
    ${as === "json" || !parsed ? html`<div class="inset"><${Source} text=${text} /></div>` : html`<${Fields} schema=${parsed} />`}
  <//>`;
}

function Compared({ name, before, after }) {
  const answer = usePolled(
    (signal) => send("POST", path`/event-types/${name}/schemas/${before.version}/compatibility-check`, { type: after.type, schema: after.schema }, { signal }),
    0, [name, before.version, after.version],
  );
  const texts = useMemo(() => [pretty(before.schema), pretty(after.schema)], [before, after]);
  return html`<div class="stack">
    <${Card} title="From ${before.version} to ${after.version}" flush>
      <${Loaded} answer=${answer}>${(found) => html`<div class="inset"><${Summary} found=${found} /></div><${SchemaChanges} changes=${found.changes} />`}<//>
    <//>
    <${Card} title="Text"><${Diff} before=${texts[0]} after=${texts[1]} label="Differences of the schemas" /><//>
  </div>`;
}

function Summary({ found }) {
  const level = ["MAJOR", "MINOR", "PATCH"].find((each) => found.changes.some((change) => change.level === each));
  if (!found.changes.length) return html`<p>The schemas mean the same.</p>`;
  const may = [!found.producers && "producers", !found.consumers && "consumers"].filter(Boolean);
  return html`<p>${format.plural(found.changes.length, "change")}, at most <${Badge}>${level}<//>: ${may.length ? html`${may.join(" and ")} of the earlier version may have to change` : "producers and consumers of the earlier version can stay as they are"}.
    ${!found.compatible && html` The mode <strong>${found.compatibility_mode}</strong>, which the event type has now, would refuse this.`}</p>`;
}

function Editor({ name, definition, mayAdd, onAdded }) {
  const current = useMemo(() => pretty(definition.schema.schema), [definition.schema.schema]);
  const [text, setText] = useState(current);
  const [check, setCheck] = useState({ of: null });
  const [asking, setAsking] = useState(false);
  const [added, setAdded] = useState("");
  const parsed = useMemo(() => readJson(text), [text]);
  const consumers = usePolled((signal) => listConsumers(name, signal), 0, [name]);
  const producers = useAnswer(path`/event-types/${name}/producers`);
  const isSame = !parsed.error && JSON.stringify(parsed.value) === JSON.stringify(readJson(current).value);
  useEffect(() => {
    if (parsed.error || isSame) return undefined;
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const found = await send("POST", path`/event-types/${name}/schemas/latest/compatibility-check`, { type: "json_schema", schema: text }, { signal: stop.signal });
        setCheck({ of: text, found });
      } catch (error) {
        if (error.name !== "AbortError") setCheck({ of: text, error });
      }
    }, 400);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [text, name, definition.schema.version]);
  const isChecked = check.of === text && !parsed.error && !isSame;
  const { found, error } = isSame || parsed.error ? {} : check;
  const readers = consumers.value?.map((each) => ({ label: each.label, group: each.group }));
  const writers = producers.value?.items.map((each) => ({ label: each.caller }));
  const mayBeAdded = isChecked && found?.compatible && found.version !== found.validated_against_version;
  return html`<div class="grid">
    <${Card} title="A new schema" span="half" more=${html`<a href=${to`/event-types/${name}/schema`}>Back to the versions</a>`}>
      <div class="field all">
        <label for="schema-text">JSON Schema, of draft 4, or 6 or 7 by its $schema</label>
        <textarea id="schema-text" class="tall" spellcheck="false" dir="ltr" aria-invalid=${parsed.error ? "true" : null} aria-describedby="schema-wrong" value=${text} onInput=${(event) => { setText(event.target.value); setAdded(""); }}></textarea>
        <p id="schema-wrong" class="wrong">${parsed.error ? `This is no JSON: ${parsed.error}` : ""}</p>
      </div>
      <div class="buttons">
        <button disabled=${Boolean(parsed.error)} onClick=${() => setText(JSON.stringify(parsed.value, null, 2))}>Format</button>
        <button disabled=${text === current} onClick=${() => setText(current)}>Start again</button>
        ${mayAdd && html`<button class="primary" disabled=${!mayBeAdded} onClick=${() => setAsking(true)}>Add this schema</button>`}
      </div>
      ${!mayAdd && html`<p class="quiet">Its admins can add schemas.</p>`}
      <p class="quiet">The mode <strong>${definition.compatibility_mode}</strong> allows ${MODES[definition.compatibility_mode]}.</p>
    <//>
    <${Card} title="What it would change" span="half" more=${!parsed.error && !isSame && !isChecked ? html`<span class="quiet">Checking …</span>` : null}>
        ${added && html`<p class="message good" role="status">${added}</p>`}
        ${error ? html`<${Failure} error=${error} />` : found?.error && !found.changes.length ? html`<div class="message bad" role="status"><strong>The hub would refuse this.</strong> ${format.text(found.error)}</div>`
          : found ? html`<${Verdict} found=${found} producers=${writers} consumers=${readers} />`
          : html`<p class="quiet">${parsed.error ? "It is no JSON: correct it at the left." : isSame ? "This is the latest schema. Change it at the left: here it says what that does, and to whom." : "…"}</p>`}
    <//>
    ${found && !error && html`<${Card} title="Changes" flush><${SchemaChanges} changes=${found.changes} /><//>`}
    <${Card} title="Text"><${Diff} before=${current} after=${text} label="Differences from the latest schema" /><//>
    ${asking && html`<${Confirm} title="Add version ${found.version} of the schema?" verb="Add the schema" danger=${!(found.producers && found.consumers)}
      act=${async () => {
        const latest = await get(path`/event-types/${name}`);
        if (latest.schema.version !== definition.schema.version) throw new Error(`Version ${latest.schema.version} was added meanwhile: look at it first.`);
        await send("POST", path`/event-types/${name}/schemas`, { type: "json_schema", schema: text });
        setAdded(`Version ${found.version} holds from now on.`);
        onAdded();
      }}
      command=${text.length < COMMAND_CHARS_MAX ? curl("POST", path`/event-types/${name}/schemas`, { type: "json_schema", schema: text }) : null} onClose=${() => setAsking(false)}>
      <p>From now on events are checked against it. Stored events stay as they are. Versions cannot be removed.</p>
      <${Verdict} found=${found} producers=${writers} consumers=${readers} />
    <//>`}
  </div>`;
}
