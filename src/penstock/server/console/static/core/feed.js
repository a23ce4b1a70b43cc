// Reads a feed in both directions: pages, searches, and what is new.
import { CallFailed, path, query, readText, request } from "./api.js";
import { compileCondition, findEnd, parseExact } from "./json.js";

const CURSOR = /^1-([0-9a-f]{8})-(\d+)-(\d+)-(\d+)-(\d+)-(\d+(?:_\d+)*)$/;
const DETAILED = /^\{"partition":(\d+),"offset":(\d+),"received_at":(\d+),"kind":("(?:[^"\\]|\\.)*")(?:,"key":("(?:[^"\\]|\\.)*"))?,"data":/;
const REQUEST_PARTITIONS = 200;
const REQUEST_BYTES = 8_000_000;
const REQUEST_EVENTS = 8_000;

/** An event type's partitions: their first offsets, and their next ones. */
export class Feed {
  /** @param {Map<number, {first: number, head: number, base: string}>} bounds base is a cursor without its offset */
  constructor(name, count, bounds) {
    this.name = name;
    this.count = count;
    this.bounds = bounds;
  }

  /** Ask the hub where *partitions* begin and end. */
  static async open(name, count, partitions, signal) {
    const bounds = new Map();
    for (let at = 0; at < partitions.length; at += REQUEST_PARTITIONS) {
      const some = partitions.slice(at, at + REQUEST_PARTITIONS);
      const ask = async (word) => {
        const found = new Map();
        const cursors = Object.fromEntries(some.map((each) => [`cursor${each}`, word]));
        const response = await request("GET", path`/feeds/${name}` + query({ n: count, pagesizehint: 0, ...cursors }), { accept: "application/x-ndjson", signal });
        for await (const line of readText(response)) {
          const { partition, cursor } = JSON.parse(line);
          found.set(partition, cursor);
        }
        return found;
      };
      const [first, last] = await Promise.all([ask("_first"), ask("_last")]);
      for (const [partition, cursor] of last) {
        const start = first.get(partition);
        bounds.set(partition, { first: offsetOf(start), head: offsetOf(cursor), base: cursor.slice(0, cursor.lastIndexOf("-") + 1) });
      }
    }
    return new Feed(name, count, bounds);
  }

  /** The cursor before the event with that offset. */
  cursor(partition, offset) {
    return this.bounds.get(partition).base + offset;
  }

  /** The address of a page with *members* in its query. */
  address(members) {
    return path`/feeds/${this.name}` + query({ n: this.count, details: 1, ...members });
  }

  /**
   * Yield the events of one page: {partition, offset, key, kind, at, text, headers}; `at` is in microseconds since 1970,
   * `text` the event's JSON as it was published. A line {partition, next} says that all before `next` was read.
   */
  async *read(members, signal) {
    const response = await request("GET", this.address(members), { accept: "application/x-ndjson", signal });
    const details = new Map();
    for await (const line of readText(response)) {
      const before = /^\{"partition":(\d+),"(data|headers)":/.exec(line);
      if (before) {
        const partition = Number(before[1]);
        let from = before[0].length;
        let headers = null;
        if (before[2] === "headers") {
          const end = findEnd(line, from);
          headers = JSON.parse(line.slice(from, end));
          from = end + ',"data":'.length;
        }
        yield { partition, ...details.get(partition).next().value, headers, text: line.slice(from, line.lastIndexOf("}")) };
      } else {
        const found = JSON.parse(line);
        if (found.details) details.set(found.partition, list(found.details));
        else if (found.cursor) yield { partition: found.partition, next: offsetOf(found.cursor) };
      }
    }
  }

  /**
   * Yield events as they come, like `read`, until the hub ends the stream.
   *
   * @param {(id: string) => void} note gets the id of each message once the next one comes, since all of
   *   it was read by then: where the stream is, after events that it left out, too
   * @throws {CallFailed} the hub refuses the stream, or ends it with an error
   */
  async *follow(members, signal, note) {
    const response = await request("GET", this.address({ unnamed: 1, ...members }), { accept: "text/event-stream", signal });
    let isProblem = false;
    let id = "";
    for await (const line of readText(response)) {
      if (line.startsWith("id: ")) {
        if (id) note(id);
        id = line.slice("id: ".length);
      }
      if (line.startsWith("event: ")) isProblem = line === "event: penstock-problem";
      if (!line.startsWith("data: ")) continue;
      const data = line.slice("data: ".length);
      if (isProblem) {
        const problem = JSON.parse(data);
        throw new CallFailed(problem.status, problem);
      }
      const [before, partition, offset, at, kind, key] = DETAILED.exec(data);
      yield {
        partition: Number(partition),
        offset: Number(offset),
        key: key === undefined ? null : JSON.parse(key),
        kind: JSON.parse(kind),
        at: Number(at),
        headers: null,
        text: data.slice(before.length, -1),
      };
    }
  }

  /** Read one event with its headers; null if there is none at that offset. */
  async readEvent(partition, offset, signal) {
    const range = { [`cursor${partition}`]: this.cursor(partition, offset), [`until${partition}`]: this.cursor(partition, offset + 1) };
    for await (const each of this.read({ pagesizehint: 1, headers: "_all", ...range }, signal)) if (each.offset === offset) return each;
    return null;
  }
}

/** Yield {offset, key, kind, at} of each event that a line with details is about. */
function* list({ offset, offsets, keys, kinds, kind, ends, received_at: times }) {
  let run = 0;
  for (let at = 0; at < ends.at(-1); at += 1) {
    while (at >= ends[run]) run += 1;
    yield { offset: offsets ? offsets[at] : offset + at, key: keys?.[at] ?? null, kind: kinds?.[at] ?? kind, at: times[run] };
  }
}

function offsetOf(cursor) {
  return Number(cursor.slice(cursor.lastIndexOf("-") + 1));
}

/**
 * Return the offsets that texts of cursors stand for, by partition: cursors of feeds, alone or as `cursor0=…&cursor1=…`, or
 * Nakadi's `001-0001-000000000000000012` of the one partition that *feed* has been opened for.
 *
 * @throws {SyntaxError} a cursor is none, or of another feed
 */
export function parseCursors(text, feed) {
  const found = new Map();
  for (const each of text.split(/[\s,;&]+/).map((part) => part.replace(/^cursor\d+=/, "")).filter(Boolean)) {
    const nakadi = /^001-([0-9a-f]{4})-(-?\d+)$/.exec(each);
    if (nakadi) {
      if (feed.bounds.size !== 1) throw new SyntaxError("Choose the partition that this cursor is of.");
      found.set([...feed.bounds.keys()][0], Number(nakadi[2]) + 1);
      continue;
    }
    const known = CURSOR.exec(each);
    if (!known) throw new SyntaxError(`“${each.slice(0, 60)}” is no cursor: it looks like 1-f4ec22d8-1-4-4-0-17, or 001-0001-000000000000000012.`);
    const [mark, epoch] = known.slice(1);
    const [, n, partition] = known.slice(3).map(Number);
    const [here] = [...feed.bounds.values()].map(({ base }) => base.split("-"));
    if (here[1] !== mark) throw new SyntaxError("This cursor belongs to another event type.");
    if (here[2] !== epoch) throw new SyntaxError("This cursor is from before the event type was created again: its events are gone.");
    known[6].split("_").forEach((offset, at) => found.set((partition % feed.count) + at * n, Number(offset)));
  }
  return found;
}

/**
 * Return the next offset of each partition after a message of a stream.
 *
 * @param {string} id such as 1-f4ec22d8-1-4-4-0-9.1-10: a cursor, and of the other partitions their number and offset
 */
export function parseMessageId(id) {
  const [first, ...others] = id.split(".");
  const [partition, offset] = first.split("-").slice(-2);
  return new Map([[partition, offset], ...others.map((each) => each.split("-"))].map((pair) => pair.map(Number)));
}

/** Order events by time, and within a partition by offset. */
export function byTime(a, b) {
  return a.at - b.at || a.partition - b.partition || a.offset - b.offset;
}

/**
 * Compile filters into a function of an event of `Feed.read`; null if there are none. *words* are found as whole words in key,
 * kind or data, *text* anywhere in the data, *path* is a condition as `compileCondition` has it.
 */
export function compileFilter({ key, text, words, path: condition }) {
  const tests = [];
  if (key) tests.push((event) => event.key === key);
  if (text) tests.push(searchFor(text, false));
  if (words) tests.push(searchFor(words, true));
  if (condition) {
    const holds = compileCondition(condition);
    tests.push((event) => holds(parseExact(event.text)));
  }
  return tests.length ? (event) => tests.every((test) => test(event)) : null;
}

function searchFor(text, isWord) {
  const escape = (each) => each.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
  const make = (each) => new RegExp(isWord ? `(?<![\\p{L}\\p{N}_])${escape(each)}(?![\\p{L}\\p{N}_])` : escape(each), "iu");
  const inData = make(JSON.stringify(text).slice(1, -1));
  const plain = make(text);
  return ({ text: data, key, kind }) => {
    if (isWord && ((key !== null && plain.test(key)) || plain.test(kind))) return true;
    // Escapes such as \u00e9 and \/ are those of the publisher: compare what they mean.
    return inData.test(data) || (data.includes("\\") && inData.test(JSON.stringify(JSON.parse(data))));
  };
}

/** What a list keeps of an event: the data itself is read again when it is opened. */
export function summarize({ text, headers: _headers, ...rest }) {
  let start = text.slice(0, 600);
  if (text.length <= 4000 && text.includes("\\u")) start = JSON.stringify(JSON.parse(text)).slice(0, 600);
  return { ...rest, chars: text.length, start };
}

/**
 * Finds events in the order of time over many partitions, from newer to older ones or the other way. It can be stopped and
 * goes on where it was.
 */
export class Scan {
  /**
   * @param {Feed} feed
   * @param {Map<number, {low: number, high: number}>} ranges offsets to read, without `high`
   * @param {{older: boolean, filter: Function | null, kind: string, limit: number}} wanted
   */
  constructor(feed, ranges, { older, filter = null, kind = "", limit }) {
    this.feed = feed;
    this.older = older;
    this.filter = filter;
    this.kind = kind;
    this.limit = limit;
    this.rows = [];
    this.states = [...ranges].map(([partition, { low, high }]) => ({ partition, low, high, start: older ? high : low, found: [] }));
    this.total = this.states.reduce((sum, { low, high }) => sum + high - low, 0);
    this.size = filter || kind ? 500 : 2 * limit;
    this.readEvents = 0;
    this.readChars = 0;
  }

  /** How many offsets have been read. */
  get scanned() {
    return this.total - this.states.reduce((sum, { low, high }) => sum + high - low, 0);
  }

  /** Whether all was read. */
  get isDone() {
    return this.states.every(({ low, high, found }) => low >= high && !found.length);
  }

  /** What was found so far, at most `limit`, in the order of time, the oldest first. */
  get found() {
    // Without filters, what one partition has read ahead may be far from what others have.
    const isWhole = !this.filter && !this.kind;
    const known = isWhole ? this.rows : [...this.rows, ...this.states.flatMap(({ found }) => found)];
    const sorted = [...known].sort(byTime);
    return this.older ? sorted.slice(-this.limit) : sorted.slice(0, this.limit);
  }

  /** The offsets from which a page goes on in the same direction after `found`, by partition. */
  get ends() {
    const shown = new Set(this.found);
    return this.states.map(({ low, high, found }) => {
      const next = found.findLast((each) => !shown.has(each))?.offset;
      if (this.older) return next === undefined ? high : next + 1;
      return next === undefined ? low : next;
    });
  }

  /** The offsets at which the page begins, by partition. */
  get starts() {
    return this.states.map(({ start }) => start);
  }

  /** Read until there are `limit` events, all was read, *most* offsets were read, or *signal* stops it. */
  async run(signal, { most = Infinity, onProgress = () => {} } = {}) {
    const before = this.scanned;
    while (this.rows.length < this.limit) {
      const hungry = this.states.filter(({ low, high, found }) => !found.length && low < high);
      if (hungry.length) {
        if (this.scanned - before >= most) return;
        await this.#refill(hungry.slice(0, REQUEST_PARTITIONS), signal);
        onProgress();
        continue;
      }
      let best = null;
      for (const state of this.states) {
        if (!state.found.length) continue;
        const order = best ? byTime(state.found.at(-1), best.found.at(-1)) : -1;
        if (!best || (this.older ? order > 0 : order < 0)) best = state;
      }
      if (!best) return;
      this.rows.push(best.found.pop());
    }
  }

  /** Read the next range of each of *states*, whole: an interruption leaves them as they were. */
  async #refill(states, signal) {
    const mean = this.readEvents ? this.readChars / this.readEvents : 0;
    const most = mean ? Math.max(states.length, Math.floor(REQUEST_BYTES / mean)) : this.size;
    const each = Math.max(1, Math.ceil(Math.min(this.size, most) / states.length));
    const open = new Map(states.map((state) => {
      const { low, high } = state;
      const [at, stop] = this.older ? [Math.max(low, high - each), high] : [low, Math.min(high, low + each)];
      return [state.partition, { state, start: at, at, stop, found: [] }];
    }));
    const left = () => [...open.values()].filter(({ at, stop }) => at < stop);
    for (let some = left(); some.length; some = left()) {
      const members = { pagesizehint: some.reduce((sum, { at, stop }) => sum + stop - at, 0), "event-types": this.kind };
      for (const { state, at, stop } of some) {
        members[`cursor${state.partition}`] = this.feed.cursor(state.partition, at);
        members[`until${state.partition}`] = this.feed.cursor(state.partition, stop);
      }
      try {
        for await (const event of this.feed.read(members, signal)) {
          const range = open.get(event.partition);
          if (event.next !== undefined) range.at = Math.max(range.at, event.next);
          else {
            this.readEvents += 1;
            this.readChars += event.text.length;
            if (!this.filter || this.filter(event)) range.found.push(summarize(event));
          }
        }
      } catch (error) {
        const offset = error.status === 410 && /-(\d+)$/.exec(error.problem?.first_available ?? "");
        const range = offset && open.get(error.problem.partition);
        if (!range || Number(offset[1]) <= range.at) throw error;
        // Retention has removed the oldest events meanwhile.
        range.at = range.start = Math.min(range.stop, Number(offset[1]));
        if (this.older) range.state.low = range.at;
      }
    }
    for (const { state, start, stop, found } of open.values()) {
      if (this.older) state.high = state.low > start ? state.low : start;
      else {
        state.low = stop;
        found.reverse();
      }
      state.found = found;
    }
    this.size = Math.min(REQUEST_EVENTS, this.size * 2);
  }
}
