// One event: its place and time, its data, its headers, and how to read it elsewhere.
import { html, useMemo } from "../vendor/preact.js";
import { HUB, query, readToken } from "../core/api.js";
import { Feed } from "../core/feed.js";
import * as format from "../core/format.js";
import { indent, parseExact } from "../core/json.js";
import { addressBefore, go, keepInAddress, to, usePlace } from "../core/routing.js";
import { usePolled } from "../core/state.js";
import { addressOf } from "../parts/event_table.js";
import { Copy, Dialog, Failure, Source, Text, Tree } from "../parts/parts.js";


/** The event at *place*, partition:offset, over the page. */
export function OpenedEvent({ name, count, place }) {
  const [, partition, offset] = (/^(\d+):(\d+)$/.exec(place) ?? [null, NaN, NaN]).map(Number);
  const isPlace = partition < count && Number.isSafeInteger(offset);
  const answer = usePolled(async (signal) => {
    if (!isPlace) return null;
    const feed = await Feed.open(name, count, [partition], signal);
    const { first, head } = feed.bounds.get(partition);
    const event = offset >= first && offset < head ? await feed.readEvent(partition, offset, signal) : null;
    return { feed, first, head, event };
  }, 0, [name, place]);
  // If it was opened from the page below, that page is the one that Back leads to.
  const close = () => (addressBefore() === addressOf("") ? history.back() : keepInAddress({ event: "", as: "" }));
  const move = (by) => go(addressOf(`${partition}:${offset + by}`), { replace: true });
  const { value, error } = answer;
  return html`<${Dialog} side title=${html`Event <span class="mono">${format.line(place, 40)}</span>`} onClose=${close}>
    <div class="row sheet-buttons">
      <button onClick=${() => move(-1)} disabled=${!value || offset <= value.first}>Previous in partition</button>
      <button onClick=${() => move(1)} disabled=${!value || offset >= value.head - 1}>Next in partition</button>
      <${Copy} text=${() => location.href}>Copy link<//>
      <button class="close" onClick=${close}>Close</button>
    </div>
    <${Failure} error=${error} retry=${answer.refresh} />
    ${value === undefined && !error && html`<p class="empty" role="status">Loading …</p>`}
    ${value === null && html`<p class="message warn">There is no such place: an address has <code>partition:offset</code>, such as <code>0:17</code>, and the partitions are 0 to ${count - 1}.</p>`}
    ${value && !value.event && html`<p class="message warn">${explainMissing(value, offset)}</p>`}
    ${value?.event && html`<${Details} key=${place} name=${name} feed=${value.feed} event=${value.event} />`}
  <//>`;
}

function explainMissing({ first, head }, offset) {
  if (offset < first) return `This event is gone: the partition begins at offset ${format.count(first)}. Retention removes older ones.`;
  if (offset >= head) return `There is no event yet: the next one of this partition gets offset ${format.count(head)}.`;
  return "This event was compacted or erased. Its offset stays empty.";
}

function Details({ name, feed, event }) {
  const tab = usePlace().search.get("as") ?? "tree";
  const data = useMemo(() => parseExact(event.text), [event]);
  const size = useMemo(() => new Blob([event.text]).size, [event]);
  const headers = Object.entries(event.headers ?? {});
  return html`
    <dl class="facts">
      <dt>Received</dt><dd>${format.bothTimes(event.at / 1000).split("\n").map((each) => html`<div>${each}</div>`)}<div class="quiet">${format.ago(event.at / 1000)}</div></dd>
      <dt>Place</dt><dd>partition ${event.partition}, offset ${event.offset}</dd>
      <dt>Key</dt><dd>${event.key === null ? html`<span class="quiet">none</span>` : html`<${Text} mono>${event.key}<//> <a href=${to`/event-types/${name}/events` + query({ key: event.key })}>all with this key</a>`}</dd>
      <dt>Kind</dt><dd><${Text}>${event.kind}<//></dd>
      <dt>Size</dt><dd>${format.bytes(size)}</dd>
    </dl>
    <div class="row views" role="group" aria-label="How to show it">
      ${[["tree", "Tree"], ["raw", "Raw"], ["headers", `Headers (${headers.length})`], ["copy", "Copy as …"]].map(([word, label]) => html`
        <button key=${word} aria-pressed=${tab === word ? "true" : "false"} onClick=${() => keepInAddress({ as: word === "tree" ? "" : word })}>${label}</button>`)}
      <span class="grow"></span>
      <${Copy} text=${event.text}>Copy JSON<//>
    </div>
    ${tab === "tree" && html`<${Tree} value=${data} open=${3} />`}
    ${tab === "raw" && html`<${Indented} text=${event.text} />`}
    ${tab === "headers" && (headers.length
      ? html`<dl class="facts">${headers.map(([header, value]) => html`<dt key=${header}><${Text} mono limit=${80}>${header}<//></dt><dd><${Text} mono limit=${4000}>${value}<//></dd>`)}</dl>`
      : html`<p class="empty">It has no headers.</p>`)}
    ${tab === "copy" && writePrograms({ name, feed, event }).map(([label, text]) => html`<section key=${label} class="program">
      <div class="row"><h3>${label}</h3><span class="grow"></span><${Copy} text=${text} /></div><pre tabindex="0"><code>${text}</code></pre></section>`)}`;
}

function Indented({ text }) {
  return html`<${Source} text=${useMemo(() => indent(text), [text])} />`;
}

/** Write a text as a literal of Python. */
function literal(text) {
  return JSON.stringify(text).replace(/[\u007f-\uffff]/g, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Return programs that read the event: [label, text]. */
function writePrograms({ name, feed, event: { partition, offset } }) {
  const hub = HUB.href.replace(/\/$/, "");
  const hasToken = Boolean(readToken());
  const [start, stop] = [feed.cursor(partition, offset), feed.cursor(partition, offset + 1)];
  const page = feed.address({ [`cursor${partition}`]: start, [`until${partition}`]: stop, headers: "_all" });
  const others = feed.count > 1 ? `dict.fromkeys(map(str, range(${feed.count})), -1) | ` : "";
  return [
    ["curl", `curl ${hasToken ? '-H "Authorization: Bearer $PENSTOCK_TOKEN" ' : ""}${format.quote(hub + page)}\n`],
    ["Python", `${hasToken ? "import os\n\n" : ""}from penstock.client import ALL_HEADERS, Client

with Client(${literal(hub)}${hasToken ? ', auth=os.environ["PENSTOCK_TOKEN"]' : ""}) as hub:
    feed = hub.feed(${literal(name)})
    page = feed.read({${partition}: "${start}"}, until={${partition}: "${stop}"}, headers=ALL_HEADERS)
    for event in page.events:
        print(event.key, event.headers, event.data)
`],
    ["Spark", `import json
${hasToken ? "import os\n" : ""}
import penstock.spark

spark = penstock.spark.session()
name = ${literal(name)}
events = (
    spark.read.format("penstock")
    .options(url=${literal(hub)}, eventType=name${hasToken ? ', token=os.environ["PENSTOCK_TOKEN"]' : ""})
    .option("startingOffsets", json.dumps({name: ${others}{"${partition}": ${offset}}}))
    .option("endingOffsets", json.dumps({name: {"${partition}": ${offset + 1}}}))
    .load()
)
events.show(truncate=False)
`],
  ];
}
