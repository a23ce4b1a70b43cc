// Reads an event type from its newest event back to its oldest.
import { get, path, query } from "./api.js";
import { Feed } from "./feed.js";

/** The number in an offset of Nakadi's form, 001-0001-000000000000000007: 7; -1 before the first event. */
export function offsetNumber(offset) {
  return Number(/^\d+-\w+-(-?\d+)$/.exec(offset)?.[1] ?? NaN);
}

/**
 * Yield the events of *name*, as `Feed.read` has them, the newest first.
 *
 * @param {{until?: string, size?: number, signal?: AbortSignal}} options
 *   until: a time (RFC 3339) at or after which nothing is wanted; size: how many offsets of a partition are read at a time
 */
export async function* readBackwards(name, { until, size = 200, signal } = {}) {
  const [{ partition_count: count }, cursors] = await Promise.all([
    get(path`/event-types/${name}`, { signal }),
    until ? get(path`/event-types/${name}/cursors` + query({ at: until }), { signal }) : [],
  ]);
  const ends = new Map(cursors.map((each) => [Number(each.partition), offsetNumber(each.offset) + 1]));
  const feed = await Feed.open(name, count, Array.from({ length: count }, (_, at) => at), signal);
  const sources = [...feed.bounds].map(([partition, { first, head }]) => ({ partition, first, stop: ends.get(partition) ?? head, events: [] }));
  for (;;) {
    await Promise.all(sources.map((each) => fill(feed, each, size, signal)));
    const waiting = sources.filter((each) => each.events.length);
    if (!waiting.length) return;
    yield waiting.reduce((a, b) => (b.events.at(-1).at > a.events.at(-1).at ? b : a)).events.pop();
  }
}

/** If a source has no events, read ranges before its stop until one has some, or none is left. */
async function fill(feed, source, size, signal) {
  const { partition } = source;
  while (!source.events.length && source.stop > source.first) {
    const start = Math.max(source.first, source.stop - size);
    const found = [];
    for (let next = start, before = -1; next < source.stop && next > before;) {
      before = next;
      const range = { [`cursor${partition}`]: feed.cursor(partition, next), [`until${partition}`]: feed.cursor(partition, source.stop) };
      for await (const event of feed.read({ ...range, pagesizehint: source.stop - next }, signal)) {
        if (event.next === undefined) found.push(event);
        else next = Math.max(next, event.next);
      }
    }
    source.events = found;
    source.stop = start;
  }
}
