// The events of an event type: browse and search them, follow what is new, publish a test event.
import { html, useCallback, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { get, path, query } from "../core/api.js";
import { compileFilter, Feed, parseCursors, Scan } from "../core/feed.js";
import * as format from "../core/format.js";
import { go, keepInAddress, to, usePlace } from "../core/routing.js";
import { useAnswer, useRightsOn } from "../core/state.js";
import { EventTypeHead } from "../parts/event_type_head.js";
import { EventTable, explainPartition, FILTERS, Filters, partitionsOf, TABLE_ROWS } from "../parts/event_table.js";
import { Badge, Card, Failure, Loaded, Text, Time } from "../parts/parts.js";
import { OpenedEvent } from "./event.js";
import { LiveTail } from "./live_tail.js";
import { PublishEvent } from "./publish.js";

const SCAN_MOST = 500_000;
const STARTS = [
  ["", "the latest"],
  ["earliest", "the earliest"],
  ["1h", "an hour ago"],
  ["1d", "a day ago"],
  ["time", "a time"],
  ["offset", "an offset"],
  ["cursor", "a cursor"],
];

/** The view of an event type's events. */
export function Events({ name }) {
  const { search } = usePlace();
  const answer = useAnswer(path`/event-types/${name}`);
  const rights = useRightsOn("event_type", name);
  const isOnce = answer.value?.options?.publishing === "exactly-once";
  const mayWrite = rights.write === true && !isOnce;
  const view = search.get("view") ?? "";
  return html`
    <${EventTypeHead} name=${name} rights=${rights} />
    <nav class="choices" aria-label="Events">
      ${[["", "Browse"], ["live", "Live tail"], ...(mayWrite ? [["publish", "Publish"]] : [])].map(([word, label]) => html`<a key=${word} class="button"
        href=${to`/event-types/${name}/events` + query({ view: word, ...(word === "publish" ? {} : filtersOf(search)) })} aria-current=${view === word ? "page" : null}>${label}</a>`)}
    </nav>
    <${Loaded} answer=${answer}>${(type) => {
      if (view === "live") return html`<${LiveTail} name=${name} count=${type.partition_count} search=${search} />`;
      if (view === "publish" && rights.write === undefined) return html`<p class="empty" role="status">Loading …</p>`;
      if (view === "publish" && isOnce) return html`<p class="message warn">This event type takes numbered events of idempotent producers alone: a single event cannot be published here.</p>`;
      if (view === "publish" && mayWrite) return html`<${PublishEvent} type=${type} />`;
      return html`<${Browse} name=${name} count=${type.partition_count} search=${search} />`;
    }}<//>
    ${search.get("event") && answer.value && html`<${OpenedEvent} key=${search.get("event")} name=${name} count=${answer.value.partition_count} place=${search.get("event")} />`}`;
}

function filtersOf(search) {
  return Object.fromEntries(["partition", ...FILTERS].map((each) => [each, search.get(each)]));
}

/** A date and time of the input of that kind, as ISO text in UTC; "" if it is none. */
function readTime(value) {
  const found = new Date(value + (format.isUtc() ? "Z" : ""));
  return value && !Number.isNaN(found.getTime()) ? found.toISOString() : "";
}

function writeTime(iso) {
  return iso && !Number.isNaN(Date.parse(iso)) ? format.time(iso).replace(" ", "T").replace("Z", "") : "";
}

function Browse({ name, count, search }) {
  const words = search.get("find") ?? "";
  const [asked, setAsked] = useState(words);
  const given = Object.fromEntries(["partition", "from", "at", "size", ...FILTERS].map((each) => [each, search.get(each) ?? ""]));
  const [form, setForm] = useState(given);
  const shown = JSON.stringify(given);
  useEffect(() => {
    setForm(given);
    setAsked(words);
  }, [shown, words]);
  const set = (members) => setForm((before) => ({ ...before, ...members }));
  const show = (members) => go(to`/event-types/${name}/events` + query(members));
  const submit = (event) => {
    event.preventDefault();
    show({ ...form, at: ["time", "offset", "cursor"].includes(form.from) ? form.at : "" });
  };
  const hasFilters = FILTERS.some((each) => given[each]);
  const unknown = explainPartition(search, count);
  return html`<div class="stack">
    <form class="find card" role="search" onSubmit=${(event) => { event.preventDefault(); if (asked.trim()) show({ find: asked.trim() }); }}>
      <label class="grow">What happened to …<input type="search" placeholder="an order number, a customer, a key: finds it in all partitions, in order of time" value=${asked} onInput=${(event) => setAsked(event.target.value)} /></label>
      <button class="primary">Find all events</button>
      ${words && html`<a class="button" href=${to`/event-types/${name}/events`}>Browse instead</a>`}
    </form>
    ${!words && html`<form class="toolbar browse" onSubmit=${submit} aria-label="Which events">
      <${Filters} given=${form} set=${set} count=${count}>
        <label>From<select value=${form.from} onChange=${(event) => set({ from: event.target.value, at: "" })}>${STARTS.map(([word, label]) => html`<option key=${word} value=${word}>${label}</option>`)}</select></label>
        ${form.from === "time" && html`<label>Time, ${format.isUtc() ? "UTC" : "local"}<input type="datetime-local" step="1" required value=${writeTime(form.at)} onChange=${(event) => set({ at: readTime(event.target.value) })} /></label>`}
        ${form.from === "offset" && html`<label>Offset<input type="number" min="0" required value=${form.at} onInput=${(event) => set({ at: event.target.value })} /></label>`}
        ${form.from === "cursor" && html`<label>Cursors<input class="long mono" required placeholder="1-f4ec22d8-1-4-4-0-17" value=${form.at} onInput=${(event) => set({ at: event.target.value })} /></label>`}
        <label>Rows<select value=${form.size} onChange=${(event) => set({ size: event.target.value })}><option value="">50</option><option value="200">200</option><option value="500">500</option></select></label>
      <//>
      <div class="buttons"><button class="primary">Show</button>
        ${(hasFilters || given.from || given.partition) && html`<a class="button" href=${to`/event-types/${name}/events`}>Clear</a>`}</div>
    </form>`}
    ${unknown ? html`<p class="message warn">${unknown}</p>` : html`<${Found} key=${JSON.stringify([given, words, search.get("page")])} name=${name} count=${count} search=${search} words=${words} />`}
  </div>`;
}

/** Return the direction, and the ranges of offsets to read, that the address asks for. */
async function plan(feed, search, signal) {
  const bounds = [...feed.bounds];
  const at = search.get("at") ?? "";
  const from = search.get("find") ? "" : (search.get("from") ?? "");
  const cursors = from === "cursor" ? parseCursors(at, feed) : null;
  const asked = cursors ? bounds.filter(([partition]) => cursors.has(partition)) : bounds;
  const whole = (older, start) => ({
    older,
    ranges: new Map(asked.map(([partition, { first, head }]) => {
      const at = Math.min(head, Math.max(first, start(partition) ?? (older ? head : first)));
      return [partition, older ? { low: first, high: at } : { low: at, high: head }];
    })),
  });
  const page = /^(older|newer)\.(\d+(?:_\d+)*)$/.exec(search.get("page") ?? "");
  if (page) {
    const offsets = page[2].split("_").map(Number);
    const places = new Map(asked.map(([partition], at) => [partition, offsets[at]]));
    return whole(page[1] === "older", (partition) => places.get(partition));
  }
  if (from === "offset") return whole(false, () => Number(at) || 0);
  if (cursors) return whole(false, (partition) => cursors.get(partition));
  const ago = { "1h": 3_600_000, "1d": 86_400_000 }[from];
  if (ago || from === "time") {
    const time = ago ? new Date(Date.now() - ago).toISOString() : at;
    const found = await get(path`/event-types/${feed.name}/cursors` + query({ at: time }), { signal });
    const places = new Map(found.map(({ partition, offset }) => [Number(partition), Number(/(-?\d+)$/.exec(offset.slice(9))[1]) + 1]));
    return whole(false, (partition) => places.get(partition));
  }
  return whole(from !== "earliest", () => undefined);
}

/** Use a scan of what the address asks for: what it has found, whether it runs; it can be stopped, and goes on. */
function useScan(name, count, search, limit) {
  const [state, setState] = useState({ running: true, error: null, scan: null });
  const work = useRef({ scan: null, stop: null });
  const run = useCallback(async (isNew) => {
    const stop = new AbortController();
    work.current.stop?.abort();
    work.current.stop = stop;
    const update = (members) => work.current.stop === stop && setState((before) => ({ ...before, ...members, turn: (before.turn ?? 0) + 1 }));
    update({ running: true, error: null });
    try {
      if (isNew || !work.current.scan) {
        const filter = compileFilter({ key: search.get("key"), text: search.get("text"), path: search.get("path"), words: search.get("find") });
        const feed = await Feed.open(name, count, partitionsOf(search, count), stop.signal);
        const { older, ranges } = await plan(feed, search, stop.signal);
        work.current.scan = new Scan(feed, ranges, { older, filter, kind: search.get("kind") ?? "", limit });
        update({ scan: work.current.scan });
      }
      await work.current.scan.run(stop.signal, { most: SCAN_MOST, onProgress: () => update({}) });
      update({ running: false });
    } catch (error) {
      update({ running: false, error: error.name === "AbortError" ? null : error });
    }
  }, []);
  useEffect(() => {
    run(true);
    return () => {
      const { stop } = work.current;
      work.current.stop = null;
      stop?.abort();
    };
  }, [run]);
  return { ...state, again: () => run(true), goOn: () => run(false), stop: () => work.current.stop?.abort() };
}

function Found({ name, count, search, words }) {
  const limit = words ? TABLE_ROWS : Math.min(TABLE_ROWS, Number(search.get("size")) || 50);
  const { scan, running, error, again, goOn, stop, turn } = useScan(name, count, search, limit);
  const isFiltered = Boolean(words || FILTERS.some((each) => search.get(each)));
  // Who looks at the latest sees the newest first; who reads from somewhere on, or searches, reads in the order of time.
  const newestFirst = !words && !search.get("from");
  const rows = useMemo(() => {
    const found = scan?.found ?? [];
    return newestFirst ? found.reverse() : found;
  }, [turn]);
  if (!scan) return error ? html`<${Failure} error=${explain(error)} retry=${again} />` : html`<p class="empty" role="status">Loading …</p>`;
  const isFull = scan.rows.length >= limit;
  const page = (older) => `${older ? "older" : "newer"}.${(older === scan.older ? scan.ends : scan.starts).join("_")}`;
  const turnTo = (older) => {
    const next = new URLSearchParams(location.search);
    next.set("page", page(older));
    go(`${location.pathname}?${next}`);
    window.scrollTo(0, 0);
  };
  const atOldest = scan.older ? scan.isDone : scan.states.every(({ partition, start }) => start <= scan.feed.bounds.get(partition).first);
  const atNewest = scan.older
    ? scan.states.every(({ partition, start }) => start >= scan.feed.bounds.get(partition).head)
    : scan.isDone;
  const canGoOn = !running && !isFull && !scan.isDone;
  return html`
    <${Failure} error=${error && explain(error)} retry=${goOn} />
    <${Card} flush title=${words ? html`What happened to <${Text} limit=${80}>${words}<//>` : html`Events`} more=${html`<span class="row">
        ${isFiltered ? html`<span role="status" class="progress">${running ? "" : isFull ? html`<${Badge}>page is full<//> ` : scan.isDone ? html`<${Badge} tone="good">complete<//> ` : html`<${Badge} tone="warn">stopped<//> `}
          scanned ${format.count(scan.scanned)} of ${format.count(scan.total)}, ${format.count(rows.length)} found</span>` : running ? html`<span role="status" class="progress">Loading …</span>` : null}
        ${running && isFiltered && html`<button onClick=${stop}>Stop</button>`}
        ${canGoOn && html`<button onClick=${goOn}>Go on</button>`}
        ${!running && html`<button onClick=${again} title="Read this page again">Refresh</button>`}
      </span>`}>
      ${isFiltered && running && html`<div class="bar"><span style=${{ width: `${scan.total ? (100 * scan.scanned) / scan.total : 100}%` }}></span></div>`}
      <${EventTable} rows=${rows} empty=${emptyText({ running, isFiltered, words, scan, search })} />
      <div class="table-foot">
        ${newestFirst
          ? html`<button disabled=${running || atNewest} onClick=${() => turnTo(false)}>Newer</button><span>${range(rows)}</span><button disabled=${running || atOldest} onClick=${() => turnTo(true)}>Older</button>`
          : html`<button disabled=${running || atOldest} onClick=${() => turnTo(true)}>Older</button><span>${range(rows)}</span><button disabled=${running || atNewest} onClick=${() => turnTo(false)}>Newer</button>`}
        ${search.get("page") && html`<button class="plain" onClick=${() => keepInAddress({ page: "" })}>Back to the start</button>`}
      </div>
    <//>`;
}

function explain(error) {
  if (error instanceof SyntaxError) return { message: error.message, hint: "Correct it above, and press Show." };
  return error;
}

function range(rows) {
  if (!rows.length) return "No events";
  const [first, last] = [rows[0], rows.at(-1)];
  return html`${format.plural(rows.length, "event")}, <${Time} value=${Math.min(first.at, last.at) / 1000} /> to <${Time} value=${Math.max(first.at, last.at) / 1000} />`;
}

function emptyText({ running, isFiltered, words, scan, search }) {
  if (running) return isFiltered ? "Nothing found yet." : "Loading …";
  if (!scan.isDone) return "Nothing found so far. Go on, or look elsewhere.";
  if (words) return `Nothing in ${format.plural(scan.total, "event")} mentions it as a whole word. To find a part of a word, browse and use “Text in the event”.`;
  if (isFiltered) return "No event here passes the filters. Press Clear, or begin elsewhere.";
  if (search.get("page") || search.get("from")) return scan.older ? "There is nothing older." : "Nothing newer yet: Refresh looks again, Live tail waits.";
  if ([...scan.feed.bounds.values()].some(({ head }) => head > 0)) return "No event is left: retention has removed them all.";
  if (search.get("partition")) return `Nothing has been published to partition ${search.get("partition")} yet.`;
  return "Nothing has been published yet. The tab Publish sends a test event.";
}
