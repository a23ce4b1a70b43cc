// Follows an event type: shows events as they come.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { query } from "../core/api.js";
import { compileFilter, Feed, summarize } from "../core/feed.js";
import * as format from "../core/format.js";
import { go, to } from "../core/routing.js";
import { EventTable, FILTERS, Filters, partitionsOf, TABLE_ROWS } from "../parts/event_table.js";
import { Badge, Card, Failure } from "../parts/parts.js";

const PAGE_EVENTS = 1000;
const WAIT_SECONDS = 20;
const BEHIND_MAX = 5000;
const PAUSE_MS = 250;
const RETRY_MS = 3000;
const RATE_MS = 10_000;

/** Follows the feed from its end, until it is paused; keeps the last events that pass the filters. */
class Tail {
  constructor(name, count, search) {
    Object.assign(this, { name, count, partitions: partitionsOf(search, count), kind: search.get("kind") ?? "" });
    this.filter = compileFilter(Object.fromEntries(FILTERS.map((each) => [each, search.get(each)])));
    this.next = null;
    this.rows = [];
    this.seen = 0;
    this.passed = 0;
    this.skipped = 0;
    this.samples = [];
  }

  /** Events per second over the last ten seconds, before filters. */
  get rate() {
    const [first, last] = [this.samples[0], this.samples.at(-1)];
    return first && last.at > first.at ? (last.seen - first.seen) / ((last.at - first.at) / 1000) : 0;
  }

  /** Count for the rate. */
  measure() {
    const at = performance.now();
    this.samples.push({ at, seen: this.seen });
    this.samples = this.samples.filter((each) => each.at >= at - RATE_MS);
  }

  /** Find where to read on: at the end at first; later where it was, unless that is too far behind. */
  async begin(signal) {
    this.feed = await Feed.open(this.name, this.count, this.partitions, signal);
    const bounds = [...this.feed.bounds];
    this.next ??= new Map(bounds.map(([partition, { head }]) => [partition, head]));
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

  /** Read a page, waiting for its first event; *onEvents* is called after it. */
  async turn(signal, onEvents) {
    const members = { pagesizehint: PAGE_EVENTS, wait: WAIT_SECONDS, "event-types": this.kind };
    for (const [partition, offset] of this.next) members[`cursor${partition}`] = this.feed.cursor(partition, offset);
    const found = [];
    let read = 0;
    for await (const event of this.feed.read(members, signal)) {
      if (event.next !== undefined) {
        this.seen += Math.max(0, event.next - this.next.get(event.partition));
        this.next.set(event.partition, event.next);
      } else {
        read += 1;
        if (!this.filter || this.filter(event)) found.push(summarize(event));
      }
    }
    this.passed += found.length;
    found.sort((a, b) => b.at - a.at || b.partition - a.partition || b.offset - a.offset);
    if (found.length) this.rows = [...found, ...this.rows].slice(0, TABLE_ROWS);
    this.measure();
    onEvents();
    if (read >= PAGE_EVENTS) await this.begin(signal);
  }
}

/** The view that follows an event type. */
export function LiveTail({ name, count, search }) {
  const given = Object.fromEntries(["partition", ...FILTERS].map((each) => [each, search.get(each) ?? ""]));
  const [form, setForm] = useState(given);
  const shown = JSON.stringify(given);
  useEffect(() => setForm(given), [shown]);
  const submit = (event) => {
    event.preventDefault();
    go(to`/event-types/${name}/events` + query({ view: "live", ...form }));
  };
  return html`<div class="stack">
    <form class="toolbar browse" onSubmit=${submit} aria-label="Which events">
      <${Filters} given=${form} set=${(members) => setForm((before) => ({ ...before, ...members }))} count=${count} />
      <div class="buttons"><button class="primary">Filter</button>${Object.values(given).some(Boolean) && html`<a class="button" href=${to`/event-types/${name}/events` + query({ view: "live" })}>Clear</a>`}</div>
    </form>
    <${Following} key=${shown} name=${name} count=${count} search=${search} />
  </div>`;
}

function Following({ name, count, search }) {
  const [paused, setPaused] = useState(false);
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
      let begun = false;
      while (!stop.signal.aborted) {
        try {
          tail.current ??= new Tail(name, count, search);
          if (!begun) await tail.current.begin(stop.signal);
          begun = true;
          tail.current.measure();
          setError(null);
          redraw();
          await tail.current.turn(stop.signal, redraw);
          await pause(PAUSE_MS);
        } catch (failure) {
          if (stop.signal.aborted) return;
          setError(failure instanceof SyntaxError ? { message: failure.message, hint: "Correct it above, and press Filter." } : failure);
          if (failure instanceof SyntaxError || failure.status === 401 || failure.status === 403 || failure.status === 404) return;
          begun = false;
          await pause(RETRY_MS);
        }
      }
    }
    follow();
    const timer = setInterval(() => {
      tail.current?.measure();
      redraw();
    }, 1000);
    return () => {
      stop.abort();
      clearInterval(timer);
      if (tail.current) tail.current.samples = [];
    };
  }, [paused]);
  const { rows = [], passed = 0, skipped = 0, rate = 0, feed } = tail.current ?? {};
  return html`<${Failure} error=${error} />
    <${Card} flush title="Live tail" more=${html`<span class="row">
      ${paused ? html`<${Badge} tone="warn">paused<//>` : feed ? html`<${Badge} tone="good">following<//> <span class="progress">${format.rate(rate)}</span>` : html`<${Badge}>connecting …<//>`}
      <span class="progress">${format.plural(passed, "event")} since it began${passed > TABLE_ROWS ? `, the last ${TABLE_ROWS} kept` : ""}</span>
      <button onClick=${() => setPaused(!paused)}>${paused ? "Resume" : "Pause"}</button>
      <button disabled=${!rows.length} onClick=${() => { tail.current.rows = []; draw((before) => before + 1); }}>Empty the list</button>
    </span>`}>
      ${skipped > 0 && html`<p class="message warn">${format.plural(skipped, "event")} passed unread, since this view was paused or could not keep up. <a href=${to`/event-types/${name}/events`}>Browse</a> shows all.</p>`}
      <${EventTable} rows=${rows} pageSize=${100} label="New events" empty=${paused ? "Paused." : "Waiting for the next event …"} />
    <//>`;
}
