// The cold tier: which events lie in files, which in the database, and how large both are.
import { html, useMemo } from "../vendor/preact.js";
import { get, path, query } from "../core/api.js";
import { offsetNumber } from "../core/backwards.js";
import { needs, option } from "../core/commands.js";
import * as format from "../core/format.js";
import { keepInAddress, to, usePlace } from "../core/routing.js";
import { metricsNamed, useAnswer, useMetrics, usePolled, useRights } from "../core/state.js";
import { Badge, Card, Command, Copy, Failure, Figure, Loaded, Table, Text, Time, Title } from "../parts/parts.js";

const FILES_MAX = 1000;
const OVERDUE_SECONDS = 60;

/** The view of the cold tier; `?event_type=` and `?partition=` say what is looked at. */
export function ColdTier() {
  const { search } = usePlace();
  const { monitor } = useRights();
  const name = search.get("event_type") ?? "";
  const metrics = useMetrics(5, { enabled: monitor !== false });
  if (name) return html`<${OneEventType} key=${name} name=${name} partition=${Number(search.get("partition") ?? 0)} />`;
  if (monitor === false) return html`<${Title}>Cold tier<//><${Choose} />`;
  const isSet = ["penstock_cold_overdue_seconds", "penstock_cold_event_types"].some((each) => metrics.value?.gauges.has(each));
  return html`
    <${Title} lead="Old events in Parquet files, which readers get with the same cursors as those in the database.">Cold tier<//>
    <${Loaded} answer=${metrics}>${(sample) => (isSet ? html`<${All} sample=${sample} />` : html`<${NoTier} />`)}<//>`;
}

function Choose() {
  return html`<p>The list of all event types needs the right to monitor the hub. Choose one that you may read:</p>
    <form class="toolbar" onSubmit=${(event) => { event.preventDefault(); keepInAddress({ event_type: new FormData(event.currentTarget).get("name") }); }}>
      <label>Event type<input class="long" name="name" required placeholder="order.placed" /></label><button class="primary">Show its files</button>
    </form>`;
}

function NoTier() {
  return html`<${Card}>
    <h2>This hub has no cold tier</h2>
    <p>All events are in the database. A cold tier moves old ones into Parquet files, in a directory or a bucket, where they cost little and other tools can read them. Feeds stay whole: readers cross from files to the database without noticing.</p>
    <p>Start the hub with a place for the files, and the age at which events go there:</p>
    <${Command}>penstock serve --cold file:///srv/cold --cold-after 7d<//>
    <p></p>
    <${Command}>penstock serve --cold s3://BUCKET/PREFIX --cold-after 7d<//>
  <//>`;
}

function All({ sample }) {
  const rows = useMemo(() => {
    const named = (name) => new Map(metricsNamed(sample.gauges, name).map(([labels, value]) => [labels.event_type, value]));
    const [files, bytes, events, allBytes] = ["penstock_cold_files", "penstock_cold_bytes", "penstock_event_type_events", "penstock_event_type_bytes"].map(named);
    return [...new Set([...files.keys(), ...events.keys()])].map((name) => ({ name, files: files.get(name) ?? 0, bytes: bytes.get(name) ?? 0, events: events.get(name), allBytes: allBytes.get(name) }));
  }, [sample]);
  const cold = rows.filter((each) => each.files);
  const first = (cold[0] ?? rows[0])?.name;
  const location = useAnswer(first ? path`/event-types/${first}/cold-files` + query({ partition: 0, offset: 10 ** 17 }) : null);
  const sum = (name) => rows.reduce((total, each) => total + (each[name] ?? 0), 0);
  const overdue = sample.gauges.get("penstock_cold_overdue_seconds") ?? 0;
  const failed = sample.counters.get("penstock_cold_failed_reads_total") ?? 0;
  const left = sample.gauges.get("penstock_cold_event_types_left_out") ?? 0;
  return html`<div class="stack">
    <div class="figures">
      <${Figure} name="Files" value=${format.count(sum("files"))} note=${`of ${format.plural(sample.gauges.get("penstock_cold_event_types") ?? cold.length, "event type")}`} />
      <${Figure} name="In files" value=${format.bytes(sum("bytes"))} note="compressed" />
      <${Figure} name="In the database" value=${format.bytes(sample.gauges.get("penstock_database_bytes"))} note="with indexes and everything else" />
      <${Figure} name="Moving is behind by" value=${format.duration(overdue)} tone=${overdue > OVERDUE_SECONDS ? "warn" : "good"} note="beyond twice the age for it" />
      <${Figure} name="Failed reads" value=${format.count(failed)} tone=${failed ? "bad" : "good"} note="of files, since this hub began" />
    </div>
    ${location.value?.location && html`<div class="row"><span class="quiet">Files are in</span> <code><${Text} limit=${300}>${location.value.location}<//></code> <${Copy} text=${location.value.location} /></div>`}
    ${overdue > OVERDUE_SECONDS && html`<div class="message warn"><strong>Events are not moved in time.</strong> Is the storage reachable, and may the hub write there?<${Command}>${`penstock cold verify ${option("cold", location.value?.location ?? "URL")}`}<//></div>`}
    <${Card} title="Event types" flush>
      <${Table} keep="" label="Event types and their files" rows=${rows} keyOf=${(row) => row.name} order=${{ name: "In files", down: true }} empty="There are no event types yet." columns=${[
        { name: "Event type", value: (row) => row.name, cell: (row) => html`<a href=${to`/cold-tier?event_type=` + encodeURIComponent(row.name)}><${Text} limit=${80}>${row.name}<//></a>` },
        { name: "Files", value: (row) => row.files, number: true, cell: (row) => format.count(row.files) },
        { name: "In files", value: (row) => row.bytes, number: true, cell: (row) => (row.files ? format.bytes(row.bytes) : "–") },
        { name: "Events in all", value: (row) => row.events, number: true, cell: (row) => format.count(row.events) },
        { name: "Data in all, about", value: (row) => row.allBytes, number: true, cell: (row) => format.bytes(row.allBytes) },
      ]} />
      ${left > 0 && html`<p class="empty">${format.plural(left, "further event type")} with fewer files: open one by its address, <code>?event_type=NAME</code>.</p>`}
    <//>
    <div><p class="quiet">On the command line${needs("penstock cold")}:</p><${Command}>penstock cold list<//></div>
  </div>`;
}

function OneEventType({ name, partition }) {
  const answer = usePolled(async (signal) => {
    const partitions = await get(path`/event-types/${name}/partitions`, { signal });
    const found = await Promise.all(partitions.slice(0, 64).map(async (each) => ({
      partition: Number(each.partition),
      oldest: offsetNumber(each.oldest_available_offset),
      stop: offsetNumber(each.newest_available_offset) + 1,
      ...(await listFiles(name, Number(each.partition), signal)),
    })));
    return { partitions: found, count: partitions.length };
  }, 15, [name]);
  return html`
    <${Title} crumbs=${html`<a href=${to`/cold-tier`}>Cold tier</a>`} lead=${html`<a href=${to`/event-types/${name}`}>The event type</a> · <a href=${to`/event-types/${name}/events`}>its events</a>`}>${format.line(name, 120)}<//>
    <${Loaded} answer=${answer}>${(found) => html`<${Ranges} name=${name} found=${found} partition=${partition} />`}<//>`;
}

/** Return where a partition's files are, and the files, up to a limit. */
async function listFiles(name, partition, signal) {
  const files = [];
  let location = null;
  let offset = 0;
  for (;;) {
    const page = await get(path`/event-types/${name}/cold-files` + query({ partition, offset }), { signal });
    location = page.location;
    files.push(...page.items);
    if (page.items.length < 100 || files.length >= FILES_MAX) return { location, files, isCut: page.items.length === 100 };
    offset = page.items.at(-1).stop;
  }
}

function Ranges({ name, found, partition }) {
  const rows = useMemo(() => found.partitions.map(summarize), [found]);
  const sum = (member) => rows.reduce((total, each) => total + each[member], 0);
  const shown = rows.find((each) => each.partition === partition) ?? rows[0];
  const { location } = found.partitions[0] ?? {};
  if (!location) return html`<${NoTier} />`;
  return html`<div class="stack">
    <div class="figures">
      <${Figure} name="Events in files" value=${format.short(sum("coldEvents"))} note=${format.plural(sum("files"), "file")} />
      <${Figure} name="Events in the database" value=${format.short(sum("hotEvents"))} note="at most: erased and compacted ones count" />
      <${Figure} name="Files" value=${format.bytes(sum("fileBytes"))} note=${sum("fileBytes") ? `${format.bytes(sum("dataBytes"))} of data, ${(sum("dataBytes") / sum("fileBytes")).toFixed(1)} times as much` : ""} />
    </div>
    <div class="row"><span class="quiet">Files are in</span> <code><${Text} limit=${300}>${location}<//></code> <${Copy} text=${location} /></div>
    <${Card} title="Partitions" flush more=${html`<span class="legend"><i class="cold"></i> in files <i class="hot"></i> in the database</span>`}>
      <${Table} label="Partitions" rows=${rows} keyOf=${(row) => row.partition} columns=${[
        { name: "Partition", value: (row) => row.partition, cell: (row) => html`<a href=${to`/cold-tier?event_type=` + encodeURIComponent(name) + `&partition=${row.partition}`} aria-current=${row === shown ? "true" : null}>${row.partition}</a>` },
        { name: "Offsets in files", cell: (row) => (row.files ? `${format.count(row.start)} to ${format.count(row.coldStop - 1)}` : "–") },
        { name: "Offsets in the database", cell: (row) => (row.hotEvents ? `${format.count(row.hotStart)} to ${format.count(row.stop - 1)}` : "–") },
        { name: "Share", cell: (row) => (row.coldEvents + row.hotEvents) > 0 && html`<div class="share" role="img" aria-label=${`${share(row)} % in files`} title=${`${share(row)} % in files`}><span class="cold" style=${{ width: `${share(row)}%` }}></span><span class="hot"></span></div>` },
        { name: "Files", value: (row) => row.files, number: true, cell: (row) => `${format.count(row.files)}${row.isCut ? "+" : ""}` },
        { name: "Size", value: (row) => row.fileBytes, number: true, cell: (row) => format.bytes(row.fileBytes) },
        { name: "Newest in a file", value: (row) => row.newest, cell: (row) => html`<${Time} value=${row.newest} />` },
      ]} />
      ${found.count > rows.length && html`<p class="empty">The first ${rows.length} of ${found.count} partitions.</p>`}
    <//>
    ${shown && html`<${Card} title=${`Files of partition ${shown.partition}`} flush more=${shown.isCut ? html`<${Badge} tone="note">the first ${format.count(FILES_MAX)}<//>` : null}>
      <${Table} key=${shown.partition} label="Files" rows=${shown.list} keyOf=${(row) => row.path} order=${{ name: "First offset", down: true }} empty="None yet: its events are younger than --cold-after, or too few for a file." columns=${[
        { name: "First offset", value: (row) => row.start, number: true, cell: (row) => html`<a href=${to`/event-types/${name}/events` + query({ partition: shown.partition, from: "offset", at: row.start })}>${format.count(row.start)}</a>` },
        { name: "Last", value: (row) => row.stop, number: true, cell: (row) => format.count(row.stop - 1) },
        { name: "Events", value: (row) => row.events, number: true, cell: (row) => format.count(row.events) },
        { name: "Data", value: (row) => row.data_bytes, number: true, cell: (row) => format.bytes(row.data_bytes) },
        { name: "File", value: (row) => row.file_bytes, number: true, cell: (row) => format.bytes(row.file_bytes) },
        { name: "From", value: (row) => row.received_from, cell: (row) => html`<${Time} value=${row.received_from} />` },
        { name: "To", value: (row) => row.received_to, cell: (row) => html`<${Time} value=${row.received_to} />` },
        { name: "Name", mono: true, cell: (row) => html`<${Text} limit=${60} mono>${row.path.split("/").at(-1)}<//>` },
      ]} />
    <//>`}
    <div><p class="quiet">On the command line${needs("penstock cold")}:</p><${Command}>${`penstock cold list ${format.argument(name)}`}<//></div>
    <div><p class="quiet">Read them without Penstock, such as with DuckDB:</p><${Command}>${readWithDuckDb(location, name)}<//></div>
  </div>`;
}

function readWithDuckDb(location, name) {
  const files = `${location.replace(/^file:\/\//, "")}/${name}/[0-9]*/*.parquet`.replaceAll("'", "''");
  return `duckdb -c ${format.quote(`SELECT count(*), min(received_at), max(received_at) FROM read_parquet('${files}')`)}`;
}

function summarize({ partition, oldest, stop, files, isCut }) {
  const sum = (member) => files.reduce((total, each) => total + each[member], 0);
  const coldStop = files.length ? files.at(-1).stop : oldest;
  const hotStart = Math.max(coldStop, oldest);
  return {
    partition,
    stop,
    isCut,
    list: files,
    files: files.length,
    start: files[0]?.start,
    coldStop,
    hotStart,
    coldEvents: sum("events"),
    hotEvents: Math.max(0, stop - hotStart),
    dataBytes: sum("data_bytes"),
    fileBytes: sum("file_bytes"),
    newest: files.at(-1)?.received_to,
  };
}

function share({ coldEvents, hotEvents }) {
  return coldEvents + hotEvents ? Math.round((100 * coldEvents) / (coldEvents + hotEvents)) : 0;
}
