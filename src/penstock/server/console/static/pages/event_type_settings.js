// The settings of an event type: each change is checked by the hub first, and says what it will do.
import { html, useEffect, useMemo, useState } from "../vendor/preact.js";
import { get, path, query, send } from "../core/api.js";
import { curl } from "../core/commands.js";
import * as format from "../core/format.js";
import { go, to } from "../core/routing.js";
import { useAnswer, usePolled, useRights } from "../core/state.js";
import { AccessLists, AUDIENCES, CheckResult, Choice, completeAccess, exactDuration, Field, isUnreadable, MODES, Pairs, POLICIES, RetentionFields, splitNames, STRATEGIES, useDefinitionCheck } from "../parts/definitions.js";
import { describeCaller } from "../parts/callers.js";
import { Diff } from "../parts/diff.js";
import { listConsumers } from "../parts/event_type_head.js";
import { Badge, Card, Confirm, Copy, Failure, Text } from "../parts/parts.js";

const EVOLUTIONS = { nakadi: "Nakadi's list of changes", consumers: "also to remove optional fields and values of an enum" };
const DESCRIPTION_MAX = 1_000;

/** The tab: for admins of the event type. */
export function SettingsTab({ name, definition, rights, refresh }) {
  const consumers = usePolled((signal) => listConsumers(name, signal), 0, [name]);
  const [base, setBase] = useState(definition);
  const [saved, setSaved] = useState("");
  useEffect(() => document.getElementById(location.hash.slice(1))?.scrollIntoView(), [rights.admin]);
  if (rights.admin === undefined) return null;
  if (!rights.admin) return html`<p class="message warn">You may not change this event type: ask one of its admins.</p>`;
  const groups = consumers.value ?? [];
  async function load(says) {
    setBase(await get(path`/event-types/${name}`));
    setSaved(says);
    refresh();
  }
  return html`<div class="stack settings">
    ${definition.updated_at > base.updated_at && html`<div class="message warn" role="alert"><strong>It was changed meanwhile.</strong> What you change here starts from how it was before.
      <p><button onClick=${() => load("")}>Load it again, without my changes</button></p></div>`}
    <${DefinitionForm} key=${base.updated_at} name=${name} definition=${base} groups=${groups} saved=${saved} onSaved=${() => load("Saved. The hub goes by it from now on.")} />
    <${PartitionsForm} key=${`partitions ${base.partition_count}`} name=${name} definition=${base} groups=${groups} onSaved=${() => load("The partitions are there.")} />
    <${Deletion} name=${name} definition=${base} groups=${groups} />
  </div>`;
}

/** Return *definition* as `PUT` takes it. */
function replaceable({ partition_count: _, created_at: __, updated_at: ___, schema, ...rest }) {
  return { ...rest, schema: { type: schema.type, schema: schema.schema } };
}

/** Return the members of *before* and *after* that differ, without the schema, which this form does not change. */
function pickChanged(before, after) {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((each) => JSON.stringify(before[each] ?? null) !== JSON.stringify(after[each] ?? null));
  const pick = (whole) => JSON.stringify(Object.fromEntries(names.map((each) => [each, whole[each] ?? null])), null, 2);
  return { names, before: pick(before), after: pick(after) };
}

function DefinitionForm({ name, definition, groups, saved, onSaved }) {
  const { administer } = useRights();
  const usual = useAnswer(administer ? "/settings/retention" : null);
  const before = useMemo(() => replaceable(definition), [definition]);
  const [draft, setDraft] = useState(before);
  const [reordering, setReordering] = useState(false);
  const [asking, setAsking] = useState(false);
  const [version, setVersion] = useState(0);
  const set = (members) => setDraft((now) => ({ ...now, ...members }));
  const after = useMemo(() => {
    const whole = { ...draft, authorization: completeAccess(draft.authorization) };
    if (!whole.audience) delete whole.audience;
    if (!whole.max_event_bytes) delete whole.max_event_bytes;
    return whole;
  }, [draft]);
  const changed = useMemo(() => pickChanged(before, after), [before, after]);
  const losesOrder = before.partition_strategy !== "random" && (changed.names.includes("partition_strategy") || (before.partition_strategy === "hash" && changed.names.includes("partition_key_fields")));
  const unreadable = isUnreadable(after);
  const flags = losesOrder && reordering ? query({ allow_reordering: "true" }) : "";
  const check = useDefinitionCheck(name, changed.names.length && !unreadable ? after : null, { query: flags });
  const wrong = check.violations;
  return html`
    <${Card} title="About"><div class="fields-grid">
      <${Field} label="Description" wide field="annotations[description]" violations=${wrong} hint="What happened when such an event is published, and what it is good for.">
        ${(attributes) => html`<textarea ...${attributes} class="prose" maxlength=${DESCRIPTION_MAX} value=${draft.annotations?.description ?? ""} onInput=${(event) => {
          const { description: _, ...others } = draft.annotations ?? {};
          set({ annotations: event.target.value ? { ...others, description: event.target.value } : others });
        }}></textarea>`}<//>
      <${Field} label="Owner" field="owning_application" violations=${wrong} hint="The application or team that answers for these events.">
        ${(attributes) => html`<input ...${attributes} value=${draft.owning_application} onInput=${(event) => set({ owning_application: event.target.value })} />`}<//>
      <${Field} label="Audience" field="audience" violations=${wrong} hint="Who is meant to read these events.">
        ${(attributes) => html`<select ...${attributes} value=${draft.audience ?? ""} onChange=${(event) => set({ audience: event.target.value || undefined })}>
          ${!before.audience && html`<option value="">not said</option>`}${AUDIENCES.map((each) => html`<option value=${each}>${each.replaceAll("-", " ")}</option>`)}</select>`}<//>
      <${Choice} label="Compatibility of schemas" field="compatibility_mode" violations=${wrong} value=${draft.compatibility_mode} choices=${MODES} onChange=${(value) => set({ compatibility_mode: value })}
        hint="Allowed: ${MODES[draft.compatibility_mode]}." />
      ${draft.compatibility_mode === "forward" && html`<${Choice} label="Rules of forward" field="options.evolution" violations=${wrong} value=${draft.options?.evolution ?? "nakadi"} choices=${EVOLUTIONS}
        onChange=${(value) => set({ options: { ...draft.options, evolution: value } })} />`}
      <div class="all pair">
        <${Pairs} key=${`labels ${version}`} label="Labels" hint="Short names by which tools select event types." field="labels" value=${draft.labels} violations=${wrong} onChange=${(value) => set({ labels: value })} />
        <${Pairs} key=${`annotations ${version}`} label="Annotations" hint="Notes, such as penstock.waiver/GUIDELINE with a reason." field="annotations" hidden=${["description"]} value=${draft.annotations} violations=${wrong} onChange=${(value) => set({ annotations: value })} />
      </div>
    </div><//>
    <div id="access"><${Card} title="Access"><${AccessLists} value=${draft.authorization} violations=${wrong} onChange=${(value) => set({ authorization: value })} /><//></div>
    <div id="retention"><${Card} title="Retention">
      <${RetentionFields} key=${version} options=${draft.options} violations=${wrong} usual=${usual.value ?? undefined} groups=${groups.map((each) => each.group)} onChange=${(options) => set({ options })} />
      <div class="fields-grid"><${Choice} label="Cleanup" field="cleanup_policy" violations=${wrong} value=${draft.cleanup_policy} choices=${POLICIES} onChange=${(value) => set({ cleanup_policy: value })} /></div>
    <//></div>
    <${Card} title="Publishing"><div class="fields-grid">
      <${Choice} label="Partition of an event" field="partition_strategy" violations=${losesOrder && !reordering ? [] : wrong} value=${draft.partition_strategy} choices=${STRATEGIES} onChange=${(value) => set({ partition_strategy: value, partition_key_fields: value === "hash" ? draft.partition_key_fields : [] })} />
      ${draft.partition_strategy === "hash" && html`<${Field} label="Key fields" field="partition_key_fields" violations=${losesOrder && !reordering ? [] : wrong} hint="Paths into the event, separated by commas.">
        ${(attributes) => html`<input ...${attributes} value=${draft.partition_key_fields.join(", ")} onChange=${(event) => set({ partition_key_fields: splitNames(event.target.value) })} />`}<//>`}
      <${Field} label="Ordered by" field="ordering_key_fields" violations=${wrong} hint="Fields such as a version, by which consumers can order events; separated by commas.">
        ${(attributes) => html`<input ...${attributes} value=${draft.ordering_key_fields.join(", ")} onChange=${(event) => set({ ordering_key_fields: splitNames(event.target.value) })} />`}<//>
      <${Field} label="Accepted from" field="options.publishing" violations=${wrong} hint="Idempotent producers and the outbox never publish an event twice.">
        ${(attributes) => html`<select ...${attributes} value=${draft.options?.publishing ?? ""} onChange=${(event) => {
          const { publishing: _, ...options } = draft.options ?? {};
          set({ options: event.target.value ? { ...options, publishing: event.target.value } : options });
        }}><option value="">all producers</option><option value="exactly-once">the outbox and idempotent producers alone</option></select>`}<//>
      <${Field} label="Largest event, in bytes" field="max_event_bytes" violations=${wrong} hint="A line of the feed, with all headers; empty: the hub's limit.">
        ${(attributes) => html`<input ...${attributes} type="number" min="1" value=${draft.max_event_bytes ?? ""} onInput=${(event) => set({ max_event_bytes: event.target.value ? Number(event.target.value) : undefined })} />`}<//>
    </div>
    ${losesOrder && html`<div class="message warn"><strong>Keys lose their order.</strong> Events of one key that follow will be in other partitions than those before, so consumers may see them in another order.
      <p><label class="check"><input type="checkbox" checked=${reordering} onChange=${(event) => setReordering(event.target.checked)} />Allow that</label></p></div>`}<//>
    <div class="save" role="region" aria-label="Changes">
      ${saved && !changed.names.length && html`<p class="message good" role="status">${saved}</p>`}
      ${unreadable ? html`<p class="wrong">A duration or size cannot be read.</p>` : html`<${CheckResult} check=${check} />`}
      <div class="buttons">
        <button class="primary" disabled=${!check.taken || unreadable} onClick=${() => setAsking(true)}>Review and save</button>
        <button disabled=${!changed.names.length} onClick=${() => { setDraft(before); setVersion(version + 1); }}>Undo</button>
        <span class="quiet">${changed.names.length ? `Changed: ${changed.names.map((each) => each.replaceAll("_", " ")).join(", ")}.` : "Nothing is changed yet."}</span>
      </div>
    </div>
    ${asking && html`<${Review} name=${name} definition=${definition} before=${before} after=${after} changed=${changed} losesOrder=${losesOrder} groups=${groups} usual=${usual.value ?? undefined}
      act=${async () => {
        const now = await get(path`/event-types/${name}`);
        if (now.updated_at !== definition.updated_at) throw new Error("Somebody else has changed this event type meanwhile. Reload the page, and look at it first.");
        await send("PUT", path`/event-types/${name}` + flags, after);
        await onSaved();
      }} onClose=${() => setAsking(false)} />`}`;
}

function Review({ name, definition, before, after, changed, losesOrder, groups, usual, act, onClose }) {
  const notes = [];
  const note = (tone, text) => notes.push([tone, text]);
  const isShorter = (field) => {
    const limit = (options) => options?.[field] ?? usual?.[field] ?? Infinity;
    return limit(after.options) < limit(before.options);
  };
  const shorter = isShorter("retention_time");
  const expired = usePolled((signal) => (shorter ? countOlder(name, after.options.retention_time, signal) : Promise.resolve(null)), 0, [shorter]);
  if (shorter) {
    const left = expired.error ? "" : expired.value === undefined ? " Counting them …" : ` Now that is ${format.plural(expired.value, "event")}.`;
    note("bad", `Events older than ${exactDuration(after.options.retention_time)} are deleted at once, and cannot be brought back.${left}`);
    for (const each of groups.filter((group) => group.lag_seconds > after.options.retention_time / 1000)) note("bad", `${each.label} is ${format.duration(each.lag_seconds)} behind, and would lose events.`);
  }
  if (isShorter("retention_bytes")) note("bad", "The oldest events above the new size are deleted at once.");
  if (before.cleanup_policy !== after.cleanup_policy) note("warn", `From now on the hub will ${POLICIES[after.cleanup_policy]}.`);
  if (losesOrder) note("warn", "Keys lose their order from now on.");
  if (before.compatibility_mode !== after.compatibility_mode) note(after.compatibility_mode === "none" ? "warn" : "note", `Schemas may change by the rules of ${after.compatibility_mode}: ${MODES[after.compatibility_mode]}.`);
  for (const each of compareAccess(before.authorization, after.authorization)) note(...each);
  const danger = notes.some(([tone]) => tone === "bad");
  return html`<${Confirm} title="Change ${name}?" verb="Save" danger=${danger} act=${act} onClose=${onClose} command=${`penstock event-type apply ${losesOrder ? "--allow-reordering " : ""}${format.argument(`${name}.json`)}`}>
    ${notes.length > 0 && html`<ul class="findings">${notes.map(([tone, text]) => html`<li><${Badge} tone=${tone}>${{ bad: "careful", warn: "look", note: "note", good: "new" }[tone]}<//> <span><${Text} limit=${400}>${text}<//></span></li>`)}</ul>`}
    <${Diff} before=${changed.before} after=${changed.after} label="Changes of the definition" />
    <p class="after"><${Copy} text=${JSON.stringify(after, null, 2)}>Copy the new definition, for ${name}.json<//></p>
  <//>`;
}

/** Count the events that are older than a retention, by the cursors at that time. */
async function countOlder(name, millis, signal) {
  const at = new Date(Date.now() - millis).toISOString();
  const [cursors, partitions] = await Promise.all([get(path`/event-types/${name}/cursors` + query({ at }), { signal }), get(path`/event-types/${name}/partitions`, { signal })]);
  const number = (text) => Number(/-(-?\d+)$/.exec(text)?.[1] ?? text);
  const oldest = new Map(partitions.map((each) => [each.partition, number(each.oldest_available_offset)]));
  return cursors.reduce((sum, each) => sum + Math.max(0, number(each.offset) - oldest.get(each.partition) + 1), 0);
}

/** Say in words who gets which right, and who loses one. */
function compareAccess(before, after) {
  if (!after || JSON.stringify(before) === JSON.stringify(after)) return [];
  const found = before ? [] : [["warn", "Until now everything was open to all callers; from now on these lists decide."]];
  for (const [name, right] of [["readers", "read"], ["writers", "publish"], ["admins", "change and delete it"]]) {
    const words = (lists) => (lists?.[name] ?? []).map(describeCaller);
    const [old, now] = [words(before), words(after)];
    for (const each of now.filter((one) => !old.includes(one) && (before || one !== "everybody"))) found.push(["good", `${each} may ${right}.`]);
    for (const each of old.filter((one) => !now.includes(one))) found.push(["warn", `${each} may no longer ${right}, unless another member of the list covers it. Open streams and reads end within a second.`]);
  }
  return found;
}

function PartitionsForm({ name, definition, groups, onSaved }) {
  const [count, setCount] = useState(definition.partition_count);
  const [asking, setAsking] = useState(false);
  const added = count - definition.partition_count;
  const check = useDefinitionCheck(name, added === 0 ? null : { ...replaceable(definition), partition_count: count });
  return html`<${Card} title="Partitions">
    <p>It has ${format.plural(definition.partition_count, "partition")}. More partitions let more consumers read at once. They can be added, and never removed.</p>
    <div class="fields-grid"><${Field} label="Number of partitions" field=${["partition_count", "default_statistic"]} violations=${check.violations}>
      ${(attributes) => html`<input ...${attributes} type="number" min=${definition.partition_count} step="1" value=${count} onInput=${(event) => setCount(Math.trunc(Number(event.target.value)))} />`}<//></div>
    ${check.error && !check.violations.length && html`<${Failure} error=${check.error} />`}
    <button disabled=${added <= 0 || !check.taken} onClick=${() => setAsking(true)}>Add partitions</button>
    ${asking && html`<${Confirm} title="Add ${format.plural(added, "partition")} to ${name}?" verb="Add ${format.plural(added, "partition")}"
      act=${async () => { await send("PUT", path`/event-types/${name}/partition-count`, { partition_count: count }); await onSaved(); }} onClose=${() => setAsking(false)}
      command=${curl("PUT", path`/event-types/${name}/partition-count`, { partition_count: count })}>
      <ul>
        <li>${definition.partition_count} partitions become ${count}; this cannot be taken back.</li>
        ${definition.partition_strategy === "hash" && html`<li><strong>Keys may fall into other partitions from then on:</strong> events of a key that follow can overtake those before, in consumers that read partitions side by side.</li>`}
        <li>${groups.length ? html`${format.plural(groups.length, "consumer")} will find the new partitions and read them from their beginning: <${Groups} groups=${groups} />` : "Nobody keeps a position here."}</li>
        <li>Readers that keep their own cursors have to discover the partitions anew.</li>
      </ul>
    <//>`}
  <//>`;
}

function Groups({ groups }) {
  return html`${groups.slice(0, 20).map((each, at) => html`${at > 0 && ", "}<${Text} limit=${60}>${each.label}<//>`)}${groups.length > 20 && ` and ${groups.length - 20} more`}`;
}

function Deletion({ name, definition, groups }) {
  const { delete: mayDelete } = useRights();
  const [asking, setAsking] = useState(false);
  const [typed, setTyped] = useState("");
  const partitions = useAnswer(asking ? path`/event-types/${name}/partitions` : null);
  const number = (text) => Number(/-(-?\d+)$/.exec(text)?.[1] ?? text);
  const events = partitions.value?.reduce((sum, each) => sum + number(each.newest_available_offset) - number(each.oldest_available_offset) + 1, 0);
  const subscriptions = groups.filter((each) => each.kind === "subscription");
  return html`<${Card} title="Delete">
    <p>The event type goes with all its events and the positions of its consumers. Nothing of it can be brought back.</p>
    ${mayDelete === false
      ? html`<p class="quiet">An administrator of the hub has switched off that event types are deleted.</p>`
      : html`<button class="danger" onClick=${() => { setTyped(""); setAsking(true); }}>Delete ${name}</button>`}
    ${asking && html`<${Confirm} title="Delete ${name}?" verb="Delete it for good" disabled=${typed !== name} onClose=${() => setAsking(false)} command=${`penstock event-type delete ${format.argument(name)}`}
      act=${async () => { await send("DELETE", path`/event-types/${name}`); go(to`/event-types`); }}>
      <ul>
        <li><strong>${events === undefined ? "Counting its events …" : format.plural(events, "event")}</strong> in ${format.plural(definition.partition_count, "partition")} will be gone.</li>
        <li>${groups.length ? html`<strong>${format.plural(groups.length, "consumer")}</strong> will get nothing more, and lose the position here: <${Groups} groups=${groups} />.` : "Nobody keeps a position here."}</li>
        ${subscriptions.length > 0 && html`<li>${format.plural(subscriptions.length, "subscription")} ${subscriptions.length === 1 ? "reads" : "read"} it: the hub refuses this until they are deleted, unless its feature <code>delete_event_type_with_subscriptions</code> is on.</li>`}
        <li>Producers get errors from then on.</li>
      </ul>
      <label>Type the name of the event type<input class="long" autocomplete="off" spellcheck="false" value=${typed} onInput=${(event) => setTyped(event.target.value)} /></label>
    <//>`}
  <//>`;
}
