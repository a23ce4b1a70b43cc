// All consumers of any kind: subscriptions, processors, Spark queries, cursor sets, and those that report from elsewhere.
import { html, useMemo } from "../vendor/preact.js";
import { getAll, query } from "../core/api.js";
import * as format from "../core/format.js";
import { keepInAddress, to, usePlace } from "../core/routing.js";
import { usePolled } from "../core/state.js";
import { Badge, Card, Loaded, Table, Text, Title } from "../parts/parts.js";
import { GapHistory, Trend, nameOf } from "../parts/consumers.js";

const KINDS = ["subscription", "processor", "spark", "cursorset", "reported"];
const gaps = new GapHistory();

/** The list of consumers. */
export function Consumers() {
  const { search } = usePlace();
  const kind = search.get("kind") ?? "";
  const eventType = search.get("event_type") ?? "";
  const text = search.get("q") ?? "";
  const answer = usePolled(
    async (signal) => {
      const found = await getAll(`/groups${query({ kind, event_type: eventType, limit: 1000 })}`, 10_000, { signal });
      gaps.add(found);
      return found;
    },
    5,
    [kind, eventType],
  );
  const filter = (event) => keepInAddress({ q: event.target.value });
  return html`
    <${Title} lead="Whoever keeps a position in the hub, and how far behind it is.">Consumers<//>
    <div class="toolbar" role="search">
      <label>Name or event type<input type="search" value=${text} onInput=${filter} /></label>
      <label>Kind<select value=${kind} onChange=${(event) => keepInAddress({ kind: event.target.value })}>
        <option value="">any</option>${KINDS.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
      </select></label>
      ${eventType && html`<span class="badge note">of <${Text} limit=${60}>${eventType}<//></span><button class="plain" onClick=${() => keepInAddress({ event_type: "" })}>all event types</button>`}
    </div>
    <${Card} flush>
      <${Loaded} answer=${answer}>${(found) => html`<${List} items=${found} text=${text} />`}<//>
    <//>`;
}

function List({ items, text }) {
  const rows = useMemo(() => {
    const wanted = text.trim().toLowerCase();
    if (!wanted) return items;
    return items.filter((each) => [nameOf(each), each.name, ...each.event_types].some((name) => name.toLowerCase().includes(wanted)));
  }, [items, text]);
  return html`<${Table} keep="" label="Consumers" rows=${rows} keyOf=${(row) => `${row.kind} ${row.name}`} order=${{ name: "Gap", down: true }}
    empty=${items.length ? "No consumer has that in its name or event types." : "Nobody keeps a position here yet. A subscription, a processor or a Spark query with a consumer group appears once it has committed."}
    columns=${[
      { name: "Consumer", value: nameOf, cell: (row) => html`<a href=${to`/consumers/${row.name}`}><${Text} limit=${80}>${nameOf(row)}<//></a>` },
      { name: "Kind", minor: true, value: (row) => row.kind, cell: (row) => html`<${Badge}>${row.kind}<//>` },
      { name: "Event types", minor: true, value: (row) => row.event_types.join(), cell: (row) => html`<${Names} names=${row.event_types} />` },
      { name: "Gap", number: true, value: (row) => row.gap, cell: (row) => format.count(row.gap) },
      { name: "Lag", number: true, value: (row) => row.lag_seconds, cell: (row) => format.duration(row.lag_seconds) },
      { name: "Rate", number: true, minor: true, value: (row) => gaps.rateOf(row.name), cell: (row) => format.rate(gaps.rateOf(row.name)) },
      { name: "Trend", value: (row) => gaps.trendOf(row.name), cell: (row) => html`<${Trend} gap=${row.gap} change=${gaps.trendOf(row.name)} rate=${gaps.rateOf(row.name)} />` },
    ]} />`;
}

function Names({ names }) {
  const shown = names.slice(0, 3);
  return html`${shown.map((name, at) => html`${at ? ", " : ""}<a key=${name} href=${to`/event-types/${name}`}><${Text} limit=${60}>${name}<//></a>`)}
    ${names.length > shown.length && html`<span class="quiet"> and ${names.length - shown.length} more</span>`}`;
}
