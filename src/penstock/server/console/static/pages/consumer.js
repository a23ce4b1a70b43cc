// One consumer: where it is, why it is behind, what it gave up, and how to move it.
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { get, getAll, path, query, request, send } from "../core/api.js";
import { curl, option } from "../core/commands.js";
import * as format from "../core/format.js";
import { parseExact } from "../core/json.js";
import { go, Tabs, to } from "../core/routing.js";
import { useAnswer, usePolled, useRightsOn } from "../core/state.js";
import { Chart, DURATION_STEPS } from "../parts/chart.js";
import { applyReset, GapHistory, nameOf, previewReset, Trend } from "../parts/consumers.js";
import { Badge, Card, Confirm, Dialog, Failure, Figure, Loaded, Table, Text, Time, Title, Tree } from "../parts/parts.js";

const gaps = new GapHistory();
const QUIET_SECONDS = 120;
const KEPT_HOURS = 12;

/** The views of one consumer. */
export function Consumer({ name, tab = "positions" }) {
  const answer = usePolled(
    async (signal) => {
      const group = await get(path`/groups/${name}`, { signal });
      const live = group.kind === "subscription" ? await liveOf(name, signal) : null;
      gaps.add([group]);
      return { ...group, live };
    },
    3,
    [name],
  );
  const parked = usePolled((signal) => parkedOf(answer.value, signal), 10, [answer.value?.name]);
  const [dialog, setDialog] = useState("");
  const ofGroup = useRightsOn("group", name);
  const ofSubscription = useRightsOn("subscription", name);
  const group = answer.value;
  const mayMove = Boolean(group?.kind === "subscription" ? ofSubscription.admin : ofGroup.own);
  const close = (done) => {
    setDialog("");
    if (done) {
      gaps.move(name);
      answer.refresh();
    }
  };
  if (answer.error?.status === 404 && !group) {
    return html`<${Title} crumbs=${html`<a href=${to`/consumers`}>Consumers</a>`}>${format.line(name, 120)}<//>
      <div class="message warn"><strong>There is no such consumer.</strong><p>Was it deleted, or has it never committed? <a href=${to`/consumers` + query({ q: name })}>Search for it</a>.</p></div>`;
  }
  return html`
    <${Title} crumbs=${html`<a href=${to`/consumers`}>Consumers</a>`}
      lead=${group && html`<${Badge}>${group.kind}<//> of ${group.event_types.map((each, at) => html`${at ? ", " : ""}<a href=${to`/event-types/${each}`}><${Text} limit=${80}>${each}<//></a>`)}${group.kind === "subscription" ? html` · <span class="mono">${name}</span>` : ""}${group.kept_at ? html` · keeps its positions in <${Text} mono limit=${200}>${group.kept_at}<//>, and is moved there` : ""}`}
      buttons=${group && mayMove && html`${group.kind !== "reported" && html`<button onClick=${() => setDialog("reset")}>Move …</button>`}<button class="danger" onClick=${() => setDialog("delete")}>Delete …</button>`}>
      ${group ? format.line(nameOf(group), 120) : format.line(name, 120)}<//>
    <${Tabs} label="Of this consumer" items=${[
      ["Positions", to`/consumers/${name}`],
      [html`Parked ${parked.value?.length ? html`<${Badge} tone="bad">${parked.value.length}<//>` : ""}`, to`/consumers/${name}/parked`],
      ["History", to`/consumers/${name}/history`],
    ]} />
    <${Loaded} answer=${answer}>${(found) =>
      tab === "parked" ? html`<${Parked} group=${found} answer=${parked} mayMove=${mayMove} />`
      : tab === "history" ? html`<${History} name=${name} />`
      : html`<${Positions} group=${found} parked=${parked.value} mayMove=${mayMove} onChange=${answer.refresh} />`}<//>
    ${dialog === "reset" && html`<${Reset} group=${group} onClose=${close} />`}
    ${dialog === "delete" && html`<${Delete} group=${group} onClose=${close} />`}`;
}

async function liveOf(name, signal) {
  try {
    return (await get(`${path`/subscriptions/${name}/stats`}?show_time_lag=true`, { signal })).items;
  } catch (error) {
    if (error.status) return null; // The caller may not see its streams.
    throw error;
  }
}

async function parkedOf(group, signal) {
  if (!group) return undefined;
  const base = group.kind === "subscription" ? path`/subscriptions/${group.name}/parked` : path`/groups/${group.name}/parked`;
  return getAll(`${base}?limit=1000`, 10_000, { signal });
}

function Positions({ group, parked, mayMove, onChange }) {
  const change = gaps.trendOf(group.name);
  const owners = useMemo(() => ownersOf(group), [group]);
  const hasOwners = group.kind === "subscription" || Boolean(group.members?.length); // Of others the hub does not know them.
  const [expelled, setExpelled] = useState(null);
  const newest = group.positions.map((each) => each.updated_at).sort().at(-1);
  const moves = usePolled((signal) => get(`${path`/groups/${group.name}/history`}?limit=1`, { signal }), 0, [group.name, newest]);
  const wasMoved = Boolean(newest && moves.value?.items.some((each) => each.kind === "reset" && each.at >= newest));
  return html`<div class="stack">
    <${Why} group=${group} change=${change} parked=${parked} owners=${owners} newest=${newest} wasMoved=${wasMoved} />
    <div class="figures">
      <${Figure} name="Gap" value=${format.count(group.gap)} note="events published and not yet handled" tone=${group.gap ? "" : "good"} />
      <${Figure} name="Lag" value=${format.duration(group.lag_seconds)} note="how long the oldest of them waits" />
      <${Figure} name="Rate" value=${format.rate(gaps.rateOf(group.name))} note="events handled, over the last minute" />
      <${Figure} name="Trend" value=${html`<${Trend} gap=${group.gap} change=${change} rate=${gaps.rateOf(group.name)} />`} note="over the last minute" />
      <${Figure} name="Last commit" value=${newest ? html`<${Time} value=${newest} relative />` : "never"} note=${newest ? html`<${Time} value=${newest} />` : null} />
    </div>
    <${Charts} group=${group} />
    <${Card} title="Partitions" flush>
      <${Table} keep="" label="Positions by partition" rows=${group.positions} keyOf=${(row) => `${row.event_type} ${row.slice} ${row.partition}`} empty="It has not begun: no position is kept yet." columns=${[
        { name: "Event type", value: (row) => row.event_type, cell: (row) => html`<a href=${to`/event-types/${row.event_type}`}><${Text} limit=${60}>${row.event_type}<//></a>` },
        { name: "Partition", number: true, value: (row) => row.partition, cell: (row) => `${row.partition}${row.slice ? ` (${row.slice})` : ""}` },
        { name: "Next offset", number: true, value: (row) => row.offset, cell: (row) => html`<a href=${`${to`/event-types/${row.event_type}/events`}${query({ partition: row.partition, from: "offset", at: row.offset })}`}>${format.count(row.offset)}</a>` },
        { name: "End", number: true, value: (row) => row.head, cell: (row) => format.count(row.head) },
        { name: "Gap", number: true, value: (row) => row.gap, cell: (row) => format.count(row.gap) },
        { name: "Lag", number: true, value: (row) => row.lag_seconds, cell: (row) => format.duration(row.lag_seconds) },
        { name: "Owner", value: (row) => owners.get(`${row.event_type}/${row.partition}`) ?? "", cell: (row) => html`<${Text} mono limit=${40}>${owners.get(`${row.event_type}/${row.partition}`) ?? (hasOwners ? "nobody" : "–")}<//>` },
        { name: "Committed", value: (row) => row.updated_at, cell: (row) => (row.reason ? html`<${Badge} tone="bad">${row.reason}<//>` : html`<${Time} value=${row.updated_at} relative />`) },
      ]} />
    <//>
    ${group.members?.length ? html`<${Card} title="Members" flush>
      <${Table} label="Members" rows=${group.members} keyOf=${(row) => row.member} columns=${[
        { name: "Member", value: (row) => row.member, cell: (row) => html`<${Text} mono>${row.member}<//>` },
        { name: "Has", cell: (row) => html`<${Text} limit=${200}>${row.tranches.join(", ") || "nothing"}<//>` },
        { name: "Lease ends", value: (row) => row.expires_at, cell: (row) => html`<${Time} value=${row.expires_at} />` },
        { name: "", cell: (row) => mayMove && html`<button onClick=${() => setExpelled(row.member)}>Expel …</button>` },
      ]} />
    <//>` : null}
    ${expelled && html`<${Confirm} title=${`Expel ${format.line(expelled, 60)}?`} verb="Expel" onClose=${() => setExpelled(null)}
      command=${curl("DELETE", path`/groups/${group.name}/members/${expelled}`)} act=${async () => { await send("DELETE", path`/groups/${group.name}/members/${expelled}`); onChange(); }}>
      <p>Other members get its partitions at once. If it still runs, it asks for partitions again.</p><//>`}
  </div>`;
}

/** The gap and lag of a consumer over the last hours, as the hub has kept them, and then as they are. */
function Charts({ group }) {
  const answer = useAnswer(path`/groups/${group.name}/lag`, 60);
  const kept = answer.value?.items ?? [];
  const { times, gapLine, lagLine } = useMemo(() => {
    const found = gaps.join(group.name, kept);
    return { times: found.times, gapLine: [{ name: "Gap", values: found.gaps }], lagLine: [{ name: "Lag", values: found.lags }] };
  }, [group, answer.value]);
  const isWhole = kept.length > 0 && Date.now() - Date.parse(kept[0].at) > (KEPT_HOURS - 0.5) * 3_600_000;
  const period = isWhole ? html`last ${KEPT_HOURS} hours, kept by this hub`
    : kept.length ? html`since <${Time} value=${kept[0].at} />, kept by this hub`
    : "as long as the console is open";
  const more = html`<span class="quiet">${period}</span>`;
  return html`<div class="grid">
    <${Card} title="Gap" span="half" more=${more}><${Chart} times=${times} series=${gapLine} unit=${format.short} label="Gap" height=${170} /><//>
    <${Card} title="Lag" span="half" more=${more}><${Chart} times=${times} series=${lagLine} unit=${format.duration} steps=${DURATION_STEPS} label="Lag" height=${170} /><//>
  </div>`;
}

/** By "event type/partition": who reads it now. */
function ownersOf(group) {
  const found = new Map();
  for (const { member, tranches } of group.members ?? []) for (const each of tranches) found.set(each, member);
  for (const { event_type, partitions } of group.live ?? []) {
    for (const each of partitions) if (each.stream_id) found.set(`${event_type}/${each.partition}`, `stream ${each.stream_id.slice(0, 8)}`);
  }
  return found;
}

/** For how many seconds events have waited in a partition where nothing was committed meanwhile. */
function standing({ updated_at: updatedAt, lag_seconds: lag }) {
  return Math.min(lag, updatedAt ? (Date.now() - new Date(updatedAt).getTime()) / 1000 : Infinity);
}

/** Says in plain words why a consumer is behind, if it is. */
function Why({ group, change, parked, owners, newest, wasMoved }) {
  const causes = [];
  const stuck = group.positions.filter((each) => each.reason);
  if (stuck.length) causes.push(["bad", `Its position is not valid in ${format.plural(stuck.length, "partition")}. In partition ${stuck[0].partition} of ${format.line(stuck[0].event_type, 80)}: ${stuck[0].reason}. Move it to go on.`]);
  if (parked?.length) causes.push(["warn", html`${format.plural(parked.length, "key")} ${parked.length === 1 ? "is" : "are"} parked: their events failed too often, and wait. <a href=${to`/consumers/${group.name}/parked`}>Look at them.</a>`]);
  if (group.gap > 0 && !stuck.length) {
    const still = group.positions.filter((each) => each.gap > 0 && standing(each) > QUIET_SECONDS).sort((a, b) => standing(b) - standing(a));
    const quiet = newest ? (Date.now() - new Date(newest).getTime()) / 1000 : Infinity;
    const knowsOwners = group.kind === "subscription" || group.members !== undefined;
    if (quiet > QUIET_SECONDS && knowsOwners && !owners.size) causes.push(["warn", `Nobody reads for it: no process holds one of its partitions, and the last commit was ${newest ? format.ago(newest) : "never"}. Start its process.`]);
    else if (quiet > QUIET_SECONDS) causes.push(["warn", `It has not committed for ${format.duration(quiet)}. ${owners.size ? "A process holds its partitions: it may hang in one event, or retry one that fails. Its log says more." : "Is its process running?"}`]);
    else if (wasMoved && !owners.size) causes.push(["warn", "It was moved and has not committed since: nobody may be running it. Is its process running?"]);
    else if (still.length) causes.push(["bad", html`It stands still in ${format.plural(still.length, "partition")} while it goes on in others: in partition ${still[0].partition} of ${format.line(still[0].event_type, 80)} it has committed nothing for ${format.duration(standing(still[0]))}. The event there may fail again and again, or take long: <a href=${to`/event-types/${still[0].event_type}/events` + query({ event: `${still[0].partition}:${still[0].offset}` })}>look at it</a>. The log of its process says more.`]);
    else if (change > 0.05 && owners.size && gaps.rateOf(group.name) === 0) causes.push(["warn", "A process holds its partitions and commits nothing: it may hang in an event, retry one that fails, or not commit at all. Its log says more."]);
    else if (change > 0.05 && (owners.size || gaps.rateOf(group.name) > 0)) causes.push(["warn", `It works, but more is published than it handles: the gap grows by ${format.rate(change)}. More members help, up to one a partition; so does a faster handler.`]);
    const uneven = group.positions.filter((each) => each.gap > 0);
    if (group.positions.length > 1 && uneven.length === 1) causes.push(["note", `All of it is in partition ${uneven[0].partition} of ${format.line(uneven[0].event_type, 80)}: one key may have most events, or one event may fail again and again.`]);
  }
  return html`<div class="stack" hidden=${!causes.length}>${causes.map(([tone, text], at) => html`<div key=${at} class="message ${tone}">${text}</div>`)}</div>`;
}

function Parked({ group, answer, mayMove }) {
  const [dialog, setDialog] = useState(null);
  const isSubscription = group.kind === "subscription";
  const base = isSubscription ? path`/subscriptions/${group.name}/parked` : path`/groups/${group.name}/parked`;
  const close = (done) => {
    setDialog(null);
    if (done) answer.refresh();
  };
  const keyText = (row) => row.key ?? row.stream ?? "";
  const what = isSubscription ? "Key" : "Stream";
  const title = `Parked ${what.toLowerCase()}s`;
  return html`<${Card} flush title=${title} more=${mayMove && answer.value?.length ? html`<button onClick=${() => setDialog({ kind: "retry-all" })}>Retry all …</button>` : null}>
    <${Loaded} answer=${answer}>${(rows) => html`<${Table} label=${title} rows=${rows} keyOf=${(row) => row.id} empty=${`No ${what.toLowerCase()} is parked.`} columns=${[
      { name: what, value: keyText, cell: (row) => html`<strong><${Text} limit=${80}>${keyText(row)}<//></strong>` },
      { name: "Event type", value: (row) => row.event_type, cell: (row) => html`<${Text} limit=${60}>${row.event_type}<//> <span class="quiet">partition ${row.partition}</span>` },
      { name: "Events", number: true, value: (row) => row.events, cell: (row) => format.count(row.events) },
      { name: "Attempts", number: true, value: (row) => row.attempts, cell: (row) => format.count(row.attempts) },
      { name: "Cause", cell: (row) => html`${row.tag ? html`<${Badge} tone="bad"><${Text} limit=${40}>${row.tag}<//><//> ` : ""}<${Text} limit=${160}>${row.detail ?? ""}<//>${row.state && row.state !== "parked" ? html`<${Badge} tone="note">${row.state}<//>` : ""}${row.request ? html` <${Badge} tone="note">${row.request} requested<//>` : ""}` },
      { name: "Since", value: (row) => row.parked_at, cell: (row) => html`<${Time} value=${row.parked_at} relative />` },
      { name: "", cell: (row) => html`<div class="buttons"><button onClick=${() => setDialog({ kind: "look", row })}>Look</button>
        ${mayMove && html`<button onClick=${() => setDialog({ kind: "retry", row })}>Retry …</button><button class="danger" onClick=${() => setDialog({ kind: "skip", row })}>Skip …</button>`}</div>` },
    ]} />`}<//>
    ${dialog?.kind === "look" && html`<${LookAt} group=${group} row=${dialog.row} base=${base} onClose=${close} />`}
    ${dialog?.kind === "retry" && html`<${Confirm} title=${`Retry ${format.line(keyText(dialog.row), 60)}?`} verb="Retry" danger=${false} onClose=${close}
      command=${`penstock groups parked retry ${format.argument(group.name)} ${format.quote(String(dialog.row.id))}`} act=${() => send("POST", `${base}/${encodeURIComponent(dialog.row.id)}/retry`, {})}>
      <p>${format.plural(dialog.row.events ?? 1, "waiting event")} of this key ${dialog.row.events === 1 ? "is" : "are"} handed to the consumer again, in order. If the first fails again, the key is parked again.</p><//>`}
    ${dialog?.kind === "skip" && html`<${Confirm} title=${`Skip ${format.line(keyText(dialog.row), 60)}?`} verb="Skip these events" reason onClose=${close}
      command=${({ reason }) => `penstock groups parked skip ${option("reason", reason)} ${format.argument(group.name)} ${format.quote(String(dialog.row.id))}`} act=${({ reason }) => send("POST", `${base}/${encodeURIComponent(dialog.row.id)}/skip`, { reason })}>
      <p>This consumer never gets the ${format.plural(dialog.row.events ?? 1, "waiting event")} of this key. They stay in the feed; other consumers are not affected.</p><//>`}
    ${dialog?.kind === "retry-all" && html`<${Confirm} title="Retry all parked keys?" verb="Retry all" danger=${false} onClose=${close}
      command=${`penstock groups parked retry --all ${format.argument(group.name)}`} act=${() => send("POST", `${base}/retry`, {})}>
      <p>The waiting events of ${format.plural(answer.value.length, "key")} are handed to the consumer again.</p><//>`}
  <//>`;
}

function LookAt({ group, row, base, onClose }) {
  const isSubscription = group.kind === "subscription";
  const answer = usePolled(
    async (signal) => (isSubscription ? parseExact(await (await request("GET", `${base}/${encodeURIComponent(row.id)}`, { signal })).text()) : undefined),
    0,
    [row.id],
  );
  const type = useAnswer(isSubscription ? null : path`/event-types/${row.event_type}`);
  const first = Number(row.first_offset ?? row.index ?? 0);
  return html`<${Dialog} title=${`Parked: ${format.line(row.key ?? row.stream ?? "", 60)}`} onClose=${() => onClose(false)}>
    <dl class="facts">
      <dt>Event type</dt><dd><${Text}>${row.event_type}<//>, partition ${row.partition}</dd>
      <dt>Attempts</dt><dd>${row.attempts}</dd>
      <dt>Parked</dt><dd><${Time} value=${row.parked_at} /></dd>
      ${row.tag && html`<dt>Cause</dt><dd><${Text} limit=${2000}>${`${row.tag}: ${row.detail ?? ""}`}<//></dd>`}
    </dl>
    <p></p>
    ${isSubscription
      ? html`<${Loaded} answer=${answer}>${(found) => found.items.map(({ offset, event }) => html`<section key=${offset} class="card"><header><h2>Offset ${offset}</h2></header><${Tree} value=${event} /></section>`)}<//>`
      : html`<${Loaded} answer=${type}>${(found) => html`<p><a href=${`${to`/event-types/${row.event_type}/events`}${query({ partition: row.partition, from: "offset", at: first, key: keyOf(row, found) })}`}>Show its events in the feed, from offset ${format.count(first)}</a></p>`}<//>`}
    <div class="buttons"><button onClick=${() => onClose(false)}>Close</button></div>
  <//>`;
}

/** The key of the events of a stream, which is named EVENTTYPE-KEY, or EVENTTYPE-PARTITION_KEY; "" if they have none. */
function keyOf({ stream, event_type: eventType, partition }, { partition_strategy: strategy }) {
  const [before, inPartition] = [`${eventType}-`, `${eventType}-${partition}_`];
  if (!stream?.startsWith(before)) return "";
  const hasPartition = stream === inPartition || (strategy !== "hash" && stream.startsWith(inPartition));
  return stream.slice((hasPartition ? inPartition : before).length);
}

function History({ name }) {
  const answer = useAnswer(path`/groups/${name}/history`, 15);
  return html`<${Card} flush title="Resets">
    <${Loaded} answer=${answer}>${({ items }) => html`<${Table} label="Resets" rows=${items} keyOf=${(row) => row.id} order=${{ name: "When", down: true }} empty="Nobody has moved it." columns=${[
      { name: "When", value: (row) => row.at, cell: (row) => html`<${Time} value=${row.at} />` },
      { name: "What", value: (row) => row.kind, cell: (row) => html`<${Badge}>${row.kind}<//>` },
      { name: "Event type", value: (row) => row.event_type ?? "", cell: (row) => html`<${Text}>${row.event_type ?? ""}<//>` },
      { name: "Partition", number: true, value: (row) => row.partition, cell: (row) => row.partition ?? "" },
      { name: "From", number: true, value: (row) => row.came_from, cell: (row) => format.count(row.came_from) },
      { name: "To", number: true, value: (row) => row.went_to, cell: (row) => format.count(row.went_to) },
      { name: "Reason", value: (row) => row.reason ?? "", cell: (row) => html`<${Text}>${row.reason ?? ""}<//>` },
    ]} />`}<//>
  <//>`;
}

/** Moves a consumer: first shows what would come again and what would be skipped. */
function Reset({ group, onClose }) {
  const [where, setWhere] = useState("earliest");
  const [detail, setDetail] = useState("");
  const [partition, setPartition] = useState("");
  const [preview, setPreview] = useState({ of: "", rows: null, error: null });
  const turn = useRef(0);
  const place = partition === "" ? null : group.positions[Number(partition)];
  const target = where === "earliest" || where === "latest" ? where : where === "time" ? toTime(detail) : detail.trim();
  const wanted = JSON.stringify([where, target, partition]);
  useEffect(() => {
    const mine = ++turn.current;
    if (!target || (where === "offset" && !place)) return undefined;
    const timer = setTimeout(async () => {
      try {
        const choice = where === "offset"
          ? { offsets: [{ event_type: place.event_type, partition: place.partition, offset: Number(target), ...(place.slice ? { slice: place.slice } : {}) }] }
          : { to: target };
        let rows = await previewReset(group, choice);
        if (place) rows = rows.filter((each) => each.event_type === place.event_type && each.partition === place.partition && (each.slice || "") === (place.slice || ""));
        if (mine === turn.current) setPreview({ of: wanted, rows, error: null });
      } catch (error) {
        if (mine === turn.current) setPreview({ of: wanted, rows: null, error });
      }
    }, 250);
    return () => clearTimeout(timer);
  }, [wanted]);
  // Of what was chosen before, nothing is shown or moved.
  const { rows: found, error } = preview.of === wanted ? preview : { rows: null, error: null };
  const rows = found ?? [];
  // A partition without a position has handled nothing that could come again, and may begin anywhere.
  const placed = rows.filter((each) => each.came_from !== null);
  const again = placed.reduce((sum, each) => sum + Math.max(0, each.came_from - each.offset), 0);
  const skipped = placed.reduce((sum, each) => sum + Math.max(0, each.offset - each.came_from), 0);
  return html`<${Confirm} title=${`Move ${format.line(nameOf(group), 60)}`} verb="Move it" reason onClose=${onClose} disabled=${!rows.length}
    command=${({ reason }) => (rows.length ? resetCommand(group, where, target, place, reason) : null)}
    act=${({ reason }) => applyReset(group, rows, reason)}>
    <div class="toolbar">
      <label>Where to<select value=${where} onChange=${(event) => { setWhere(event.target.value); setDetail(""); }}>
        <option value="earliest">earliest: all again</option><option value="latest">latest: skip what waits</option>
        <option value="ago">a duration ago</option><option value="time">a time</option><option value="offset">an offset</option>
      </select></label>
      ${where === "ago" && html`<label>How long ago<input placeholder="1h" value=${detail} onInput=${(event) => setDetail(event.target.value)} /></label>`}
      ${where === "time" && html`<label>Time, ${format.isUtc() ? "UTC" : "local"}<input type="datetime-local" step="1" value=${detail} onInput=${(event) => setDetail(event.target.value)} /></label>`}
      ${where === "offset" && html`<label>The offset that it gets next<input type="number" min="0" value=${detail} onInput=${(event) => setDetail(event.target.value)} /></label>`}
      <label>Partition<select value=${partition} onChange=${(event) => setPartition(event.target.value)}>
        <option value="">${where === "offset" ? "choose one" : "all"}</option>
        ${group.positions.map((each, at) => html`<option key=${at} value=${at}>${format.line(each.event_type, 40)} ${each.partition}${each.slice ? ` (${format.line(each.slice, 40)})` : ""}</option>`)}
      </select></label>
    </div>
    <${Failure} error=${error} />
    ${rows.length > 0 && html`<div class="message ${again ? "warn" : "note"}">
        ${again ? html`<strong>${format.plural(again, "event")} will come again.</strong> Handlers that are not idempotent repeat their effects. ` : ""}
        ${skipped ? html`<strong>${format.plural(skipped, "event")} will be skipped</strong> and never handled by this consumer. ` : ""}
        ${!again && !skipped && placed.length ? "It stays where it is. " : ""}
        ${placed.length < rows.length ? `${format.plural(rows.length - placed.length, "partition")} without a position ${rows.length - placed.length === 1 ? "gets" : "get"} one. ` : ""}
        ${group.kind === "subscription"
          ? " Its streams end first, which takes up to half a minute, and begin anew. Waiting events of parked keys in these partitions are given up: those from the new offset on come again, those before it never."
          : " Stop other programs that run as this group first: a running processor ends with its next commit. Streams that it has parked wait from the new position on, if that is earlier."}</div>
      <${Table} label="What would move" pageSize=${8} rows=${rows} keyOf=${(row) => `${row.event_type} ${row.slice} ${row.partition}`} columns=${[
        { name: "Partition", value: (row) => `${row.event_type} ${row.partition}`, cell: (row) => html`<${Text} limit=${40}>${row.event_type}<//> ${row.partition}` },
        { name: "Now at", number: true, cell: (row) => (row.came_from === null ? html`<span class="quiet">no position</span>` : format.count(row.came_from)) },
        { name: "Goes to", number: true, cell: (row) => format.count(row.offset) },
        { name: "End", number: true, cell: (row) => format.count(row.head) },
      ]} /><p></p>`}
  <//>`;
}

/** The time that was entered, in UTC; "" if it is none. */
function toTime(entered) {
  const time = new Date(entered + (format.isUtc() ? "Z" : ""));
  return Number.isNaN(time.getTime()) ? "" : time.toISOString();
}

/** The command that moves a group as the dialog does. */
function resetCommand(group, where, target, place, reason) {
  const words = ["penstock groups reset"];
  if (place) words.push(option("event-type", place.event_type), option("partition", place.partition));
  if (place?.slice) words.push(option("slice", place.slice));
  words.push(option(where === "offset" ? "offset" : "to", target), option("reason", reason), format.argument(group.name));
  return words.join(" ");
}

function Delete({ group, onClose }) {
  const isSubscription = group.kind === "subscription";
  return html`<${Confirm} title=${`Delete ${format.line(nameOf(group), 60)}?`} verb="Delete" onClose=${onClose}
    command=${`penstock ${isSubscription ? "subscription" : "groups"} delete ${format.argument(group.name)}`}
    act=${async () => {
      await send("DELETE", isSubscription ? path`/subscriptions/${group.name}` : path`/groups/${group.name}`);
      go(to`/consumers`);
    }}>
    <p>Its ${format.plural(group.positions.length, "position")}, ${isSubscription ? "parked keys" : "parked streams"} and history are forgotten. Events that are parked are not handled any more. No event is deleted from the feeds.</p>
    <p>${isSubscription ? "Its streams end. A process that creates the subscription again begins where it is configured to begin." : "If its process runs on, it begins anew where it is configured to begin."}</p>
  <//>`;
}
