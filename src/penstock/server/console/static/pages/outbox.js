// The outbox: what waits there, and rows that could not be published.
import { html, useEffect, useMemo, useState } from "../vendor/preact.js";
import { get, query, send } from "../core/api.js";
import { option } from "../core/commands.js";
import * as format from "../core/format.js";
import { parseExact } from "../core/json.js";
import { keepInAddress, to, usePlace } from "../core/routing.js";
import { history, useAnswer, useAuditLog, useMetrics, usePolled, useRights } from "../core/state.js";
import { Chart } from "../parts/chart.js";
import { Card, Command, Confirm, Copy, Dialog, Failure, Figure, Loaded, Table, Text, Time, Title, Tree } from "../parts/parts.js";

const COUNTED_MAX = 10_000;
const PAGE = 25;
const AUDITED = {
  true: "The audit log keeps who deleted them, and their numbers.",
  false: "The audit log is off: nothing will say who deleted them.",
  undefined: "If the audit log is on, it keeps who deleted them.",
};
const APPENDED = ["penstock_events_appended_total"];
const REQUESTED = ["penstock_events_published_total"];

/** The view of the outbox; filter, page and the row that is open are in its address. */
export function Outbox() {
  const { administer, monitor } = useRights();
  const mayMonitor = monitor !== false;
  const outbox = useAnswer(mayMonitor ? "/outbox" : null, 3);
  const metrics = useMetrics(3, { enabled: mayMonitor });
  return html`
    <${Title} lead="Services write events into the table penstock_outbox, in their own transactions; the hub moves them into the log.">Outbox<//>
    ${mayMonitor
      ? html`<${Loaded} answer=${outbox}>${(found) => html`<div class="stack">
          <${Moving} found=${found} sample=${metrics.value} />
          ${administer !== false
            ? html`<${Rejected} total=${found.rejected} onChange=${outbox.refresh} />`
            : html`<p class="message">Rejected rows, which have the events of all services, are for administrators of the hub.</p>`}
        </div>`}<//>`
      : html`<p class="message warn">The outbox needs the right to monitor the hub, which this token does not have. An administrator gives it by <code>penstock access add readers TYPE:NAME</code>.</p>`}`;
}

function counted(number) {
  return number > COUNTED_MAX ? `over ${format.count(COUNTED_MAX)}` : format.count(number);
}

function Moving({ found, sample }) {
  const series = useMemo(() => {
    const [times, appended] = history.rates(APPENDED);
    const [, requested] = history.rates(REQUESTED);
    return { times, lines: [{ name: "From the outbox", values: appended.map((each, at) => Math.max(0, each - requested[at])) }] };
  }, [sample]);
  const last = series.lines[0].values.slice(-4);
  const age = found.oldest_at ? (Date.now() - new Date(found.oldest_at).getTime()) / 1000 : 0;
  return html`
    <div class="figures">
      <${Figure} name="Waiting" value=${counted(found.waiting)} note=${found.waiting ? "committed, not in the log yet" : "all that was committed is in the log"} />
      <${Figure} name="The oldest waits for" value=${found.waiting ? format.duration(age) : "–"} tone=${age > 30 ? "warn" : ""} note=${found.oldest_at ? html`since <${Time} value=${found.oldest_at} />` : null} />
      <${Figure} name="Moved" value=${format.rate(last.length ? last.reduce((a, b) => a + b, 0) / last.length : null)} note="by this hub process, over the last 10 s" />
      <${Figure} name="Rejected" value=${counted(found.rejected)} tone=${found.rejected ? "bad" : "good"} note=${found.rejected ? "they wait for you, below" : "nothing to do"} />
    </div>
    ${age > 30 && html`<div class="message warn"><strong>Rows wait for long.</strong> A long transaction in the database can hold them back, so that events keep their order.<${Command}>penstock doctor<//></div>`}
    ${found.event_types.length > 0 && html`<p>Waiting are events of ${found.event_types.slice(0, 20).map((name, at) => html`${at ? ", " : ""}<a href=${to`/event-types/${name}`}><${Text} limit=${60}>${name}<//></a>`)}${found.event_types.length > 20 ? ` and ${found.event_types.length - 20} more` : ""}.</p>`}
    <${Card} title="Events moved per second" more=${html`<span class="quiet">by this hub process, last 15 minutes</span>`}><${Chart} times=${series.times} series=${series.lines} label="Events moved from the outbox per second" height=${130} /><//>`;
}

function Rejected({ total, onChange }) {
  const { search } = usePlace();
  const eventType = search.get("event_type") ?? "";
  const after = search.get("after") ?? "";
  const open = search.get("row");
  const [typed, setTyped] = useState(eventType);
  const [chosen, setChosen] = useState(() => new Set());
  const [asks, setAsks] = useState(null);
  const answer = usePolled((signal) => get(`/outbox/rejected${query({ limit: PAGE, event_type: eventType, after })}`, { signal }), 10, [eventType, after]);
  useEffect(() => setTyped(eventType), [eventType]);
  useEffect(() => setChosen(new Set()), [eventType, after]);
  const rows = answer.value?.items ?? [];
  const next = answer.value?._links?.next;
  const isPaged = Boolean(next || after);
  const ids = rows.map((each) => each.id).filter((id) => chosen.has(id));
  function choose(id, isChosen) {
    const set = new Set(chosen);
    if (isChosen) set.add(id);
    else set.delete(id);
    setChosen(set);
  }
  const columns = [
    { name: "", cell: (row) => html`<input type="checkbox" aria-label=${`Choose row ${row.id}`} checked=${chosen.has(row.id)} onChange=${(event) => choose(row.id, event.target.checked)} />` },
    { name: "Row", cell: (row) => html`<button class="plain" aria-label=${`Show row ${row.id}`} onClick=${() => keepInAddress({ row: row.id })}>${row.id}</button>` },
    { name: "Why", cell: (row) => html`<div class="long-cell"><${Text} limit=${300}>${row.reason}<//></div>` },
    { name: "Event type", cell: (row) => html`<a href=${to`/outbox?event_type=` + encodeURIComponent(row.event_type)}><${Text} limit=${60}>${row.event_type}<//></a>` },
    { name: "Event", mono: true, cell: (row) => html`<div class="long-cell"><${Text} limit=${80} mono>${row.data}<//></div>` },
    { name: "Rejected", cell: (row) => html`<${Time} value=${row.rejected_at} />` },
  ];
  const one = open && rows.find((each) => String(each.id) === open);
  return html`<${Card} title="Rejected rows" flush more=${html`<a href=${to`/audit-log?type=rejected_rows`}>Changes</a>`}>
    <form class="toolbar in-card" role="search" onSubmit=${(event) => { event.preventDefault(); keepInAddress({ event_type: typed.trim(), after: "", row: "" }); }}>
      <label>Event type<input type="search" placeholder="all" value=${typed} onInput=${(event) => setTyped(event.target.value)} /></label>
      <button>Show</button>
      <span class="spread"></span>
      <button type="button" disabled=${!ids.length} onClick=${() => setAsks({ verb: "retry", ids })}>Retry ${ids.length || ""} chosen</button>
      <button type="button" disabled=${!ids.length} onClick=${() => setAsks({ verb: "delete", ids })}>Delete ${ids.length || ""} chosen</button>
      <button type="button" disabled=${!rows.length} onClick=${() => setAsks({ verb: "retry", eventType, all: !eventType })}>Retry all …</button>
      <button type="button" disabled=${!rows.length} onClick=${() => setAsks({ verb: "delete", eventType, all: !eventType })}>Delete all …</button>
    </form>
    <${Loaded} answer=${answer}>${() => html`
      ${rows.length > 1 && html`<label class="check choose-all"><input type="checkbox" checked=${ids.length === rows.length} onChange=${(event) => setChosen(new Set(event.target.checked ? rows.map((each) => each.id) : []))} />Choose these ${rows.length}</label>`}
      <${Table} label="Rejected rows" rows=${rows} keyOf=${(row) => row.id} columns=${columns} pageSize=${PAGE}
        empty=${eventType ? "No rejected row of this event type." : "None: the hub could publish all that services have written."} />
      ${isPaged && html`<div class="table-foot"><button disabled=${!after} onClick=${() => keepInAddress({ after: "", row: "" })}>Newest</button>
        <button disabled=${!next} onClick=${() => keepInAddress({ after: rows.at(-1).id, row: "" })}>Older</button></div>`}`}<//>
  <//>
  ${open && answer.value !== undefined && !asks && html`<${Row} id=${open} row=${one} onClose=${() => keepInAddress({ row: "" })} onAct=${(verb) => setAsks({ verb, ids: [Number(open)] })} />`}
  ${asks && html`<${Act} asks=${asks} total=${total} onClose=${(done) => { setAsks(null); if (done) { setChosen(new Set()); keepInAddress({ row: "" }); answer.refresh(); onChange(); } }} />`}`;
}

/** One rejected row: why, and the whole event. */
function Row({ id, row, onClose, onAct }) {
  const other = useAnswer(row ? null : `/outbox/rejected${query({ id })}`);
  const shown = row ?? other.value?.items[0];
  return html`<${Dialog} title=${`Rejected row ${format.line(id, 20)}`} onClose=${onClose}>
    <${Failure} error=${other.error} />
    ${!shown && other.value && html`<p>It is not there any more: it was retried or deleted. <a href=${to`/audit-log?type=rejected_rows`}>By whom?</a></p>`}
    ${shown && html`
      <p class="message bad"><${Text} limit=${2000}>${shown.reason}<//></p>
      <dl class="facts">
        <dt>Event type</dt><dd><a href=${to`/event-types/${shown.event_type}`}><${Text}>${shown.event_type}<//></a></dd>
        ${shown.key !== null && html`<dt>Key</dt><dd><${Text} mono>${shown.key}<//></dd>`}
        ${shown.partition !== null && html`<dt>Partition</dt><dd>${shown.partition}</dd>`}
        <dt>Written</dt><dd><${Time} value=${shown.created_at} millis /></dd>
        <dt>Rejected</dt><dd><${Time} value=${shown.rejected_at} millis /></dd>
        <dt>Size</dt><dd>${format.bytes(new Blob([shown.data]).size)}</dd>
      </dl>
      <h3>Event</h3><${Json} text=${shown.data} />
      ${shown.headers && html`<h3>Headers</h3><${Json} text=${shown.headers} />`}`}
    <div class="buttons">
      ${shown && html`<${Copy} text=${shown.data}>Copy the event<//><button onClick=${() => onAct("delete")}>Delete …</button><button onClick=${() => onAct("retry")}>Retry …</button>`}
      <button class="primary" onClick=${onClose}>Close</button>
    </div>
  <//>`;
}

/** JSON as a tree; what is none as it is, cut. */
function Json({ text }) {
  const value = useMemo(() => {
    try {
      return parseExact(text);
    } catch {
      return undefined;
    }
  }, [text]);
  return value === undefined ? html`<p><${Text} limit=${4000} mono>${text}<//> <span class="quiet">This is no JSON.</span></p>` : html`<${Tree} value=${value} />`;
}

function Act({ asks, total, onClose }) {
  const { verb, ids, eventType, all } = asks;
  const members = query(ids ? { id: ids } : all ? { all: true } : { event_type: eventType });
  const isDelete = verb === "delete";
  const isAudited = useAuditLog();
  const rows = ids ? format.plural(ids.length, "row") : all ? (total === 1 ? "the rejected row" : `all ${counted(total)} rejected rows`) : "all rejected rows of this event type";
  const options = ids ? ids.join(" ") : all ? "--all" : option("event-type", eventType);
  return html`<${Confirm} title=${`${isDelete ? "Delete" : "Retry"} ${rows}?`} verb=${isDelete ? "Delete" : "Retry"} danger=${isDelete} onClose=${onClose}
    act=${() => (isDelete ? send("DELETE", `/outbox/rejected${members}`) : send("POST", `/outbox/rejected/retry${members}`))} command=${`penstock rejected ${verb} ${options}`}>
    ${isDelete
      ? html`<p>Their events are lost for ever: services committed them, and no reader will get them. ${AUDITED[isAudited]}</p>`
      : html`<p>They go back into the outbox, in their order, and the hub publishes them at once. Repair the cause first: rows that still cannot be published are rejected again, under new numbers.</p>`}
    ${!ids && !all && html`<p>Event type: <strong><${Text}>${eventType}<//></strong></p>`}
  <//>`;
}
