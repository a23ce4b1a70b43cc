// The overview: is all well, how much goes through, and who is behind.
import { html, useMemo } from "../vendor/preact.js";
import { get, getAll, path, query } from "../core/api.js";
import { needs } from "../core/commands.js";
import * as format from "../core/format.js";
import { to } from "../core/routing.js";
import { history, labelsOf, OTHERS, metricsNamed, useAnswer, useMetrics, usePolled, useRights } from "../core/state.js";
import { findNearRetention, findTrouble } from "../parts/attention.js";
import { Chart } from "../parts/chart.js";
import { nameOf } from "../parts/consumers.js";
import { Badge, Card, Command, Failure, Figure, Loaded, Spark, Table, Text, Title } from "../parts/parts.js";

const PUBLISHED = ["penstock_events_appended_total"];
const READ = ["penstock_feed_events_served_total"];
const NOBODY = [];
/** More consumers than these are not asked for. */
const GROUPS_MAX = 10_000;
const TROUBLES_SHOWN = 12;
const RECENT_SECONDS = 300;
/** Consumers that lag by less are not compared with the retention of what they read. */
const LATE_SECONDS = 60;
/** The retention of so many event types is looked up: those of the consumers that lag most. */
const RETENTIONS_MAX = 300;
const RETENTION_KEPT_SECONDS = 600;
/** So many of the consumers that may be near the retention of an event type are looked at one by one. */
const NEAR_CHECKED = 50;
const LOOKED_UP_AT_ONCE = 6;

/** The first view. */
export function Overview() {
  const { administer, monitor } = useRights();
  const mayMonitor = monitor !== false;
  const metrics = useMetrics(2, { enabled: mayMonitor });
  const groups = usePolled((signal) => getAll(`/groups${query({ limit: 1000 })}`, GROUPS_MAX, { signal }), 5);
  const statistics = useAnswer(mayMonitor ? "/statistics" : null, 10);
  const health = useAnswer("/health/ready", 5);
  const version = useAnswer("/version");
  const sample = metrics.value;
  return html`
    <${Title} lead=${html`Penstock ${version.value?.version ?? ""} · ${status(health)}`}>Overview<//>
    <${Failure} error=${metrics.error} />
    <div class="stack">
      ${mayMonitor ? html`<${Figures} sample=${sample} groups=${groups.value} eventTypes=${statistics.value?.items} /><${Rates} sample=${sample} />` : html`<p class="message">Rates and totals need the right to monitor the hub, which this token does not have.</p>`}
      <div class="grid">
        ${mayMonitor && html`<${Attention} sample=${sample} groups=${groups.value ?? NOBODY} statistics=${statistics.value?.items} mayAdminister=${administer} />`}
        ${mayMonitor && html`<${Active} sample=${sample} />`}
        <${Card} title="Consumers most behind" span=${mayMonitor ? "half" : "wide"} flush more=${html`<a href=${to`/consumers`}>All consumers</a>`}>
          <${Loaded} answer=${groups}>${(found) => html`<${Behind} items=${found} />`}<//>
        <//>
      </div>
    </div>`;
}

function status(health) {
  if (health.error) return html`<${Badge} tone="bad">not ready: ${health.error.message}<//>`;
  return health.value ? html`<${Badge} tone="good">ready<//>` : html`<${Badge}>…<//>`;
}

/** Totals. Metrics have figures of a hundred event types and groups, so that these come from lists of all. */
function Figures({ sample, groups, eventTypes }) {
  const gauges = sample?.gauges ?? new Map();
  const rateOf = (prefixes) => history.rates(prefixes)[1].slice(-5);
  const mean = (values) => (values.length ? values.reduce((a, b) => a + b, 0) / values.length : null);
  const events = eventTypes?.reduce((sum, each) => sum + each.events, 0);
  const behind = groups && `${format.count(groups.filter((each) => each.gap > 0).length)} behind`;
  const started = gauges.get("process_start_time_seconds");
  const free = gauges.get("penstock_disk_free_bytes");
  return html`<div class="figures">
    <${Figure} name="Published" value=${format.rate(mean(rateOf(PUBLISHED)))} note="over the last 10 s" />
    <${Figure} name="Read" value=${format.rate(mean(rateOf(READ)))} note="over the last 10 s" />
    <${Figure} name="Events kept" value=${format.short(events)} note=${eventTypes && format.plural(eventTypes.length, "event type")} />
    <${Figure} name="Consumers" value=${groups?.length >= GROUPS_MAX ? `${format.count(GROUPS_MAX)} or more` : format.count(groups?.length)} note=${groups?.length >= GROUPS_MAX ? `of the first ${format.count(GROUPS_MAX)} ${behind}` : behind} />
    <${Figure} name="Database" value=${format.bytes(gauges.get("penstock_database_bytes"))} note=${free === undefined ? null : `${format.bytes(free)} free`} />
    <${Figure} name="This hub runs" value=${started ? format.duration(Date.now() / 1000 - started) : "–"} note="${format.bytes(gauges.get("process_resident_memory_bytes"))} of memory" />
  </div>`;
}

function Rates({ sample }) {
  const series = useMemo(() => {
    const [times, published] = history.rates(PUBLISHED);
    const [, read] = history.rates(READ);
    return { times, lines: [{ name: "Published", values: published }, { name: "Read", values: read }] };
  }, [sample]);
  return html`<${Card} title="Events per second" more=${html`<span class="quiet">of this hub process, last 15 minutes</span>`}>
    <${Chart} times=${series.times} series=${series.lines} label="Events per second" />
  <//>`;
}

function Attention({ sample, groups, statistics, mayAdminister }) {
  const near = useNearRetention(groups, statistics, mayAdminister);
  const found = useMemo(() => {
    const troubles = findTrouble(sample, groups, history.growth(RECENT_SECONDS));
    const reset = new Set(troubles.filter((each) => each.needsReset).map((each) => each.consumer[0]));
    return [...near.filter((each) => !reset.has(each.consumer[0])), ...troubles];
  }, [sample, groups, near]);
  const left = sample?.gauges.get("penstock_groups_left_out");
  const all = found.length + (sample?.gauges.get("penstock_parked_groups_left_out") ?? 0);
  return html`<${Card} title="Needs attention" flush more=${found.length ? html`<${Badge} tone=${found[0].tone}>${format.count(all)}<//>` : null}>
    ${sample === undefined
      ? html`<p class="empty">Measuring …</p>`
      : found.length === 0
        ? html`<p class="empty">Nothing: no parked, rejected or stuck events, and nobody has stopped.</p>`
        : html`<ul class="attention">${found.slice(0, TROUBLES_SHOWN).map((each, at) => html`<li key=${at}>
            <${Badge} tone=${each.tone}>${{ bad: "act", warn: "look", note: "note" }[each.tone]}<//>
            <strong><${Text}>${each.title}<//></strong>
            <div class="why">${each.why}${each.command && html`<${Command}>${each.command}<//>${needs(each.command) && html`<span class="quiet">${needs(each.command).slice(2)}</span>`}`}</div>
            <div class="act">${address(each) && html`<a class="button" href=${address(each)}>${each.label}</a>`}</div>
          </li>`)}${all > TROUBLES_SHOWN && html`<li key="more"><span></span><div class="quiet">and ${format.count(all - TROUBLES_SHOWN)} more</div></li>`}</ul>`}
    ${left > 0 && html`<p class="empty">Only the consumers with the oldest waiting events are checked: ${format.plural(left, "other")} ${left === 1 ? "is" : "are"} not.</p>`}
  <//>`;
}

/** Use what `findNearRetention` says of the consumers that are late. */
function useNearRetention(groups, statistics, mayAdminister) {
  const late = useMemo(() => groups.filter((each) => each.lag_seconds > LATE_SECONDS).sort((a, b) => b.lag_seconds - a.lag_seconds), [groups]);
  const sizes = useMemo(() => new Map((statistics ?? []).map((each) => [each.name, each])), [statistics]);
  const found = usePolled(
    async (signal) => {
      const names = [...new Set(late.flatMap((each) => each.event_types))].slice(0, RETENTIONS_MAX);
      const [eventTypes, standard] = await Promise.all([lookUpEventTypes(names, signal), mayAdminister ? look("/settings/retention", signal) : undefined]);
      const near = late.filter((each) => findNearRetention([each], eventTypes, { standard, sizes }).length).slice(0, NEAR_CHECKED);
      const details = await inTurns(near, (each) => look(path`/groups/${each.name}`, signal));
      return findNearRetention(details.filter(Boolean), eventTypes, { standard, sizes });
    },
    60,
    [mayAdminister, Boolean(statistics), late.map((each) => each.name).sort().join("\n")],
  );
  return found.value ?? NOBODY;
}

/** What `lookUpEventTypes` knows, and since when, by name. */
const definitions = new Map();

/** Return event types by name; one is looked up again after some minutes, and one that may not be seen is left out. */
async function lookUpEventTypes(names, signal) {
  const now = Date.now() / 1000;
  const unknown = names.filter((each) => !(definitions.get(each)?.at > now - RETENTION_KEPT_SECONDS));
  await inTurns(unknown, async (name) => definitions.set(name, { at: now, definition: await look(path`/event-types/${name}`, signal) }));
  return new Map(names.map((each) => [each, definitions.get(each).definition]));
}

/** Return what *work* returns for each of *items*, of which a few are worked on at a time. */
async function inTurns(items, work) {
  const found = [];
  for (let at = 0; at < items.length; at += LOOKED_UP_AT_ONCE) found.push(...(await Promise.all(items.slice(at, at + LOOKED_UP_AT_ONCE).map(work))));
  return found;
}

function look(target, signal) {
  return get(target, { signal }).catch(passMissing);
}

/** Return undefined for what is deleted, or not to be seen, since it was listed. */
function passMissing(error) {
  if (error.status === 403 || error.status === 404) return undefined;
  throw error;
}

function address({ consumer, place }) {
  if (consumer) return consumer[1] ? to`/consumers/${consumer[0]}/${consumer[1]}` : to`/consumers/${consumer[0]}`;
  return place ? to`/` + place.slice(1) : null;
}

function Active({ sample }) {
  const rows = useMemo(
    () => [...(sample?.counters ?? [])]
      .filter(([name]) => name.startsWith("penstock_events_appended_total{"))
      .map(([name, total]) => ({ name: labelsOf(name).event_type, total, now: history.rateOf(name, 30), values: history.rateSeries(name).slice(-60) }))
      .sort((a, b) => (b.now ?? 0) - (a.now ?? 0) || b.total - a.total)
      .slice(0, 8),
    [sample],
  );
  return html`<${Card} title="Event types by activity" span="half" flush more=${html`<a href=${to`/event-types`}>All event types</a>`}>
    <${Table} label="Event types by activity" rows=${rows} keyOf=${(row) => row.name} empty="Nothing was published since this hub began." columns=${[
      { name: "Event type", cell: (row) => (row.name === OTHERS ? html`<span class="quiet">all others</span>` : html`<a href=${to`/event-types/${row.name}`}><${Text} limit=${60}>${row.name}<//></a>`) },
      { name: "Now", number: true, cell: (row) => format.rate(row.now) },
      { name: "Since its start", number: true, cell: (row) => format.short(row.total) },
      { name: "Last minutes", cell: (row) => html`<${Spark} values=${row.values} label="Rate of ${row.name}" />` },
    ]} />
  <//>`;
}

function Behind({ items }) {
  const rows = [...items].sort((a, b) => (b.gap ?? 0) - (a.gap ?? 0)).slice(0, 8);
  return html`<${Table} label="Consumers most behind" rows=${rows} keyOf=${(row) => `${row.kind} ${row.name}`} empty="Nobody keeps a position here yet." columns=${[
    { name: "Consumer", cell: (row) => html`<a href=${to`/consumers/${row.name}`}><${Text} limit=${60}>${nameOf(row)}<//></a> <${Badge}>${row.kind}<//>` },
    { name: "Gap", number: true, cell: (row) => format.count(row.gap) },
    { name: "Lag", number: true, cell: (row) => format.duration(row.lag_seconds) },
  ]} />`;
}

