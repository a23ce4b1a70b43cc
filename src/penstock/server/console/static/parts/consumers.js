// What the views of consumers share: names, trends, and moving a consumer.
import { html } from "../vendor/preact.js";
import { get, path, send } from "../core/api.js";
import { offsetNumber } from "../core/backwards.js";
import * as format from "../core/format.js";
import { parseDuration } from "./definitions.js";
import { Badge } from "./parts.js";

const KEPT_SECONDS = 900;
const TREND_SECONDS = 60;
/** Points that lie further apart are not joined by a line: nobody measured in between. */
const HOLE_SECONDS = 180;

/** The name of a consumer for people: a subscription is its application and group, not its id. */
export function nameOf(row) {
  return row.kind === "subscription" && row.owning_application ? `${row.owning_application} / ${row.consumer_group}` : row.name;
}

/** The gaps and lags of consumers over the last quarter of an hour, and how much they handle, as long as the console is open. */
export class GapHistory {
  constructor() {
    /** @type {Map<string, {at: number, gap: number, lag: number, offsets: number}[]>} `offsets` is their sum */
    this.known = new Map();
    /** @type {Map<string, number>} when each was moved: what was before says nothing of its pace */
    this.movedAt = new Map();
  }

  /** Add groups of GET /groups or GET /groups/{name}. */
  add(groups) {
    const now = Date.now() / 1000;
    for (const { name, gap, lag_seconds: lag, offset_sum: offsets } of groups) {
      if (gap === null || gap === undefined) continue;
      const kept = (this.known.get(name) ?? []).filter((each) => each.at > now - KEPT_SECONDS);
      if (kept.length && offsets < kept.at(-1).offsets) this.movedAt.set(name, now);
      this.known.set(name, [...kept, { at: now, gap, lag, offsets }]);
    }
  }

  /** Forget the pace of a consumer that is moved now. */
  move(name) {
    this.movedAt.set(name, Date.now() / 1000);
  }

  /** How fast a gap grows, in events per second; negative if it shrinks, null if that is not known yet. */
  trendOf(name) {
    return this.change(name, "gap");
  }

  /** How many events a consumer handles per second, by the offsets that it commits; null if that is not known yet. */
  rateOf(name) {
    return this.change(name, "offsets");
  }

  change(name, member) {
    const samples = this.known.get(name) ?? [];
    const last = samples.at(-1);
    const from = Math.max((last?.at ?? 0) - TREND_SECONDS, this.movedAt.get(name) ?? 0);
    const first = samples.find((each) => each.at >= from);
    return !last || !first || first === last ? null : (last[member] - first[member]) / (last.at - first.at);
  }

  /**
   * What a hub has kept of a consumer, and then what the console has seen of it.
   *
   * @param {{at: string, gap: number, lag_seconds: number}[]} kept as GET /groups/{group}/lag tells it
   * @returns {{times: number[], gaps: (number | null)[], lags: (number | null)[]}} times in seconds since 1970
   */
  join(name, kept) {
    const before = kept.map(({ at, gap, lag_seconds: lag }) => ({ at: Date.parse(at) / 1000, gap, lag }));
    const from = before.at(-1)?.at ?? 0;
    const points = [];
    for (const each of [...before, ...(this.known.get(name) ?? []).filter(({ at }) => at > from)]) {
      const last = points.at(-1);
      if (last && each.at - last.at > HOLE_SECONDS) points.push({ at: (last.at + each.at) / 2, gap: null, lag: null });
      points.push(each);
    }
    return { times: points.map(({ at }) => at), gaps: points.map(({ gap }) => gap), lags: points.map(({ lag }) => lag) };
  }
}

/** What a gap does, and when it will be closed; *rate* is what the consumer handles. */
export function Trend({ gap, change, rate }) {
  if (gap === null || gap === undefined) return html`<span class="quiet">has not begun</span>`;
  if (gap === 0) return html`<${Badge} tone="good">caught up<//>`;
  if (change === null) return html`<span class="quiet">measuring …</span>`;
  if (change < -0.05 && rate === 0) return html`<${Badge} tone="warn">shrinks by deletion<//>`;
  if (change < -0.05) return html`<${Badge} tone="note">caught up in ${format.duration(gap / -change)}<//>`;
  if (change > 0.05) return html`<${Badge} tone="warn">falls behind by ${format.rate(change)}<//>`;
  return html`<${Badge}>steady<//>`;
}

/**
 * Tell where a reset would move a consumer, without moving it.
 *
 * @param {object} group as GET /groups/{name} tells it
 * @param {{to: string, offsets: {event_type: string, partition: number, offset: number}[]}} choice `to` is earliest,
 *   latest, a time or a duration ago; else `offsets`
 * @returns {Promise<{event_type: string, partition: number, slice: string, came_from: number | null, offset: number, head: number}[]>}
 *   `came_from` is null where it has no position
 */
export async function previewReset(group, choice) {
  if (group.kind !== "subscription") {
    const answer = await send("PATCH", path`/groups/${group.name}/positions`, { ...resetOf(choice), dry_run: true });
    return answer.items;
  }
  const items = await cursorsOf(group, choice);
  const answer = await send("PATCH", path`/subscriptions/${group.name}/cursors`, { items, dry_run: true });
  const known = new Map(group.positions.map((each) => [`${each.event_type} ${each.partition}`, each]));
  return answer.items.map((each) => {
    const partition = Number(each.partition);
    const position = known.get(`${each.event_type} ${partition}`);
    return { event_type: each.event_type, partition, slice: "", came_from: each.came_from ? offsetNumber(each.came_from) + 1 : null, offset: offsetNumber(each.offset) + 1, head: position?.head ?? null };
  });
}

/** Move a consumer to what `previewReset` has told. */
export async function applyReset(group, moved, reason) {
  if (group.kind !== "subscription") {
    const items = moved.map(({ event_type, partition, slice, offset }) => ({ event_type, partition, offset, ...(slice ? { slice } : {}) }));
    return send("PATCH", path`/groups/${group.name}/positions`, { items, reason });
  }
  const items = moved.map(({ event_type, partition, offset }) => ({ event_type, partition: String(partition), offset: offset ? String(offset - 1) : "BEGIN" }));
  return send("PATCH", path`/subscriptions/${group.name}/cursors`, { items, reason });
}

function resetOf({ to, offsets }) {
  return to ? { to } : { items: offsets };
}

async function cursorsOf(group, { to, offsets }) {
  if (!to) return offsets.map(({ event_type, partition, offset }) => ({ event_type, partition: String(partition), offset: offset ? String(offset - 1) : "BEGIN" }));
  const found = [];
  for (const name of group.event_types) {
    if (to === "earliest" || to === "latest") {
      const partitions = await get(path`/event-types/${name}/partitions`);
      found.push(...partitions.map(({ partition }) => ({ event_type: name, partition, offset: to === "earliest" ? "BEGIN" : "END" })));
    } else {
      const cursors = await get(`${path`/event-types/${name}/cursors`}?at=${encodeURIComponent(timeOf(to))}`);
      found.push(...cursors.map(({ partition, offset }) => ({ event_type: name, partition, offset: offset.endsWith("--1") ? "BEGIN" : offset })));
    }
  }
  return found;
}

/** The time that a text names: a time itself, or a duration ago such as 1h. */
function timeOf(text) {
  const millis = parseDuration(text);
  return Number.isNaN(millis) ? text : new Date(Date.now() - millis).toISOString();
}
