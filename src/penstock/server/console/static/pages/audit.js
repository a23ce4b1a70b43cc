// The audit log: who has changed what, from where, and why.
import { html, useCallback, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { get, send } from "../core/api.js";
import { readBackwards } from "../core/backwards.js";
import { curl } from "../core/commands.js";
import * as format from "../core/format.js";
import { keepInAddress, to, usePlace } from "../core/routing.js";
import { useAnswer, usePolled, useRights } from "../core/state.js";
import { Changes, changesInShort } from "../parts/changes.js";
import { Badge, Card, Command, Confirm, Copy, Failure, Text, Time, Title, Tree } from "../parts/parts.js";

const LOG = "nakadi.audit.log";
const FEATURE = "audit_log_collection";
const TURN_ON = { feature: FEATURE, enabled: true };
const PAGE = 50;
const SCANNED_MAX = 5000;

const TYPES = {
  event_type: "event type",
  admins: "administrators",
  blacklist_entry: "block",
  feature: "feature",
  replicas: "readers of replicas",
  retention: "default retention",
  subscription: "subscription",
  cursors: "cursors of subscription",
  parked_key: "parked key",
  group: "group",
  producer: "producer",
  batches: "batches of producer",
  erasure: "erasure",
  token: "token",
  rejected_rows: "rejected rows",
  database: "database",
};

/** Return where the console shows a resource of the log; null if nowhere. */
function placeOf({ resource_type: type, resource_id: id }) {
  if (type === "event_type") return to`/event-types/${id}`;
  if (["subscription", "cursors", "group"].includes(type)) return to`/consumers/${id}`;
  if (type === "producer" || type === "batches") return to`/producers?group=` + encodeURIComponent(id);
  if (type === "token") return to`/tokens`;
  if (type === "rejected_rows") return to`/outbox`;
  if (["admins", "blacklist_entry", "feature", "replicas", "retention"].includes(type)) return to`/settings`;
  return null;
}

/** The view of the audit log, newest first; filters are in its address. */
export function Audit() {
  const { search } = usePlace();
  const filter = Object.fromEntries(["user", "type", "resource", "action", "until"].map((name) => [name, search.get(name) ?? ""]));
  const { administer } = useRights();
  const features = useAnswer(administer !== false ? "/settings/features" : null);
  const isOn = features.value?.items.find((each) => each.feature === FEATURE)?.enabled;
  const log = useLog(filter);
  const [asks, setAsks] = useState(false);
  const isMissing = log.error?.status === 404;
  const switchOn = html`<button class="primary" onClick=${() => setAsks(true)}>Turn on the audit log</button>`;
  return html`
    <${Title} lead=${html`Each change of event types, consumers, settings and tokens, written in the transaction of the change. <a href=${to`/event-types/${LOG}/events`}>Its events</a>`}
      buttons=${html`<button onClick=${log.restart}>Look again</button>`}>Audit log<//>
    <div class="stack">
      ${isOn === false && html`<div class="message warn"><strong>The audit log is off.</strong> ${isMissing ? "Nothing has been recorded." : "Changes are not recorded now; below is what was recorded before."}
        <p>${switchOn}</p></div>`}
      ${isMissing && isOn !== false && html`<div class="message"><strong>Nothing has been recorded yet.</strong> The log begins with the first change after an administrator turns on the feature <code>${FEATURE}</code>; a hub that starts with <code>--auth</code> does so by itself.</div>`}
      ${!isMissing && html`<${Filters} filter=${filter} />`}
      ${!isMissing && html`<${Failure} error=${log.error} retry=${log.restart} />`}
      ${!log.error && html`<${Newer} since=${log.begun} onClick=${log.restart} />`}
      ${!isMissing && (!log.error || log.items.length > 0) && html`<${Card} flush>
        ${log.items.length
          ? html`<ul class="entries">${log.items.map((each) => html`<${Entry} key=${each.key} entry=${each.entry} />`)}</ul>`
          : html`<p class="empty" role="status">${log.busy ? "Reading …" : log.error ? "" : log.done ? "No change fits these filters." : `None of the newest ${format.count(log.scanned)} changes fits.`}</p>`}
        <div class="table-foot">
          <span role="status">${format.plural(log.items.length, "change")} shown, ${format.count(log.scanned)} read${log.done ? "; that is all" : ""}.</span>
          ${log.busy ? html`<button onClick=${log.stop}>Stop</button>` : !log.done && !log.error && html`<button onClick=${log.more}>Older changes</button>`}
        </div>
      <//>`}
    </div>
    ${asks && html`<${Confirm} title="Turn on the audit log?" verb="Turn on" danger=${false} onClose=${(done) => { setAsks(false); if (done) { features.refresh(); log.restart(); } }}
      act=${() => send("POST", "/settings/features", TURN_ON)} command=${curl("POST", "/settings/features", TURN_ON)}>
      <p>From now on each change is one more event, of <code>${LOG}</code>, which is kept for a year by default. Publishing and reading cost nothing more. Administrators of the hub, and readers of everything, may read it.</p>
    <//>`}`;
}

/** Use the log newest first: what fits *filter*, and how far was read. */
function useLog(filter) {
  const [state, setState] = useState({ items: [], scanned: 0, busy: true, done: false, error: null, begun: 0 });
  const [turn, setTurn] = useState(0);
  const running = useRef(null);
  const key = JSON.stringify(filter);

  const read = useCallback(async (job) => {
    const items = [];
    let scanned = 0;
    const show = (more) => {
      if (running.current === job) setState((before) => ({ ...before, items: [...before.items, ...items.splice(0)], scanned: before.scanned + scanned, ...more }));
      scanned = 0;
    };
    job.isStopped = false;
    let found = 0;
    let looked = 0;
    setState((before) => ({ ...before, busy: true, error: null }));
    try {
      while (found < PAGE && looked < SCANNED_MAX && !job.isStopped) {
        const { value, done } = await job.events.next();
        if (done) return show({ busy: false, done: true });
        scanned += 1;
        looked += 1;
        const entry = JSON.parse(value.text);
        if (fits(entry, job.filter)) {
          items.push({ key: `${value.partition}:${value.offset}`, entry });
          found += 1;
        }
        if (scanned >= 500) show({});
      }
      show({ busy: false });
    } catch (error) {
      if (error.name !== "AbortError") show({ busy: false, error });
    }
  }, []);

  useEffect(() => {
    const aborter = new AbortController();
    const chosen = JSON.parse(key);
    const isFiltered = ["user", "type", "resource", "action"].some((name) => chosen[name]);
    const latest = new Date(chosen.until + (format.isUtc() ? "Z" : ""));
    const until = Number.isNaN(latest.getTime()) ? undefined : latest.toISOString();
    const job = { filter: chosen, events: readBackwards(LOG, { until, size: isFiltered ? 500 : PAGE, signal: aborter.signal }), isStopped: false };
    running.current = job;
    setState((before) => ({ ...before, items: [], scanned: 0, done: false, begun: Date.now() }));
    read(job);
    return () => {
      running.current = null;
      aborter.abort();
    };
  }, [key, turn]);
  const more = useCallback(() => running.current && read(running.current), []);
  const stop = useCallback(() => { if (running.current) running.current.isStopped = true; }, []);
  const restart = useCallback(() => setTurn((before) => before + 1), []);
  return { ...state, more, stop, restart };
}

function fits(entry, { user, type, resource, action }) {
  return (!user || `${entry.user_type}:${entry.user}`.toLowerCase().includes(user.toLowerCase()))
    && (!type || entry.resource_type === type)
    && (!resource || entry.resource_id.includes(resource))
    && (!action || entry.action === action);
}

/** A button as soon as there is something newer than what is shown. */
function Newer({ since, onClick }) {
  const first = useRef({});
  const answer = usePolled(async (signal) => (await get(`/event-types/${LOG}/partitions`, { signal })).map((each) => each.newest_available_offset).join(), 10);
  if (answer.value !== undefined && first.current.since !== since) first.current = { since, value: answer.value };
  if (answer.value === undefined || first.current.value === answer.value) return null;
  return html`<p class="message" role="status">There are newer changes. <button onClick=${onClick}>Show them</button></p>`;
}

function Filters({ filter }) {
  const set = (name) => (event) => keepInAddress({ [name]: event.target.value });
  const isAny = Object.values(filter).some(Boolean);
  return html`<div class="toolbar" role="search" aria-label="Filters">
    <label>Who<input type="search" placeholder="user:jane" value=${filter.user} onChange=${set("user")} /></label>
    <label>Of what kind<select value=${filter.type} onChange=${set("type")}>
      <option value="">all</option>${Object.entries(TYPES).map(([name, words]) => html`<option key=${name} value=${name}>${words}</option>`)}</select></label>
    <label>Its name has<input type="search" placeholder="order.placed" value=${filter.resource} onChange=${set("resource")} /></label>
    <label>What happened<select value=${filter.action} onChange=${set("action")}>
      <option value="">anything</option>${["created", "updated", "deleted"].map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select></label>
    <label>Not after (${format.isUtc() ? "UTC" : "local time"})<input type="datetime-local" value=${filter.until} onChange=${set("until")} /></label>
    ${isAny && html`<button onClick=${() => keepInAddress(Object.fromEntries(Object.keys(filter).map((name) => [name, ""])))}>Clear</button>`}
  </div>`;
}

const TONES = { created: "good", updated: "note", deleted: "bad" };

function Entry({ entry }) {
  const [isOpen, setOpen] = useState(false);
  const place = placeOf(entry);
  const short = useMemo(() => (entry.action === "updated" ? changesInShort(entry.previous_object, entry.new_object) : ""), [entry]);
  return html`<li><details onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>
      <span class="quiet"><${Time} value=${entry.metadata?.occurred_at} /></span>
      <${Badge} tone=${TONES[entry.action] ?? ""}>${format.line(entry.action, 20)}<//>
      <span class="what">${TYPES[entry.resource_type] ?? html`<${Text} limit=${40}>${entry.resource_type}<//>`} <strong><${Text} limit=${80}>${entry.resource_id}<//></strong>
        ${short && html`<span class="short"><${Text} limit=${200}>${short}<//></span>`}
        ${entry.reason && html`<span class="short">“<${Text} limit=${200}>${entry.reason}<//>”</span>`}</span>
      <span class="who"><${Text} limit=${60}>${`${entry.user_type}:${entry.user}`}<//></span>
    </summary>
    ${isOpen && html`<div class="opened">
      <dl class="facts">
        <dt>By</dt><dd><${Text}>${`${entry.user_type}:${entry.user}`}<//> · <a href=${to`/audit-log?user=` + encodeURIComponent(`${entry.user_type}:${entry.user}`)}>all by this caller</a></dd>
        ${entry.address && html`<dt>From</dt><dd><${Text} mono>${entry.address}<//></dd>`}
        <dt>At</dt><dd><${Time} value=${entry.metadata?.occurred_at} millis /></dd>
        ${entry.reason && html`<dt>Reason</dt><dd><${Text} limit=${2000}>${entry.reason}<//></dd>`}
        <dt>Of</dt><dd>${place ? html`<a href=${place}><${Text}>${entry.resource_id}<//></a>` : html`<${Text}>${entry.resource_id}<//>`} · <a href=${to`/audit-log?resource=` + encodeURIComponent(entry.resource_id)}>all changes of it</a></dd>
      </dl>
      <${Changes} before=${entry.previous_object} after=${entry.new_object} />
      <details class="whole"><summary>The whole event</summary><${Whole} entry=${entry} /></details>
    </div>`}
  </details></li>`;
}

function Whole({ entry }) {
  return html`<div class="row"><${Copy} text=${() => JSON.stringify(entry, null, 2)}>Copy as JSON<//></div><${Tree} value=${entry} open=${1} />
    <p class="quiet">On the command line:</p><${Command}>${`penstock tail ${LOG} --from 1d`}<//>`;
}
