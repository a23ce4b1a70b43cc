// Follows an event type: shows events as they come.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { query } from "../core/api.js";
import { compileFilter, Feed, parseMessageId, summarize } from "../core/feed.js";
import * as format from "../core/format.js";
import { go, to } from "../core/routing.js";
import { EventTable, explainPartition, FILTERS, Filters, partitionsOf, TABLE_ROWS } from "../parts/event_table.js";
import { Badge, Card, Failure } from "../parts/parts.js";

const HEARTBEAT_SECONDS = 15;
const BEHIND_MAX = 5000;
const DRAW_MS = 250;
const RETRY_MS = 3000;
const RATE_MS = 10_000;

/** Follows the feed from its end, until it is paused; keeps the last events that pass the filters. */
class Tail {
  constructor(name, count, search) {
    Object.assign(this, { name, count, partitions: partitionsOf(search, count), kind: search.get("kind") ?? "" });
    this.filter = compileFilter(Object.fromEntries(FILTERS.map((each) => [each, search.get(each)])));
    this.next = null;
    this.id = "";
    this.rows = [];
    this.fresh = [];
    this.seen = 0;
    this.passed = 0;
    this.skipped = 0;
    this.samples = [];
  }

  /** Events per second over the last ten seconds: all that the hub sent, before filters but that of the kind. */
  get rate() {
    const [first, last] = [this.samples[0], this.samples.at(-1)];
    return first && last.at > first.at ? (last.seen - first.seen) / ((last.at - first.at) / 1000) : 0;
  }

  /** Show what has come since the last time, and count for the rate; return whether there was something. */
  take() {
    const found = this.fresh.sort((a, b) => b.at - a.at || b.partition - a.partition || b.offset - a.offset);
    this.fresh = [];
    if (found.length) this.rows = [...found, ...this.rows].slice(0, TABLE_ROWS);
    const at = performance.now();
    this.samples.push({ at, seen: this.seen });
    this.samples = this.samples.filter((each) => each.at >= at - RATE_MS);
    return found.length > 0;
  }

  /** Find where to read on: at the end at first; later where it was, unless that is too far behind. */
  async begin(signal) {
    this.feed = await Feed.open(this.name, this.count, this.partitions, signal);
    const bounds = [...this.feed.bounds];
    this.next ??= new Map(bounds.map(([partition, { head }]) => [partition, head]));
    for (const [partition, offset] of this.id ? parseMessageId(this.id) : []) this.next.set(partition, Math.max(this.next.get(partition), offset));
    this.id = "";
    const behind = bounds.reduce((sum, [partition, { head }]) => sum + Math.max(0, head - this.next.get(partition)), 0);
    for (const [partition, { first, head }] of bounds) {
      const floor = behind > BEHIND_MAX ? Math.max(first, head - Math.ceil(TABLE_ROWS / bounds.length)) : first;
      const missed = Math.min(head, floor) - this.next.get(partition);
      if (missed > 0) {
        this.skipped += missed;
        this.next.set(partition, this.next.get(partition) + missed);
      }
    }
  }

  /** Read until the stream ends, or it is time to look how far behind the end this is. */
  async follow(signal) {
    const members = { heartbeat: HEARTBEAT_SECONDS, "event-types": this.kind };
    for (const [partition, offset] of this.next) members[`cursor${partition}`] = this.feed.cursor(partition, offset);
    let read = 0;
    for await (const event of this.feed.follow(members, signal, (id) => { this.id = id; })) {
      read += 1;
      this.seen += 1;
      this.next.set(event.partition, event.offset + 1);
      if (!this.filter || this.filter(event)) {
        this.passed += 1;
        this.fresh.push(summarize(event));
        if (this.fresh.length > 2 * TABLE_ROWS) this.fresh = this.fresh.slice(-TABLE_ROWS);
      }
      if (read >= BEHIND_MAX) return;
    }
  }
}

/** The view that follows an event type. */
export function LiveTail({ name, count, search }) {
  const given = Object.fromEntries(["partition", ...FILTERS].map((each) => [each, search.get(each) ?? ""]));
  const [form, setForm] = useState(given);
  const shown = JSON.stringify(given);
  useEffect(() => setForm(given), [shown]);
  const unknown = explainPartition(search, count);
  const submit = (event) => {
    event.preventDefault();
    go(to`/event-types/${name}/events` + query({ view: "live", ...form }));
  };
  return html`<div class="stack">
    <form class="toolbar browse" onSubmit=${submit} aria-label="Which events">
      <${Filters} given=${form} set=${(members) => setForm((before) => ({ ...before, ...members }))} count=${count} />
      <div class="buttons"><button class="primary">Filter</button>${Object.values(given).some(Boolean) && html`<a class="button" href=${to`/event-types/${name}/events` + query({ view: "live" })}>Clear</a>`}</div>
    </form>
    ${unknown ? html`<p class="message warn">${unknown}</p>` : html`<${Following} key=${shown} name=${name} count=${count} search=${search} />`}
  </div>`;
}

function Following({ name, count, search }) {
  const [paused, setPaused] = useState(""); // Or "paused", or "stopped" by an error that would come again.
  const [error, setError] = useState(null);
  const [, draw] = useState(0);
  const tail = useRef(null);
  useEffect(() => {
    if (paused) return undefined;
    const stop = new AbortController();
    const pause = (ms) => new Promise((resolve) => {
      setTimeout(resolve, ms);
      stop.signal.addEventListener("abort", resolve);
    });
    const redraw = () => draw((before) => before + 1);
    async function follow() {
      while (!stop.signal.aborted) {
        try {
          tail.current ??= new Tail(name, count, search);
          await tail.current.begin(stop.signal);
          setError(null);
          redraw();
          await tail.current.follow(stop.signal);
          await pause(DRAW_MS); // A hub that stops ends streams at once.
        } catch (failure) {
          if (stop.signal.aborted) return;
          if (failure.status === 401) window.dispatchEvent(new CustomEvent("penstock:unauthenticated"));
          setError(failure instanceof SyntaxError ? { message: failure.message, hint: "Correct it above, and press Filter." } : failure);
          if (failure instanceof SyntaxError || [400, 401, 403, 404].includes(failure.status)) {
            tail.current?.take();
            setPaused("stopped");
            return;
          }
          await pause(RETRY_MS);
        }
      }
    }
    follow();
    let ticks = 0;
    const timer = setInterval(() => {
      ticks += 1;
      if (tail.current?.take() || ticks % 4 === 0) redraw();
    }, DRAW_MS);
    return () => {
      stop.abort();
      clearInterval(timer);
      if (tail.current) tail.current.samples = [];
    };
  }, [paused]);
  const { rows = [], passed = 0, skipped = 0, rate = 0, feed } = tail.current ?? {};
  return html`<${Failure} error=${error} />
    <${Card} flush title="Live tail" more=${html`<span class="row">
      ${paused ? html`<${Badge} tone=${paused === "stopped" ? "bad" : "warn"}>${paused}<//>` : feed ? html`<${Badge} tone="good">following<//> <span class="progress">${format.rate(rate)}${tail.current.filter ? " before the filter" : ""}</span>` : html`<${Badge}>connecting …<//>`}
      <span class="progress">${format.plural(passed, "event")} since it began${passed > TABLE_ROWS ? `, the last ${TABLE_ROWS} kept` : ""}</span>
      <button onClick=${() => setPaused(paused ? "" : "paused")}>${paused ? "Resume" : "Pause"}</button>
      <button disabled=${!rows.length} onClick=${() => { tail.current.rows = []; draw((before) => before + 1); }}>Empty the list</button>
    </span>`}>
      ${skipped > 0 && html`<p class="message warn">${format.plural(skipped, "event")} passed unread, since this view was paused or could not keep up. <a href=${to`/event-types/${name}/events`}>Browse</a> shows all.</p>`}
      <${EventTable} rows=${rows} pageSize=${100} label="New events" empty=${paused === "stopped" ? "Stopped: no more events are shown." : paused ? "Paused." : "Waiting for the next event …"} />
    <//>`;
}
