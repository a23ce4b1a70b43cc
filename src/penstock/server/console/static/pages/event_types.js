// The list of event types: which there are, who owns them, and how much goes through them.
import { html, useEffect, useMemo, useState } from "../vendor/preact.js";
import * as format from "../core/format.js";
import { keepInAddress, to, usePlace } from "../core/routing.js";
import { history, useAnswer, useMetrics, useRights } from "../core/state.js";
import { EventTypeLink } from "../parts/event_type_head.js";
import { Badge, Card, Loaded, Table, Text, Time, Title } from "../parts/parts.js";

/** All event types that the caller may see. */
export function EventTypes() {
  const { create, monitor } = useRights();
  const { search } = usePlace();
  const answer = useAnswer("/statistics", 5);
  const metrics = useMetrics(5, { enabled: Boolean(monitor) });
  const wanted = { text: search.get("q") ?? "", owner: search.get("owner") ?? "", category: search.get("category") ?? "" };
  return html`
    <${Title} lead="Each event type is one feed of events, with a schema and an owner."
      buttons=${create && html`<a class="button primary" href=${to`/new-event-type`}>New event type</a>`}>Event types<//>
    <${Loaded} answer=${answer}>${({ items }) => html`<${List} items=${items} sample=${metrics.value} wanted=${wanted} mayCreate=${create} mayMonitor=${monitor} />`}<//>`;
}

function List({ items, sample, wanted, mayCreate, mayMonitor }) {
  const owners = useMemo(() => [...new Set(items.map((each) => each.owning_application))].filter(Boolean).sort(), [items]);
  const rows = useMemo(() => {
    const words = wanted.text.toLowerCase().split(/\s+/).filter(Boolean);
    return items
      .filter((each) => (!wanted.owner || each.owning_application === wanted.owner) && (!wanted.category || each.category === wanted.category))
      .filter((each) => {
        const text = `${each.name} ${each.owning_application} ${each.category}`.toLowerCase();
        return words.every((word) => text.includes(word));
      })
      .map((each) => ({ ...each, rate: history.rateOf(`penstock_events_appended_total{event_type="${each.name}"}`, 30) }));
  }, [items, sample, wanted.text, wanted.owner, wanted.category]);
  const isFiltered = wanted.text || wanted.owner || wanted.category;
  return html`
    <div class="toolbar" role="search">
      <${Search} text=${wanted.text} />
      <label>Owner<select value=${wanted.owner} onChange=${(event) => keepInAddress({ owner: event.target.value })}>
        <option value="">All owners</option>${owners.map((each) => html`<option key=${each} value=${each}>${format.line(each, 60)}</option>`)}</select></label>
      <label>Category<select value=${wanted.category} onChange=${(event) => keepInAddress({ category: event.target.value })}>
        <option value="">All categories</option>${["undefined", "business", "data"].map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select></label>
      <span class="quiet" role="status">${isFiltered ? `${format.count(rows.length)} of ${format.plural(items.length, "event type")}` : format.plural(items.length, "event type")}</span>
      ${isFiltered && html`<button class="plain" onClick=${() => keepInAddress({ q: "", owner: "", category: "" })}>Show all</button>`}
    </div>
    <${Card} flush>
      <${Table} about=${`${wanted.text} ${wanted.owner} ${wanted.category}`} keep="" label="Event types" rows=${rows} keyOf=${(row) => row.name} order=${{ name: "Name" }}
        empty=${items.length ? "No event type has all of this." : html`There are no event types yet. ${mayCreate && html`<a href=${to`/new-event-type`}>Create the first one</a>.`}`}
        columns=${[
          { name: "Name", value: (row) => row.name, cell: (row) => html`<${EventTypeLink} name=${row.name} />` },
          { name: "Owner", minor: true, value: (row) => row.owning_application, cell: (row) => html`<${Text} limit=${60}>${row.owning_application}<//>` },
          { name: "Category", minor: true, value: (row) => row.category, cell: (row) => html`<${Badge}>${row.category}<//>` },
          { name: "Partitions", number: true, minor: true, value: (row) => row.partition_count, cell: (row) => format.count(row.partition_count) },
          { name: "Events", number: true, value: (row) => row.events, cell: (row) => format.count(row.events) },
          { name: "Size", number: true, minor: true, value: (row) => row.bytes, cell: (row) => format.bytes(row.bytes) },
          { name: "Last event", value: (row) => row.newest_at, cell: (row) => html`<${Time} value=${row.newest_at} relative />` },
          ...(mayMonitor ? [{ name: "Now", number: true, value: (row) => row.rate, cell: (row) => format.rate(row.rate) }] : []),
        ]} />
    <//>`;
}

function Search({ text }) {
  const [typed, setTyped] = useState(text);
  useEffect(() => setTyped(text), [text]);
  useEffect(() => {
    const timer = setTimeout(() => typed !== text && keepInAddress({ q: typed }), 150);
    return () => clearTimeout(timer);
  }, [typed]);
  return html`<label>Search<input type="search" placeholder="Name, owner or category" value=${typed} onInput=${(event) => setTyped(event.target.value)} /></label>`;
}
