// Who publishes: callers by event type, and idempotent producers by partition.
import { html, useCallback, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { get, getAll, path, query, send } from "../core/api.js";
import { curl } from "../core/commands.js";
import * as format from "../core/format.js";
import { keepInAddress, to, usePlace } from "../core/routing.js";
import { useAnswer, usePolled } from "../core/state.js";
import { Badge, Card, Confirm, Failure, Loaded, Table, Text, Time, Title } from "../parts/parts.js";

const CALLS_AT_ONCE = 5;
const CALLS_MAX = 400;
const PER_PARTITION_MAX = 1000;

/** The view of all producers; `?event_type=` and `?group=` narrow it. */
export function Producers() {
  const { search } = usePlace();
  const eventType = search.get("event_type") ?? "";
  const group = search.get("group") ?? "";
  const eventTypes = usePolled(listEventTypes, 0);
  const [typed, setTyped] = useState(eventType);
  useEffect(() => setTyped(eventType), [eventType]);
  return html`
    <${Title} lead="Callers that have published in the last 30 days, and idempotent producers, which number their events so that each is stored once.">Producers<//>
    <form class="toolbar" role="search" onSubmit=${(event) => { event.preventDefault(); keepInAddress({ event_type: typed.trim() }); }}>
      <label>Event type has<input type="search" placeholder="order." value=${typed} onInput=${(event) => setTyped(event.target.value)} onChange=${(event) => keepInAddress({ event_type: event.target.value.trim() })} /></label>
      <label>Producer has<input type="search" placeholder="till-1" value=${group} onInput=${(event) => keepInAddress({ group: event.target.value })} /></label>
    </form>
    <${Loaded} answer=${eventTypes}>${(found) => html`<${Found} types=${found} eventType=${eventType} group=${group} onAgain=${eventTypes.refresh} />`}<//>`;
}

/** Return all event types, those with the newest events first: there producers are found first. */
async function listEventTypes(signal) {
  const [types, statistics] = await Promise.all([get("/event-types", { signal }), get("/statistics", { signal }).catch(() => ({ items: [] }))]);
  const newest = new Map(statistics.items.map((each) => [each.name, each.newest_at ?? ""]));
  return types.sort((a, b) => (newest.get(b.name) ?? "").localeCompare(newest.get(a.name) ?? ""));
}

function Found({ types, eventType, group, onAgain }) {
  const chosen = useMemo(() => types.filter((each) => each.name.includes(eventType)), [types, eventType]);
  const scan = useScan(chosen);
  const [forgets, setForgets] = useState(null);
  const mayForget = useAdministered(scan.producers);
  const text = group.toLowerCase();
  const producers = useMemo(() => scan.producers.filter((each) => each.producer_group.toLowerCase().includes(text)), [scan.producers, text]);
  const callers = useMemo(() => scan.callers.filter((each) => each.caller.toLowerCase().includes(text)), [scan.callers, text]);
  const expired = producers.filter((each) => each.expired).length;
  return html`<div class="stack">
    <${Progress} scan=${scan} count=${chosen.length} onAgain=${onAgain} />
    <${Failure} error=${scan.error} retry=${scan.again} />
    <${Card} title="Callers" flush more=${html`<span class="quiet">${format.count(callers.length)}</span>`}>
      <${Table} keep="callers-" label="Callers that publish" rows=${callers} keyOf=${(row) => `${row.event_type} ${row.caller}`} order=${{ name: "Published last", down: true }}
        empty=${scan.busy ? "Looking …" : "None is known. Callers are known on a hub that authenticates (penstock serve --auth), from a minute after they publish; the outbox does not count."} columns=${[
          { name: "Caller", value: (row) => row.caller, cell: (row) => html`<${Text} limit=${80}>${row.caller}<//>` },
          { name: "Event type", value: (row) => row.event_type, cell: (row) => html`<${EventTypeLink} name=${row.event_type} />` },
          { name: "Published last", value: (row) => row.last_seen, cell: (row) => html`<${Time} value=${row.last_seen} relative />` },
        ]} />
    <//>
    <${Card} title="Idempotent producers" flush more=${html`<span class="quiet">${format.count(producers.length)}${expired ? `, ${format.count(expired)} expired` : ""}</span>`}>
      <${Table} keep="" label="Idempotent producers" rows=${producers} keyOf=${(row) => `${row.event_type} ${row.partition} ${row.producer_group}`} order=${{ name: "Published last", down: true }}
        empty=${scan.busy ? "Looking …" : "None. A producer that sends Producer-Group, -Epoch and -Sequence, as the Python client's does, appears here with its first batch."} columns=${[
          { name: "Group", value: (row) => row.producer_group, cell: (row) => html`<strong><${Text} limit=${80}>${row.producer_group}<//></strong>${row.pinned && html` <${Badge} tone="note" title="It never expires">pinned<//>`}${row.expired && html` <${Badge} tone="warn" title="The hub knows only its epoch">expired<//>`}` },
          { name: "Event type", value: (row) => row.event_type, cell: (row) => html`<${EventTypeLink} name=${row.event_type} />` },
          { name: "Partition", value: (row) => row.partition, number: true },
          { name: "Epoch", value: (row) => row.epoch, number: true, cell: (row) => html`<span title=${row.previous ? `before: epoch ${row.previous.epoch}, which ended before number ${row.previous.next_sequence}` : null}>${format.count(row.epoch)}</span>` },
          { name: "Last number", value: (row) => row.last_published_sequence, number: true, cell: (row) => format.count(row.last_published_sequence) },
          { name: "At offset", value: (row) => row.last_offset, number: true, cell: (row) => (row.last_offset === null ? "–" : html`<a href=${to`/event-types/${row.event_type}/events` + query({ event: `${row.partition}:${row.last_offset}` })}>${format.count(row.last_offset)}</a>`) },
          { name: "Published last", value: (row) => row.updated_at, cell: (row) => html`<${Time} value=${row.updated_at} relative />` },
          { name: "Expires", value: (row) => row.expires_at ?? "", cell: (row) => (row.pinned ? html`<span class="quiet">never</span>` : html`<${Time} value=${row.expires_at} />`) },
          { name: "", cell: (row) => mayForget(row.event_type) && !row.expired && html`<button aria-label=${`Forget ${row.producer_group} in partition ${row.partition} of ${row.event_type}`} onClick=${() => setForgets(row)}>Forget …</button>` },
        ]} />
    <//>
  </div>
  ${forgets && html`<${Forget} row=${forgets} all=${scan.producers} onClose=${(done) => { setForgets(null); if (done) scan.again(); }} />`}`;
}

function EventTypeLink({ name }) {
  return html`<a href=${to`/event-types/${name}`}><${Text} limit=${60}>${name}<//></a>`;
}

function Progress({ scan, count, onAgain }) {
  return html`<div class="row" role="status">
    <span class="quiet">Looked at ${format.count(scan.looked)} of ${format.plural(count, "event type")}.</span>
    ${scan.busy ? html`<button onClick=${scan.stop}>Stop</button>` : scan.looked < count ? html`<button onClick=${scan.more}>Look at more</button>` : html`<button class="plain" onClick=${onAgain}>Look again</button>`}
  </div>`;
}

/** Look for the producers of event types, a limited number of calls at a time; what was found shows while it goes on. */
function useScan(types) {
  const [state, setState] = useState({ callers: [], producers: [], looked: 0, busy: true, error: null });
  const [turn, setTurn] = useState(0);
  const running = useRef(null);
  const run = useCallback(async (job) => {
    job.budget = CALLS_MAX;
    job.isStopped = false;
    setState((before) => ({ ...before, busy: true, error: null }));
    const worker = async () => {
      while (job.next < job.types.length && job.budget > 0 && !job.isStopped) {
        const type = job.types[job.next];
        job.next += 1;
        job.budget -= 1 + type.partition_count;
        const found = await lookAt(type, job.signal);
        if (running.current !== job) return;
        job.callers.push(...found.callers);
        job.producers.push(...found.producers);
        job.looked += 1;
        setState((before) => ({ ...before, looked: job.looked }));
      }
    };
    const timer = setInterval(() => running.current === job && setState((before) => ({ ...before, callers: [...job.callers], producers: [...job.producers] })), 300);
    let error = null;
    try {
      await Promise.all(Array.from({ length: CALLS_AT_ONCE }, worker));
    } catch (failure) {
      error = failure;
    }
    clearInterval(timer);
    if (running.current === job) setState({ callers: [...job.callers], producers: [...job.producers], looked: job.looked, busy: false, error });
  }, []);
  useEffect(() => {
    const aborter = new AbortController();
    const job = { types, next: 0, looked: 0, callers: [], producers: [], signal: aborter.signal };
    running.current = job;
    run(job);
    return () => {
      running.current = null;
      aborter.abort();
    };
  }, [types, turn]);
  const more = useCallback(() => running.current && run(running.current), []);
  const stop = useCallback(() => { if (running.current) running.current.isStopped = true; }, []);
  const again = useCallback(() => setTurn((before) => before + 1), []);
  return { ...state, more, stop, again };
}

/** Return the callers and the idempotent producers of one event type; nothing if it is gone or may not be seen. */
async function lookAt({ name, partition_count: count }, signal) {
  try {
    const callers = (await get(path`/event-types/${name}/producers`, { signal })).items.map((each) => ({ ...each, event_type: name }));
    const producers = [];
    for (let partition = 0; partition < count; partition += 1) {
      for (const each of await getAll(path`/event-types/${name}/partitions/${partition}/producers` + query({ limit: 1000 }), PER_PARTITION_MAX, { signal })) {
        producers.push({ ...each, event_type: name });
      }
    }
    return { callers, producers };
  } catch (error) {
    if ([403, 404].includes(error.status)) return { callers: [], producers: [] };
    throw error;
  }
}

/** Return a function that tells whether the caller administers an event type: it may forget producers of all groups. */
function useAdministered(producers) {
  const names = [...new Set(producers.map((each) => each.event_type))].slice(0, 50);
  const answer = useAnswer(names.length ? `/caller${query({ event_type: names })}` : null);
  const known = useRef({});
  Object.assign(known.current, answer.value?.event_types);
  return (name) => known.current[name]?.admin ?? answer.error?.status === 404;
}

function Forget({ row, all, onClose }) {
  const others = all.filter((each) => each.producer_group === row.producer_group && each.event_type === row.event_type && !each.expired);
  const [everywhere, setEverywhere] = useState(false);
  const chosen = everywhere ? others : [row];
  const address = (each) => path`/event-types/${each.event_type}/partitions/${each.partition}/producers/${each.producer_group}`;
  return html`<${Confirm} title=${`Forget ${format.line(row.producer_group, 80)}?`} verb="Forget" act=${async () => { for (const each of chosen) await send("DELETE", address(each)); }} onClose=${onClose}
    command=${curl("DELETE", chosen.map(address))}>
    <p>The hub forgets which numbers <strong><${Text}>${row.producer_group}<//></strong> has used in ${everywhere ? format.plural(chosen.length, "partition") : `partition ${row.partition}`} of <strong><${Text}>${row.event_type}<//></strong>; it keeps the epoch, ${format.count(row.epoch)}, for 30 days. Its events stay.</p>
    <p>If it still runs, its next batch is refused (<code>producer-state-expired</code>) until it claims a new epoch. A batch that it repeats then may be stored twice.</p>
    <p>It published last <${Time} value=${row.updated_at} relative />, number ${format.count(row.last_published_sequence)}.</p>
    ${others.length > 1 && html`<label class="check"><input type="checkbox" checked=${everywhere} onChange=${(event) => setEverywhere(event.target.checked)} />In all ${others.length} partitions where it publishes</label>`}
  <//>`;
}
