// Finds what needs attention, and says in plain words what helps.
import { argument, bytes as formatBytes, count, duration, plural } from "../core/format.js";
import { metricsNamed } from "../core/state.js";
import { nameOf } from "./consumers.js";

/** What idempotent producers publish by: single batches, and batches made of uploads. */
const PRODUCER_ROUTES = [
  'method="POST",route="/event-types/{event_type}/partitions/{partition}/events"',
  'method="PUT",route="/event-types/{event_type}/producers/{group}/batches/{batch}"',
];
/** The lag from which a consumer that does not commit counts as stuck, in seconds. */
const STUCK_SECONDS = 300;

/**
 * Return what needs attention in a sample of the hub's metrics, the worst first.
 *
 * @param {object[]} groups those of GET /groups, by which consumers are named
 * @param {Map<string, number>} growth what counters have grown by in the last minutes
 * @returns {{tone: string, title: string, why: string, place?: string, parts?: string[], label?: string, command?: string}[]}
 */
export function findTrouble(sample, groups = [], growth = new Map()) {
  if (!sample) return [];
  const { gauges, counters } = sample;
  const found = [];
  const one = (name) => gauges.get(name) ?? 0;
  const add = (tone, title, why, more = {}) => found.push({ tone, title, why, ...more });
  const names = new Map(groups.map((each) => [each.name, nameOf(each)]));
  const nameFor = ({ group, application }) => names.get(group) ?? (application ? `${application} / ${group}` : group);
  if (gauges.has("penstock_database_up") && !one("penstock_database_up")) {
    add("bad", "The database does not answer", "The hub cannot publish or read. Requests fail until the database is back.", { command: "penstock doctor" });
  }
  for (const [labels, parked] of metricsNamed(gauges, "penstock_parked_keys")) {
    if (parked) {
      add("bad", `${nameFor(labels)}: ${plural(parked, "parked key")}`, "Events of these keys failed too often. The consumer goes on without them; they wait for a retry or a skip.", {
        consumer: [labels.group, "parked"], label: "Look at them", command: `penstock groups parked list ${argument(labels.group)}`,
      });
    }
  }
  for (const [labels, stuck] of metricsNamed(gauges, "penstock_group_stuck_partitions")) {
    if (stuck) {
      add("bad", `${nameFor(labels)} cannot go on in ${plural(stuck, "partition")}`, "Its position is no longer valid: events after it were removed, or the event type was made anew. It needs a reset.", {
        needsReset: true, consumer: [labels.group], label: "Choose a position", command: `penstock groups show ${argument(labels.group)}`,
      });
    }
  }
  for (const [labels, gap] of metricsNamed(gauges, "penstock_group_gap_events")) {
    const suffix = labelText(labels);
    const age = gauges.get(`penstock_group_commit_age_seconds${suffix}`);
    const lag = gauges.get(`penstock_group_lag_seconds${suffix}`);
    if (gap && age > STUCK_SECONDS && lag > STUCK_SECONDS) {
      add("warn", `${nameFor(labels)} has not moved for ${duration(age)}`, `${plural(gap, "event")} wait for it; the oldest has waited ${duration(lag)}. Is its process running?`, {
        consumer: [labels.group], label: "Why?", command: `penstock groups show ${argument(labels.group)}`,
      });
    } else if (gap && gauges.get(`penstock_group_standing_seconds${suffix}`) > STUCK_SECONDS && !gauges.get(`penstock_group_stuck_partitions${suffix}`)) {
      add("warn", `${nameFor(labels)} stands still in a partition`, `It has committed nothing there for ${duration(gauges.get(`penstock_group_standing_seconds${suffix}`))}, while it goes on in others: an event may fail again and again.`, {
        consumer: [labels.group], label: "Which?", command: `penstock groups show ${argument(labels.group)}`,
      });
    }
  }
  for (const [labels, lost] of metricsNamed(counters, "penstock_overtaken_events_total")) {
    if (lost) {
      add("bad", `${nameFor(labels)} has lost ${plural(lost, "event")} of ${labels.event_type}`, "Retention deleted them before it had read them, since this hub began. It lags by more than the event type waits for.", {
        consumer: [labels.group], label: "Look", command: `penstock groups show ${argument(labels.group)}`,
      });
    }
  }
  const refusals = PRODUCER_ROUTES.flatMap((route) => [409, 412].map((status) => `penstock_requests_total{${route},status="${status}"}`));
  const fenced = refusals.reduce((total, each) => total + (counters.get(each) ?? 0), 0);
  if (fenced) {
    add(refusals.some((each) => growth.get(each)) ? "warn" : "note", `${plural(fenced, "publish", "publishes")} of idempotent producers refused since this hub began`, "A producer was fenced, since another took its group over, or its sequence numbers have a gap. Two processes may run as one group.", {
      place: "/producers", label: "See the producers",
    });
  }
  const failed = shareOfErrors(growth);
  if (failed > 0.05) {
    add("bad", `${Math.round(failed * 100)} % of the requests fail with an error of the hub`, "In the last minutes. Its log has a line for each, with the reason.", { command: "penstock doctor" });
  }
  if (one("penstock_rejected_rows")) {
    add("bad", `${plural(one("penstock_rejected_rows"), "row")} of the outbox rejected`, "A service wrote them, and the hub cannot publish them: their reasons say why.", {
      place: "/outbox", label: "See the reasons", command: "penstock rejected list",
    });
  }
  if (one("penstock_outbox_oldest_seconds") > 30) {
    add("warn", `The outbox waits for ${duration(one("penstock_outbox_oldest_seconds"))}`, "Committed rows are not in the log yet: a long transaction may hold them back.", { place: "/outbox", label: "Look" });
  }
  if (one("penstock_expired_events_left") > 0) {
    add("note", `${plural(one("penstock_expired_events_left"), "expired event")} still to be deleted`, "Retention is at work, or behind.", { command: "penstock doctor" });
  }
  const free = gauges.get("penstock_disk_free_bytes");
  const size = gauges.get("penstock_disk_size_bytes");
  if (free !== undefined && size && free / size < 0.1) {
    add(free / size < 0.03 ? "bad" : "warn", "The disk is nearly full", "When it is full, nothing can be published. Shorten retention, or move old events to the cold tier.", { place: "/settings", label: "Retention" });
  }
  const order = { bad: 0, warn: 1, note: 2 };
  return found.sort((a, b) => order[a.tone] - order[b.tone]);
}

/** The share of requests that the hub answered with a status from 500 on; 0 of few. */
function shareOfErrors(counters) {
  let all = 0;
  let failed = 0;
  for (const [labels, value] of metricsNamed(counters, "penstock_requests_total")) {
    all += value;
    if (labels.status >= "500") failed += value;
  }
  return all < 100 ? 0 : failed / all;
}

/** The share of an event type's retention that what a consumer has to read may reach before it needs attention. */
const NEAR_RETENTION = 0.75;
/** Retention by size deletes events soon where an event type has this share of its bytes. */
const NEARLY_FULL = 0.9;

/**
 * Return what needs attention since retention will soon delete events that a consumer has not read.
 *
 * @param {object[]} groups some of GET /groups, or of GET /groups/{name}, which tells gap and lag in each event type
 * @param {Map<string, object>} eventTypes by name: those that the groups read
 * @param {{standard?: {retention_time: number | null, retention_bytes: number | null}, sizes?: Map<string, {events: number, bytes: number}>}} [known]
 *   the retention of event types that set none, and how much each event type has
 */
export function findNearRetention(groups, eventTypes, { standard, sizes } = {}) {
  const found = [];
  for (const group of groups) {
    for (const name of group.event_types) {
      const { seconds, bytes } = limitsOf(eventTypes.get(name), group.name, standard);
      const { gap, lag } = behindIn(group, name);
      const size = sizes?.get(name);
      let why = "";
      if (seconds && lag > NEAR_RETENTION * seconds) {
        why = lag > seconds
          ? `It lags by ${duration(lag)}, and events are kept for ${duration(seconds)}: those that it has not read are being deleted.`
          : `It lags by ${duration(lag)}; events are kept for ${duration(seconds)}.`;
      } else if (bytes && size?.bytes > NEARLY_FULL * bytes && gap > NEAR_RETENTION * size.events) {
        why = `It has ${plural(gap, "event")} of ${count(size.events)} to read; the newest ${formatBytes(bytes)} are kept.`;
      }
      if (why) {
        found.push({
          tone: "bad", title: `${nameOf(group)} is near the retention of ${name}`, why: `${why} See that it goes on, or keep events for longer.`,
          consumer: [group.name], label: "Why?", command: `penstock groups show ${argument(group.name)}`,
        });
      }
    }
  }
  return found;
}

/** For how many seconds, and up to how many bytes, an event type keeps events that a group has not read; 0 if that does not matter. */
function limitsOf(eventType, group, standard) {
  if (!eventType || eventType.cleanup_policy === "compact") return { seconds: 0, bytes: 0 };
  const options = eventType.options ?? {};
  const own = options.retention_wait?.groups?.includes(group)
    ? options.retention_wait
    : { retention_time: options.retention_time ?? standard?.retention_time, retention_bytes: options.retention_bytes ?? standard?.retention_bytes };
  return { seconds: Number(own.retention_time ?? 0) / 1000, bytes: Number(own.retention_bytes ?? 0) };
}

function behindIn(group, eventType) {
  if (!group.positions) return { gap: group.gap, lag: group.lag_seconds };
  const own = group.positions.filter((each) => each.event_type === eventType);
  return { gap: own.reduce((sum, each) => sum + (each.gap ?? 0), 0), lag: Math.max(0, ...own.map((each) => each.lag_seconds)) };
}

function labelText(labels) {
  const escape = (text) => text.replace(/\\/g, "\\\\").replace(/"/g, '\\"').replace(/\n/g, "\\n");
  return `{${Object.entries(labels).map(([name, value]) => `${name}="${escape(value)}"`).join(",")}}`;
}
