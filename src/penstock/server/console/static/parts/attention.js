// Finds what needs attention, and says in plain words what helps.
import { argument, duration, plural } from "../core/format.js";
import { metricsNamed } from "../core/state.js";
import { nameOf } from "./consumers.js";

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
        consumer: [labels.group], label: "Choose a position", command: `penstock groups show ${argument(labels.group)}`,
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
    }
  }
  for (const [labels, lost] of metricsNamed(counters, "penstock_overtaken_events_total")) {
    if (lost) {
      add("bad", `${nameFor(labels)} has lost ${plural(lost, "event")} of ${labels.event_type}`, "Retention deleted them before it had read them, since this hub began. It lags by more than the event type waits for.", {
        consumer: [labels.group], label: "Look", command: `penstock groups show ${argument(labels.group)}`,
      });
    }
  }
  const refusals = [409, 412].map((status) => `penstock_requests_total{method="POST",route="/event-types/{event_type}/partitions/{partition}/events",status="${status}"}`);
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

/** The share of an event type's retention that a consumer's lag may reach before it needs attention. */
const NEAR_RETENTION = 0.75;

/**
 * Return what needs attention since retention will soon delete events that a consumer has not read.
 *
 * @param {object[]} groups some of GET /groups, or of GET /groups/{name}, which tells the lag in each event type
 * @param {Map<string, object>} eventTypes by name: those that the groups read
 * @param {{retention_time: number | null}} [standard] the retention of event types that set none, if it is known
 */
export function findNearRetention(groups, eventTypes, standard) {
  const found = [];
  for (const group of groups) {
    for (const name of group.event_types) {
      const limit = limitOf(eventTypes.get(name), group.name, standard);
      const lag = lagIn(group, name);
      if (limit && lag > NEAR_RETENTION * limit) {
        found.push({
          tone: "bad", title: `${nameOf(group)} is near the retention of ${name}`,
          why: `It lags by ${duration(lag)}; events are kept for ${duration(limit)}. Start it, or keep events for longer.`,
          consumer: [group.name], label: "Why?", command: `penstock groups show ${argument(group.name)}`,
        });
      }
    }
  }
  return found;
}

/** For how many seconds an event type keeps events that a group has not read; 0 if their age does not matter. */
function limitOf(eventType, group, standard) {
  if (!eventType || eventType.cleanup_policy === "compact") return 0;
  const { retention_time: own, retention_wait: wait } = eventType.options ?? {};
  const millis = wait?.groups?.includes(group) ? wait.retention_time : (own ?? standard?.retention_time);
  return Number(millis ?? 0) / 1000;
}

function lagIn(group, eventType) {
  if (!group.positions) return group.lag_seconds;
  return Math.max(0, ...group.positions.filter((each) => each.event_type === eventType).map((each) => each.lag_seconds));
}

function labelText(labels) {
  const escape = (text) => text.replace(/\\/g, "\\\\").replace(/"/g, '\\"').replace(/\n/g, "\\n");
  return `{${Object.entries(labels).map(([name, value]) => `${name}="${escape(value)}"`).join(",")}}`;
}
