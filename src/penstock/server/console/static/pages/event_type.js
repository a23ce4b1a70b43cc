// One event type: what it is, what it has, who publishes and who reads.
import { html, useMemo, useRef } from "../vendor/preact.js";
import { get, getAll, path, query, readLines, request } from "../core/api.js";
import * as format from "../core/format.js";
import { to } from "../core/routing.js";
import { usePolled, useAnswer, useRights, useRightsOn } from "../core/state.js";
import { AccessWords, AUDIENCES, CATEGORIES, describeRetention, exactBytes, Findings, MODES, POLICIES, STRATEGIES, useDefinitionCheck } from "../parts/definitions.js";
import { EventTypeHead, listConsumers } from "../parts/event_type_head.js";
import { Badge, Card, Copy, Failure, Figure, Loaded, Source, Table, Text, Time, Title } from "../parts/parts.js";
import { SchemaTab } from "./event_type_schema.js";
import { SettingsTab } from "./event_type_settings.js";

const TABS = { overview: OverviewTab, schema: SchemaTab, consumers: ConsumersTab, producers: ProducersTab, settings: SettingsTab };
/** Of so many partitions the last events and the files of the cold tier are looked up. */
const PARTITIONS_LOOKED_UP = 32;
const REQUESTS_AT_ONCE = 6;

/** One event type: *tab* is one of overview, schema, consumers, producers, settings. */
export function EventType({ name, tab = "overview" }) {
  const rights = useRightsOn("event_type", name);
  const answer = useAnswer(path`/event-types/${name}`, 30);
  const View = Object.hasOwn(TABS, tab) ? TABS[tab] : null;
  if (answer.error?.status === 404 && answer.value === undefined) {
    return html`<${Title} crumbs=${html`<a href=${to`/event-types`}>Event types</a>`}>${format.line(name)}<//>
      <div class="message warn"><strong>There is no such event type.</strong><p>Was it deleted, or is its name spelled otherwise? <a href=${to`/event-types` + query({ q: name })}>Search for it</a>.</p></div>`;
  }
  const description = answer.value && describe(answer.value);
  return html`
    <${EventTypeHead} name=${name} rights=${rights} lead=${description && html`<${Text} limit=${500}>${description}<//>`}
      buttons=${html`<a class="button" href=${to`/event-types/${name}/events`}>Browse events</a>`} />
    ${View
      ? html`<${Loaded} answer=${answer}>${(definition) => html`<${View} name=${name} definition=${definition} rights=${rights} refresh=${answer.refresh} />`}<//>`
      : html`<p class="message warn">There is no page <code>${format.line(tab, 60)}</code> of an event type.</p>`}`;
}

function describe(definition) {
  if (definition.annotations?.description) return definition.annotations.description;
  try {
    return JSON.parse(definition.schema.schema).description ?? "";
  } catch {
    return "";
  }
}

/** Return the number of a Nakadi offset: "001-0001-000000000000000014" → 14. */
function offsetOf(text) {
  return Number(/-(-?\d+)$/.exec(text)?.[1] ?? text);
}

function OverviewTab({ name, definition, rights }) {
  const { administer } = useRights();
  const heads = useRef([]);
  const partitions = usePolled(async (signal) => {
    const found = (await get(path`/event-types/${name}/partitions`, { signal })).map((each) => ({
      partition: Number(each.partition), oldest: offsetOf(each.oldest_available_offset), newest: offsetOf(each.newest_available_offset),
    }));
    const at = Date.now() / 1000;
    heads.current = [...heads.current, { at, newest: new Map(found.map((each) => [each.partition, each.newest])) }].filter((each) => each.at > at - 30);
    return found;
  }, 2, [name]);
  const statistics = usePolled(async (signal) => (await get("/statistics", { signal })).items.find((each) => each.name === name), 15, [name]);
  const consumers = useAnswer(path`/event-types/${name}/consumers`, 15);
  const mayLook = rights.read && definition.partition_count <= PARTITIONS_LOOKED_UP;
  const last = usePolled((signal) => (mayLook ? readLastTimes(name, definition.partition_count, signal) : Promise.resolve(undefined)), 30, [name, mayLook]);
  const cold = usePolled((signal) => (mayLook ? readColdRanges(name, definition.partition_count, signal) : Promise.resolve(undefined)), 0, [name, mayLook]);
  const usual = useAnswer(administer ? "/settings/retention" : null);
  const rows = useMemo(() => (partitions.value ?? []).map((each) => ({
    ...each, events: each.newest - each.oldest + 1, rate: rateOf(heads.current, each.partition), ...seenTime(heads.current, each.partition, last.value),
    cold: cold.value?.ranges.get(each.partition),
  })), [partitions.value, last.value, cold.value]);
  const total = (of) => (rows.length ? rows.reduce((sum, each) => sum + (of(each) ?? 0), 0) : undefined);
  const meanBytes = statistics.value?.events ? statistics.value.bytes / statistics.value.events : null;
  const newest = [...rows.map((each) => each.last), statistics.value?.newest_at && Date.parse(statistics.value.newest_at)].filter(Boolean);
  return html`<div class="stack">
    <div class="figures">
      <${Figure} name="Events" value=${format.short(total((each) => each.events))} note=${format.plural(definition.partition_count, "partition")} />
      <${Figure} name="Size" value=${format.bytes(statistics.value?.bytes)} note="of data, as measured" />
      <${Figure} name="Published now" value=${rows.some((each) => each.rate !== null) ? format.rate(total((each) => each.rate)) : "–"} note="over the last 30 s" />
      <${Figure} name="Last event" value=${newest.length ? format.ago(Math.max(...newest)) : "–"} />
      <${Figure} name="Consumers" value=${format.count(consumers.value?.items.length)} note=${html`<a href=${to`/event-types/${name}/consumers`}>Who reads?</a>`} />
    </div>
    <${Failure} error=${partitions.error} />
    <div class="grid">
      <${Card} title="Definition" span="half" more=${rights.admin && html`<a href=${to`/event-types/${name}/settings`}>Change</a>`}><${Facts} definition=${definition} usual=${usual.value ?? undefined} /><//>
      <${Card} title="Retention and old events" span="half" more=${rights.admin && html`<a href=${`${to`/event-types/${name}/settings`}#retention`}>Change</a>`}>
        <p>${describeRetention(definition, usual.value ?? undefined)}</p>
        <p>${describeCold(name, cold.value, mayLook)}</p>
        ${cold.value?.location && html`<p><a href=${to`/cold-tier`}>The cold tier</a></p>`}
        <h3>Access</h3>
        <${AccessWords} authorization=${definition.authorization} />
        ${rights.admin && html`<p class="after"><a class="button" href=${`${to`/event-types/${name}/settings`}#access`}>Give access</a></p>`}
      <//>
      <${Card} title="Partitions" flush more=${html`<a href=${to`/event-types/${name}/events`}>Browse events</a>`}>
        <${Table} keep="" label="Partitions" rows=${rows} keyOf=${(row) => row.partition} order=${{ name: "Partition" }} empty=${partitions.value ? "It has no partitions." : "Loading …"} columns=${[
          { name: "Partition", value: (row) => row.partition, cell: (row) => html`<a href=${to`/event-types/${name}/events` + query({ partition: row.partition })}>${row.partition}</a>` },
          { name: "Oldest offset", number: true, value: (row) => row.oldest, cell: (row) => format.count(row.oldest) },
          { name: "Newest offset", number: true, value: (row) => row.newest, cell: (row) => (row.newest < 0 ? "–" : format.count(row.newest)) },
          { name: "Events", number: true, value: (row) => row.events, cell: (row) => format.count(row.events) },
          { name: "Size, about", number: true, cell: (row) => format.bytes(meanBytes && row.events * meanBytes) },
          ...(cold.value?.location ? [{ name: "In files", number: true, cell: (row) => format.count(row.cold?.events ?? 0) }] : []),
          { name: "Last event", value: (row) => row.last, cell: (row) => (row.last ? html`<${Time} value=${row.last} relative />` : html`<span class="quiet">${row.events ? "–" : row.newest < 0 ? "none yet" : "removed"}</span>`) },
          { name: "Now", number: true, value: (row) => row.rate, cell: (row) => format.rate(row.rate) },
        ]} />
      <//>
      ${rights.admin && html`<${Guidelines} name=${name} definition=${definition} />`}
      <${Card} title="As JSON" more=${html`<${Copy} text=${() => JSON.stringify(definition, null, 2)}>Copy<//>`}>
        <details><summary>The whole definition</summary><${Source} text=${JSON.stringify(definition, null, 2)} /></details>
      <//>
    </div>
  </div>`;
}

function Facts({ definition }) {
  const keys = definition.partition_key_fields;
  const paths = (list) => list.map((each, at) => html`${at > 0 && ", "}<code>${format.line(each, 120)}</code>`);
  const labels = Object.entries(definition.labels ?? {});
  const notes = Object.entries(definition.annotations ?? {}).filter(([key]) => key !== "description");
  return html`<dl class="facts">
    <dt>Owner</dt><dd>${definition.owning_application ? html`<${Text}>${definition.owning_application}<//>` : html`<span class="quiet">nobody</span>`}</dd>
    <dt>Category</dt><dd><${Badge}>${definition.category}<//> ${CATEGORIES[definition.category]}</dd>
    <dt>Partitions</dt><dd>${definition.partition_count}, chosen by <${Badge}>${definition.partition_strategy}<//> ${STRATEGIES[definition.partition_strategy]}</dd>
    ${keys.length > 0 && html`<dt>Key</dt><dd>${paths(keys)}</dd>`}
    ${definition.ordering_key_fields.length > 0 && html`<dt>Ordered by</dt><dd>${paths(definition.ordering_key_fields)}</dd>`}
    <dt>Cleanup</dt><dd><${Badge}>${definition.cleanup_policy.replaceAll("_", " ")}<//> ${POLICIES[definition.cleanup_policy]}</dd>
    <dt>Schema</dt><dd><a href=${to`/event-types/${definition.name}/schema`}>version ${definition.schema.version}</a>, changed <${Time} value=${definition.schema.created_at} relative /></dd>
    <dt>Compatibility</dt><dd><${Badge}>${definition.compatibility_mode}<//> ${MODES[definition.compatibility_mode]}${definition.options?.evolution === "consumers" && "; also removed optional fields and enum values"}</dd>
    ${definition.options?.publishing === "exactly-once" && html`<dt>Publishing</dt><dd><${Badge} tone="note">exactly once<//> from the outbox and idempotent producers alone</dd>`}
    ${definition.audience && html`<dt>Audience</dt><dd>${AUDIENCES.includes(definition.audience) ? definition.audience : format.line(definition.audience)}</dd>`}
    ${definition.max_event_bytes && html`<dt>Largest event</dt><dd>${exactBytes(definition.max_event_bytes)}</dd>`}
    ${labels.length > 0 && html`<dt>Labels</dt><dd class="row">${labels.map(([key, value]) => html`<${Badge}><bdi>${format.line(`${key}=${value}`, 120)}</bdi><//>`)}</dd>`}
    ${notes.map(([key, value]) => html`<dt><${Text} limit=${60}>${key}<//></dt><dd><${Text} limit=${400}>${value}<//></dd>`)}
    <dt>Created</dt><dd><${Time} value=${definition.created_at} /></dd>
    <dt>Changed</dt><dd><${Time} value=${definition.updated_at} /> · <a href=${to`/audit-log` + query({ resource: definition.name })}>its changes</a></dd>
  </dl>`;
}

function Guidelines({ name, definition }) {
  const { partition_count: _, created_at: __, updated_at: ___, ...draft } = definition;
  const check = useDefinitionCheck(name, draft);
  return html`<${Card} title="Event guidelines" more=${check.taken && (check.warnings.length ? html`<${Badge} tone="warn">${check.warnings.length}<//>` : html`<${Badge} tone="good">kept<//>`)}>
    ${check.error ? html`<${Failure} error=${check.error} />` : check.checking ? html`<p class="quiet">Checking …</p>` : check.warnings.length
      ? html`<${Findings} warnings=${check.warnings} /><p class="quiet">To break one on purpose, add the annotation <code>penstock.waiver/GUIDELINE</code> with the reason in the settings.</p>`
      : html`<p class="quiet">The definition keeps all guidelines that can be checked, or waives them with a reason.</p>`}
  <//>`;
}

function rateOf(heads, partition) {
  const last = heads.at(-1);
  const first = heads[0];
  if (!last || first === last) return null;
  return Math.max(0, (last.newest.get(partition) - (first.newest.get(partition) ?? -1)) / (last.at - first.at));
}

/** When the last event of a partition came: as the hub tells, or later if the newest offset was seen to rise. */
function seenTime(heads, partition, known) {
  let seen = known?.get(partition) ?? null;
  for (let at = 1; at < heads.length; at += 1) {
    if (heads[at].newest.get(partition) > heads[at - 1].newest.get(partition)) seen = Math.max(seen ?? 0, heads[at].at * 1000);
  }
  return { last: seen };
}

/** Read when the last event of each partition was received, in milliseconds. */
async function readLastTimes(name, count, signal) {
  const all = [...Array(count).keys()];
  const read = (starts, more) => request("GET", path`/feeds/${name}` + query({ n: count, ...Object.fromEntries(starts.map(([each, cursor]) => [`cursor${each}`, cursor])), ...more }),
    { accept: "application/x-ndjson", signal });
  const starts = [];
  for await (const line of readLines(await read(all.map((each) => [each, "_last"]), { pagesizehint: 0 }))) {
    const next = Number(/\d+$/.exec(line.cursor ?? "")?.[0] ?? 0);
    if (next > 0) starts.push([line.partition, line.cursor.replace(/\d+$/, String(next - 1))]);
  }
  const times = new Map();
  if (!starts.length) return times;
  for await (const line of readLines(await read(starts, { pagesizehint: 2 * count, details: 1 }))) {
    if (line.details) times.set(line.partition, line.details.received_at.at(-1) / 1000);
    if (times.size === starts.length) break;
  }
  return times;
}

/** Read which events are in files of the cold tier; `location` is null without one. */
async function readColdRanges(name, count, signal) {
  const ranges = new Map();
  let location = null;
  for (let partition = 0; partition < count; partition += 1) {
    let offset = 0;
    for (;;) {
      const page = await get(path`/event-types/${name}/cold-files` + query({ partition, offset }), { signal });
      location = page.location;
      if (!location && !page.items.length) return { location, ranges };
      for (const file of page.items) {
        const range = ranges.get(partition) ?? { start: file.start, from: file.received_from, events: 0, files: 0, bytes: 0 };
        ranges.set(partition, { ...range, stop: file.stop, to: file.received_to, events: range.events + file.events, files: range.files + 1, bytes: range.bytes + file.file_bytes });
      }
      if (page.items.length < 100) break;
      offset = page.items.at(-1).stop;
    }
  }
  return { location, ranges };
}

function describeCold(name, cold, mayLook) {
  if (!mayLook) return html`<span class="quiet">Which of its events are in files, <a href=${to`/cold-tier` + query({ event_type: name })}>the cold tier</a> tells.</span>`;
  if (!cold) return html`<span class="quiet">Looking for files of the cold tier …</span>`;
  const ranges = [...cold.ranges.values()];
  if (!ranges.length) return cold.location ? "None of its events are in the cold tier yet." : html`<span class="quiet">This hub has no cold tier: all events are in the database.</span>`;
  const sum = (of) => ranges.reduce((total, each) => total + of(each), 0);
  const from = ranges.map((each) => each.from).sort()[0];
  const until = ranges.map((each) => each.to).sort().at(-1);
  return html`${format.plural(sum((each) => each.events), "event")} of <${Time} value=${from} /> to <${Time} value=${until} /> are in ${format.plural(sum((each) => each.files), "file")} of the cold tier (${format.bytes(sum((each) => each.bytes))}). Readers do not notice.`;
}

function ConsumersTab({ name }) {
  const answer = usePolled((signal) => listConsumers(name, signal), 5, [name]);
  return html`<${Card} title="Consumers" flush more=${html`<a href=${to`/consumers`}>All consumers</a>`}>
    <${Loaded} answer=${answer}>${(rows) => html`<${Table} keep="" label="Consumers of ${name}" rows=${rows} keyOf=${(row) => `${row.kind} ${row.group}`} order=${{ name: "Gap", down: true }}
      empty="Nobody keeps a position here. Readers that keep their cursors themselves are not known to the hub." columns=${[
        { name: "Consumer", value: (row) => row.label, cell: (row) => html`<a href=${to`/consumers/${row.group}`}><${Text} limit=${80}>${row.label}<//></a>` },
        { name: "Kind", value: (row) => row.kind, cell: (row) => html`<${Badge}>${row.kind}<//>` },
        { name: "Belongs to", value: (row) => row.owner ?? row.owning_application, cell: (row) => html`<${Text} limit=${60}>${row.owner ?? row.owning_application ?? "–"}<//>` },
        { name: "Last commit", value: (row) => row.last_commit, cell: (row) => html`<${Time} value=${row.last_commit} relative />` },
        { name: "Gap", number: true, value: (row) => row.gap, cell: (row) => html`${format.count(row.gap)}${row.event_types > 1 && html` <span class="quiet">in ${row.event_types} event types</span>`}` },
        { name: "Lag", number: true, value: (row) => row.lag_seconds, cell: (row) => format.duration(row.lag_seconds) },
      ]} />`}<//>
  <//>`;
}

function ProducersTab({ name, definition }) {
  const callers = useAnswer(path`/event-types/${name}/producers`, 30);
  const idempotent = usePolled((signal) => listIdempotent(name, definition.partition_count, signal), definition.partition_count <= PARTITIONS_LOOKED_UP ? 10 : 0, [name, definition.partition_count]);
  return html`<div class="stack">
    <${Card} title="Callers" flush more=${html`<span class="quiet">that published in the last 30 days</span>`}>
      <${Loaded} answer=${callers}>${({ items }) => html`<${Table} keep="callers-" label="Callers that publish" rows=${items} keyOf=${(row) => row.caller} order=${{ name: "Last seen", down: true }}
        empty="None is known. A hub knows callers if it authenticates them; what comes through the outbox is not counted." columns=${[
          { name: "Caller", value: (row) => row.caller, cell: (row) => html`<${Text} limit=${80}>${row.caller}<//>` },
          { name: "Last seen", value: (row) => row.last_seen, cell: (row) => html`<${Time} value=${row.last_seen} relative />` },
        ]} />`}<//>
    <//>
    <${Card} title="Idempotent producers" flush more=${html`<a href=${to`/producers`}>All producers</a>`}>
      <${Loaded} answer=${idempotent}>${(rows) => html`<${Table} keep="" label="Idempotent producers" rows=${rows} keyOf=${(row) => `${row.partition} ${row.producer_group}`} order=${{ name: "Producer" }}
        empty="Nobody numbers its events here. Idempotent producers publish each event once, however often they retry." columns=${[
          { name: "Producer", value: (row) => row.producer_group, cell: (row) => html`<${Text} limit=${80}>${row.producer_group}<//>` },
          { name: "Partition", number: true, value: (row) => row.partition },
          { name: "Epoch", number: true, value: (row) => row.epoch, cell: (row) => format.count(row.epoch) },
          { name: "Last sequence", number: true, value: (row) => row.last_published_sequence, cell: (row) => format.count(row.last_published_sequence) },
          { name: "Last offset", number: true, value: (row) => row.last_offset, cell: (row) => format.count(row.last_offset) },
          { name: "Last change", value: (row) => row.updated_at, cell: (row) => html`<${Time} value=${row.updated_at} relative />` },
          { name: "State", cell: (row) => (row.expired ? html`<${Badge} tone="warn" title="It has to claim a new epoch before it goes on.">expired<//>` : html`<${Badge} tone="good">active<//>`) },
        ]} />`}<//>
    <//>
  </div>`;
}

/** List the idempotent producers of all partitions. */
async function listIdempotent(name, count, signal) {
  const left = [...Array(count).keys()];
  const found = [];
  const work = async () => {
    for (let partition = left.shift(); partition !== undefined; partition = left.shift()) {
      found.push(...(await getAll(path`/event-types/${name}/partitions/${partition}/producers`, 2_000, { signal })));
    }
  };
  await Promise.all(Array.from({ length: REQUESTS_AT_ONCE }, work));
  return found;
}
