// What all pages of one event type share: their head, and who consumes it.
import { html } from "../vendor/preact.js";
import { get, getAll, path, query } from "../core/api.js";
import { line } from "../core/format.js";
import { Tabs, to } from "../core/routing.js";
import { nameOf } from "./consumers.js";
import { Text, Title } from "./parts.js";

/** The title of an event type, with the tabs of its pages. */
export function EventTypeHead({ name, lead, buttons, rights = {} }) {
  return html`<${Title} crumbs=${html`<a href=${to`/event-types`}>Event types</a>`} lead=${lead} buttons=${buttons}>${line(name)}<//>
    <${Tabs} label="Pages of ${name}" items=${[
      ["Overview", to`/event-types/${name}`],
      ["Events", to`/event-types/${name}/events`],
      ["Schema", to`/event-types/${name}/schema`],
      ["Consumers", to`/event-types/${name}/consumers`],
      ["Producers", to`/event-types/${name}/producers`],
      ...(rights.admin ? [["Settings", to`/event-types/${name}/settings`]] : []),
    ]} />`;
}

/** A link to an event type. */
export function EventTypeLink({ name, limit = 80 }) {
  return html`<a href=${to`/event-types/${name}`}><${Text} limit=${limit}>${name}<//></a>`;
}

/** List the consumers of an event type with their names for people, gaps and lags. */
export async function listConsumers(name, signal) {
  const [{ items }, groups] = await Promise.all([get(path`/event-types/${name}/consumers`, { signal }), getAll(`/groups${query({ event_type: name, limit: 1000 })}`, 10_000, { signal })]);
  const known = new Map(groups.map((each) => [`${each.kind} ${each.name}`, each]));
  return items.map((each) => {
    const group = known.get(`${each.kind} ${each.group}`);
    return {
      ...each, gap: group?.gap, lag_seconds: group?.lag_seconds, event_types: group?.event_types.length ?? 1,
      label: nameOf({ ...each, name: each.group, consumer_group: group?.consumer_group ?? each.group }),
    };
  });
}
