// The hub's own settings: who may do everything, blocks, features, retention, replicas.
import { html, useEffect, useMemo, useState } from "../vendor/preact.js";
import { get, path, query, send } from "../core/api.js";
import { offsetNumber } from "../core/backwards.js";
import { curl, option } from "../core/commands.js";
import * as format from "../core/format.js";
import { to } from "../core/routing.js";
import { useAnswer, useRights } from "../core/state.js";
import { CallerList, callerText, newCallers } from "../parts/callers.js";
import { Badge, Card, Confirm, Failure, Loaded, Table, Text, Title } from "../parts/parts.js";

/** The view of the settings. */
export function Settings() {
  const { administer } = useRights();
  if (administer === false) {
    return html`<${Title}>Settings<//><p class="message warn">Settings are for administrators of the hub, of which this token's caller is none. One of them can add it: <code>penstock access add admins TYPE:NAME</code>.</p>`;
  }
  return html`
    <${Title} lead="They are kept in the hub's database; all its processes follow within a second, of retention within a minute.">Settings<//>
    <div class="stack">
      <${Administrators} />
      <${Features} />
      <${Blocks} />
      <div class="grid"><${Retention} /><${Replicas} /><${Storages} /></div>
    </div>`;
}

function changesOf(type, resource) {
  return html`<a href=${to`/audit-log?type=` + type + (resource ? `&resource=${encodeURIComponent(resource)}` : "")}>Changes</a>`;
}

const LISTS = {
  admins: ["Administrators", "do everything"],
  readers: ["Readers", "read the events of all event types, and the metrics"],
  writers: ["Writers", "publish to all event types"],
};

function Administrators() {
  const answer = useAnswer("/settings/admins");
  return html`<${Card} title="Who may do everything" more=${changesOf("admins")}>
    <${Loaded} answer=${answer}>${(found) => html`<${AdministratorLists} key=${JSON.stringify(found)} found=${found} onSaved=${answer.refresh} />`}<//>
  <//>`;
}

/** The command that puts a caller on a list, or takes it off. */
function changeList([what, list, caller]) {
  return `penstock access ${what} ${list} ${format.argument(caller)}`;
}

function AdministratorLists({ found, onSaved }) {
  const [lists, setLists] = useState(found);
  const [asks, setAsks] = useState(false);
  const names = Object.keys(LISTS);
  const changes = names.flatMap((name) => [
    ...newCallers(found[name], lists[name]).map((each) => ["add", name, callerText(each)]),
    ...newCallers(lists[name], found[name]).map((each) => ["remove", name, callerText(each)]),
  ]);
  const empty = names.filter((name) => !lists[name].length);
  return html`
    <p class="quiet">These lists have an effect on a hub that authenticates its callers. Administrators of <code>penstock serve --admin</code> are on no list.</p>
    <div class="grid">${names.map((name) => html`<div class="third" key=${name}>
      <${CallerList} label=${LISTS[name][0]} value=${lists[name]} onChange=${(value) => setLists({ ...lists, [name]: value })} />
      <p class="quiet">They ${LISTS[name][1]}.</p>
    </div>`)}</div>
    ${changes.length > 0 && html`<div class="message" role="status">
      ${format.plural(changes.length, "change")} not saved yet.
      ${empty.length > 0 && html`<p>Over HTTP none of the lists may be empty, as with Nakadi: add one to ${empty.map((name) => LISTS[name][0].toLowerCase()).join(" and ")}.
        On the command line, <code>${format.line(changeList(changes[0]), 200)}</code> changes one list alone.</p>`}
      <p class="buttons"><button class="primary" disabled=${empty.length > 0} onClick=${() => setAsks(true)}>Save …</button><button onClick=${() => setLists(found)}>Discard</button></p>
    </div>`}
    ${asks && html`<${Confirm} title="Change who may do everything?" verb="Save" danger=${changes.some(([what]) => what === "remove")}
      act=${() => send("POST", "/settings/admins", lists)} onClose=${(done) => { setAsks(false); if (done) onSaved(); }}
      command=${changes.map(changeList)}>
      <ul>${changes.map(([what, name, caller]) => html`<li key=${`${what} ${name} ${caller}`}><strong><${Text} limit=${120}>${caller}<//></strong>
        ${what === "add" ? ` may ${LISTS[name][1]}.` : ` may no longer ${LISTS[name][1]}, by this list.`}</li>`)}</ul>
      ${changes.some(([what, name]) => what === "remove" && name === "admins") && html`<p class="message warn">If you take yourself off, only another administrator, or <code>penstock access</code> where the database is, puts you back.</p>`}
    <//>`}`;
}

const FEATURES = {
  audit_log_collection: ["Audit log", "Each change is recorded as an event of nakadi.audit.log, in its transaction.", "Changes are recorded from now on. Each costs one more event.", "Changes are no longer recorded. This one still is."],
  kpi_collection: ["Activity", "Who publishes and reads how much, each minute, as events of nakadi.batch.published and nakadi.data.streamed; changes in brief, too.", "Some hundred bytes a minute are stored for each caller and event type.", "Activity is no longer recorded."],
  access_log_enabled: ["Access log", "Each finished request is an event of nakadi.access.log.", "About 600 bytes are stored for each request, for 30 days. Leave it on only while you need it.", "Requests are no longer recorded."],
  disable_event_type_creation: ["No new event types", "Only administrators of a hub that authenticates create event types; others are refused with 501.", "Creating event types is refused, with 501.", "Callers may create event types again."],
  disable_event_type_deletion: ["No deletion of event types", "Only administrators of a hub that authenticates delete event types; others are refused with 403.", "Deleting event types is refused, with 403.", "Event types can be deleted again by their administrators, with all their events."],
  delete_event_type_with_subscriptions: ["Delete event types with their subscriptions", "An event type that has subscriptions can be deleted, together with them. While it is off, that is refused.", "Deleting an event type also deletes its subscriptions and their positions.", "Deleting an event type that has subscriptions is refused."],
  disable_subscription_creation: ["No new subscriptions", "Creating one is refused with 503; existing ones are found.", "New subscriptions are refused with 503. Existing ones go on.", "Callers may create subscriptions again."],
  disable_db_write_operations: ["No changes", "Event types, subscriptions and settings other than features cannot change: 503. Events are published, read and committed.", "All changes are refused with 503, for all callers, until it is turned off. Publishing and reading go on.", "Event types, subscriptions and settings can change again."],
  return_body_on_create_update_event_type: ["Answer with the event type", "Creating or changing an event type answers with its definition, not with an empty body.", "Creating and changing event types answers with them.", "Creating and changing event types answers with an empty body."],
};

function Features() {
  const answer = useAnswer("/settings/features", 10);
  const [chosen, setChosen] = useState(null);
  const body = chosen && { feature: chosen.feature, enabled: !chosen.enabled };
  const about = chosen && (FEATURES[chosen.feature] ?? [chosen.feature, "", "", ""]);
  return html`<${Card} title="Features" flush more=${changesOf("feature")}>
    <${Loaded} answer=${answer}>${({ items }) => html`<${Table} label="Features" rows=${sortFeatures(items)} keyOf=${(row) => row.feature} columns=${[
      { name: "Feature", cell: (row) => html`<strong>${FEATURES[row.feature]?.[0] ?? row.feature}</strong><br /><code>${row.feature}</code>` },
      { name: "While it is on", cell: (row) => html`<div class="long-cell">${FEATURES[row.feature]?.[1] ?? ""}</div>` },
      { name: "Now", cell: (row) => html`<div class="nowrap"><${Badge} tone=${row.enabled ? "good" : ""}>${row.enabled ? "on" : "off"}<//> <button aria-label=${`Turn ${row.enabled ? "off" : "on"}: ${FEATURES[row.feature]?.[0] ?? row.feature}`} onClick=${() => setChosen(row)}>Turn ${row.enabled ? "off" : "on"}</button></div>` },
    ]} />`}<//>
    ${chosen && html`<${Confirm} title=${`Turn ${chosen.enabled ? "off" : "on"}: ${about[0]}`} verb=${chosen.enabled ? "Turn off" : "Turn on"}
      danger=${chosen.feature.startsWith("disable_") ? !chosen.enabled : chosen.feature === "audit_log_collection" && chosen.enabled}
      act=${() => send("POST", "/settings/features", body)} onClose=${(done) => { setChosen(null); if (done) answer.refresh(); }} command=${curl("POST", "/settings/features", body)}>
      <p>${chosen.enabled ? about[3] : about[2]}</p>
    <//>`}
  <//>`;
}

function sortFeatures(items) {
  const order = Object.keys(FEATURES);
  const rank = (each) => (order.includes(each.feature) ? order.indexOf(each.feature) : order.length);
  return [...items].sort((a, b) => rank(a) - rank(b));
}

const BLOCKS = {
  PRODUCER_ET: ["publishing", "event type", "Nobody publishes to it; only committed rows of an outbox still enter it."],
  CONSUMER_ET: ["reading", "event type", "Nobody reads it: pages, streams and waiting reads end with 403."],
  PRODUCER_APP: ["publishing", "application", "It publishes to no event type."],
  CONSUMER_APP: ["reading", "application", "It reads no event type: its pages, streams and waiting reads end with 403."],
};

function Blocks() {
  const answer = useAnswer("/settings/blacklist", 10);
  const [kind, setKind] = useState("CONSUMER_APP");
  const [name, setName] = useState("");
  const [asks, setAsks] = useState(null);
  const eventTypes = useAnswer("/statistics");
  const target = asks && path`/settings/blacklist/${asks.kind}/${asks.name}`;
  const method = asks?.block ? "PUT" : "DELETE";
  return html`<${Card} title="Blocked" flush more=${changesOf("blacklist_entry")}>
    <${Loaded} answer=${answer}>${(found) => html`<${Table} label="Blocked" rows=${listBlocks(found)} keyOf=${(row) => `${row.kind} ${row.name}`} empty="Nothing is blocked." columns=${[
      { name: "Blocked", value: (row) => BLOCKS[row.kind][0] },
      { name: "Of", value: (row) => BLOCKS[row.kind][1] },
      { name: "Name", value: (row) => row.name, cell: (row) => html`<${Text}>${row.name}<//>` },
      { name: "", cell: (row) => html`<button aria-label=${`Unblock ${row.name}`} onClick=${() => setAsks({ ...row, block: false })}>Unblock</button>` },
    ]} />`}<//>
    <form class="toolbar in-card" onSubmit=${(event) => { event.preventDefault(); setAsks({ kind, name: name.trim(), block: true }); }}>
      <label>Block<select value=${kind} onChange=${(event) => setKind(event.target.value)}>${Object.entries(BLOCKS).map(([each, [what, of]]) => html`<option key=${each} value=${each}>${what}: an ${of}</option>`)}</select></label>
      <label>Name<input class="long" required pattern=".*\\S.*" list=${kind.endsWith("_ET") ? "blockable" : null} value=${name} onInput=${(event) => setName(event.target.value)} placeholder=${kind.endsWith("_ET") ? "order.placed" : "billing"} /></label>
      <datalist id="blockable">${(eventTypes.value?.items ?? []).slice(0, 500).map((each) => html`<option key=${each.name} value=${each.name} />`)}</datalist>
      <button disabled=${!name.trim()}>Block …</button>
    </form>
    ${asks && html`<${Confirm} title=${`${asks.block ? "Block" : "Unblock"} ${BLOCKS[asks.kind][0]}: ${BLOCKS[asks.kind][1]} ${format.line(asks.name, 80)}?`} verb=${asks.block ? "Block" : "Unblock"} danger=${asks.block}
      act=${() => send(method, target)} command=${curl(method, target)}
      onClose=${(done) => { setAsks(null); if (done) { answer.refresh(); if (asks.block) setName(""); } }}>
      <p>${asks.block ? `${BLOCKS[asks.kind][2]} It holds within a second, until somebody unblocks it.` : "It holds within a second. Consumers go on from where they were."}</p>
      ${asks.block && asks.kind.endsWith("_APP") && asks.name === "unauthenticated" && html`<p class="message warn">Without authentication every caller is <code>unauthenticated</code>.</p>`}
    <//>`}
  <//>`;
}

function listBlocks({ producers, consumers }) {
  const rows = (kind, names) => names.map((name) => ({ kind, name }));
  return [...rows("PRODUCER_ET", producers.event_types), ...rows("PRODUCER_APP", producers.apps), ...rows("CONSUMER_ET", consumers.event_types), ...rows("CONSUMER_APP", consumers.apps)];
}

const TIME_UNITS = [["days", 86_400_000], ["hours", 3_600_000], ["minutes", 60_000]];
const SIZE_UNITS = [["GB", 1e9], ["MB", 1e6], ["TB", 1e12]];

function Retention() {
  const answer = useAnswer("/settings/retention", 30);
  return html`<${Card} title="Default retention" span="half" more=${changesOf("retention")}>
    <${Loaded} answer=${answer}>${(found) => html`<${RetentionForm} key=${JSON.stringify(found)} found=${found} onSaved=${answer.refresh} />`}<//>
  <//>`;
}

function inUnits(value, units) {
  if (value === null) return ["", units[0][1]];
  const unit = units.find(([, size]) => value % size === 0 && value >= size) ?? units.reduce((a, b) => (b[1] < a[1] ? b : a));
  return [String(value / unit[1]), unit[1]];
}

function RetentionForm({ found, onSaved }) {
  const [time, setTime] = useState(() => inUnits(found.retention_time, TIME_UNITS));
  const [size, setSize] = useState(() => inUnits(found.retention_bytes, SIZE_UNITS));
  const [asks, setAsks] = useState(false);
  const wanted = {
    retention_time: time[0] === "" ? null : Math.round(Number(time[0]) * time[1]),
    retention_bytes: size[0] === "" ? null : Math.round(Number(size[0]) * size[1]),
  };
  const isChanged = JSON.stringify(wanted) !== JSON.stringify(found);
  const limit = (label, units, [number, unit], set) => html`<label>${label}<span class="row">
    <input type="number" min="0" step="any" placeholder="no limit" aria-label=${label} value=${number} onInput=${(event) => set([event.target.value, unit])} />
    <select aria-label=${`Unit: ${label}`} value=${unit} onChange=${(event) => set([number, Number(event.target.value)])}>${units.map(([name, scale]) => html`<option key=${name} value=${scale}>${name}</option>`)}</select>
  </span></label>`;
  return html`<p>Event types that set none keep their events ${inSentence(found)}.</p>
    <form class="fields" onSubmit=${(event) => { event.preventDefault(); setAsks(true); }}>
      ${limit("Delete events that are older than", TIME_UNITS, time, setTime)}
      ${limit("Delete the oldest events of an event type with more than", SIZE_UNITS, size, setSize)}
      <p class="quiet">Empty: no such limit. An event type sets its own in its settings.</p>
      <div class="buttons"><button class="primary" disabled=${!isChanged}>Save …</button></div>
    </form>
    ${asks && html`<${ConfirmRetention} found=${found} wanted=${wanted} onClose=${(done) => { setAsks(false); if (done) onSaved(); }} />`}`;
}

function inSentence({ retention_time: time, retention_bytes: bytes }) {
  const limits = [time === null ? null : format.duration(time / 1000), bytes === null ? null : `up to ${format.bytes(bytes)} each`].filter(Boolean);
  return limits.length ? `for ${limits.join(", and ")}`.replace("for up to", "up to") : "for ever";
}

/** The command that sets the default retention; null if there is none. */
function cli({ retention_time: time, retention_bytes: bytes }) {
  if (time === null && bytes === null) return "penstock retention default --none";
  if ((time !== null && time < 1000) || bytes === 0) return null; // The command line takes no such limits.
  const whole = (value, units) => {
    const [unit, scale] = units.find(([, each]) => value % each === 0 && value >= each) ?? units.at(-1);
    return `${value / scale}${unit}`;
  };
  const words = ["penstock retention default"];
  if (time !== null) words.push(option("time", whole(time, [["d", 86_400_000], ["h", 3_600_000], ["m", 60_000], ["s", 1000], ["ms", 1]])));
  if (bytes !== null) words.push(option("size", whole(bytes, [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3], ["B", 1]])));
  return words.join(" ");
}

const LOOKED_AT = 50;

function ConfirmRetention({ found, wanted, onClose }) {
  const [preview, setPreview] = useState(null);
  const isShorter = (now, then) => then !== null && (now === null || then < now);
  const shorterTime = isShorter(found.retention_time, wanted.retention_time);
  useEffect(() => {
    const stop = new AbortController();
    countAffected(wanted, shorterTime, stop.signal).then(setPreview, (error) => error.name !== "AbortError" && setPreview({ error }));
    return () => stop.abort();
  }, []);
  const deletes = shorterTime || isShorter(found.retention_bytes, wanted.retention_bytes);
  return html`<${Confirm} title="Change the default retention?" verb="Save" danger=${deletes} act=${() => send("PUT", "/settings/retention", wanted)} onClose=${onClose} command=${cli(wanted)} disabled=${!preview}>
    <p>Event types that set no retention of their own keep their events ${inSentence(wanted)}. Before, it was ${inSentence(found)}.</p>
    ${preview === null && html`<p class="quiet" role="status">Counting what that concerns …</p>`}
    ${preview?.error && html`<${Failure} error=${preview.error} />`}
    ${preview && !preview.error && html`<p>It concerns ${format.count(preview.types)} of ${format.plural(preview.all, "event type")}.</p>
      ${shorterTime && html`<p class="message ${preview.events ? "warn" : ""}"><strong>${format.plural(preview.events, "event")}</strong> of them ${preview.events === 1 ? "is" : "are"} older than that now, and will be deleted for ever${preview.looked < preview.types ? html`, in ${preview.looked} of these event types alone` : ""}.</p>`}
      ${isShorter(found.retention_bytes, wanted.retention_bytes) && html`<p class="message ${preview.larger ? "warn" : ""}">${format.plural(preview.larger, "event type")} ${preview.larger === 1 ? "is" : "are"} larger now; the oldest events of ${preview.larger === 1 ? "it" : "each"} will be deleted for ever.</p>`}`}
  <//>`;
}

/** Count the event types without a retention of their own, and their events that are older than wanted. */
async function countAffected(wanted, countsEvents, signal) {
  const all = await get("/event-types", { signal });
  const types = all.filter((each) => each.cleanup_policy !== "compact" && (each.options?.retention_time ?? null) === null && (each.options?.retention_bytes ?? null) === null);
  const sizes = new Map();
  if (wanted.retention_bytes !== null) {
    const statistics = await get("/statistics", { signal }).catch(() => ({ items: [] }));
    for (const each of statistics.items) sizes.set(each.name, each.bytes ?? 0);
  }
  const looked = countsEvents ? types.slice(0, LOOKED_AT) : [];
  const at = new Date(Date.now() - (wanted.retention_time ?? 0)).toISOString();
  const counts = await Promise.all(looked.map(async ({ name }) => {
    const [partitions, cursors] = await Promise.all([get(path`/event-types/${name}/partitions`, { signal }), get(path`/event-types/${name}/cursors` + query({ at }), { signal })]);
    const oldest = new Map(partitions.map((each) => [each.partition, offsetNumber(each.oldest_available_offset)]));
    return cursors.reduce((sum, each) => sum + Math.max(0, offsetNumber(each.offset) + 1 - oldest.get(each.partition)), 0);
  }));
  return {
    all: all.length,
    types: types.length,
    looked: looked.length,
    events: counts.reduce((a, b) => a + b, 0),
    larger: types.filter((each) => (sizes.get(each.name) ?? 0) > (wanted.retention_bytes ?? Infinity)).length,
  };
}

function Replicas() {
  const answer = useAnswer("/settings/replicas");
  return html`<${Card} title="Who reads from replicas" span="half" more=${changesOf("replicas")}>
    <${Loaded} answer=${answer}>${(found) => html`<${ReplicaForm} key=${JSON.stringify(found)} found=${found.readers} onSaved=${answer.refresh} />`}<//>
  <//>`;
}

function ReplicaForm({ found, onSaved }) {
  const [mode, setMode] = useState(found === null ? "all" : found.length ? "some" : "none");
  const [readers, setReaders] = useState(found ?? []);
  const [asks, setAsks] = useState(false);
  const wanted = useMemo(() => ({ all: null, none: [], some: readers })[mode], [mode, readers]);
  const isChanged = JSON.stringify(wanted) !== JSON.stringify(found);
  const choice = (value, words) => html`<label class="check"><input type="radio" name="replicas" checked=${mode === value} onChange=${() => setMode(value)} />${words}</label>`;
  return html`<p class="quiet">Events can be read from read replicas of PostgreSQL, if the hub has any; they may be a moment behind.</p>
    <div class="fields stack">${choice("all", "All callers")}${choice("some", "Only these callers")}${choice("none", "Nobody: everybody reads from the primary")}
      ${mode === "some" && html`<${CallerList} label="Readers of replicas" value=${readers} onChange=${setReaders} everybody=${false} />`}
      <div class="buttons"><button class="primary" disabled=${!isChanged || (mode === "some" && !readers.length)} onClick=${() => setAsks(true)}>Save …</button></div></div>
    ${asks && html`<${Confirm} title="Change who reads from replicas?" verb="Save" danger=${false} act=${() => send("PUT", "/settings/replicas", { readers: wanted })} onClose=${(done) => { setAsks(false); if (done) onSaved(); }} command=${`penstock replicas readers ${wanted === null ? "--everybody" : wanted.length ? wanted.map((each) => option("only", callerText(each))).join(" ") : "--nobody"}`}>
      <p>${wanted === null ? "All callers read from replicas" : wanted.length ? html`Only ${wanted.map((each, at) => html`${at ? ", " : ""}<strong><${Text} limit=${80}>${callerText(each)}<//></strong>`)} read from replicas, others from the primary` : "All callers read from the primary"}, from the next read on. Without replicas this has no effect.</p>
    <//>`}`;
}

function Storages() {
  const answer = useAnswer("/storages");
  return html`<${Card} title="Storage" span="half">
    <${Loaded} answer=${answer}>${(found) => html`<dl class="facts">${found.map((each) => html`<dt key=${each.id}><${Text}>${each.id}<//></dt><dd>${{ sqlite: "SQLite", postgresql: "PostgreSQL" }[each.storage_type] ?? html`<${Text}>${each.storage_type}<//>`} <span class="quiet">holds all event types</span></dd>`)}</dl>
      <p class="quiet">Old events may lie in the <a href=${to`/cold-tier`}>cold tier</a>, too.</p>`}<//>
  <//>`;
}
