// Tokens by which callers identify themselves: make, rotate and revoke them.
import { html, useContext, useMemo, useState } from "../vendor/preact.js";
import { path, send } from "../core/api.js";
import * as format from "../core/format.js";
import { keepInAddress, to, usePlace } from "../core/routing.js";
import { CallerContext, useAnswer, useRights } from "../core/state.js";
import { Badge, Card, Command, Confirm, Copy, Dialog, Loaded, Table, Text, Time, Title } from "../parts/parts.js";

const DAY = 86_400;
const LIFETIMES = [["30 days", 30 * DAY], ["90 days", 90 * DAY], ["1 year", 365 * DAY], ["without end", 0]];
const OVERLAPS = [["1 hour", 3600], ["1 day", DAY], ["7 days", 7 * DAY], ["not at all", 0]];
const SOON_SECONDS = 14 * DAY;

/** The view of all tokens. */
export function Tokens() {
  const { administer, issue_tokens: mayIssue } = useRights();
  const { search } = usePlace();
  const caller = search.get("caller") ?? "";
  const tokens = useAnswer(administer !== false ? "/tokens" : null, 15);
  const [asks, setAsks] = useState(null);
  const [secret, setSecret] = useState(null);
  const [revoked, setRevoked] = useState(null);
  if (administer === false) return html`<${Title}>Tokens<//><p class="message warn">Tokens are for administrators of the hub, of which this token's caller is none.</p>`;
  const close = (done) => {
    setAsks(null);
    if (done) tokens.refresh();
  };
  return html`
    <${Title} lead="Each caller sends one with its requests. Rights belong to the caller's name, not to the token."
      buttons=${mayIssue !== false && html`<button class="primary" onClick=${() => setAsks({ what: "create" })}>New token …</button>`}>Tokens<//>
    <div class="stack">
      ${mayIssue === false && html`<div class="message"><strong>This hub does not authenticate its callers,</strong> so it hands out no tokens here. Make one where the database is, and serve with <code>--auth token</code>:<${Command}>penstock token create NAME<//></div>`}
      ${revoked && html`<${Revoked} answer=${revoked} />`}
      <div class="toolbar" role="search"><label>Caller has<input type="search" placeholder="service:billing" value=${caller} onInput=${(event) => keepInAddress({ caller: event.target.value })} /></label></div>
      <${Card} flush>
        <${Loaded} answer=${tokens}>${({ items }) => html`<${List} items=${items} text=${caller.toLowerCase()} mayIssue=${mayIssue !== false} onAsk=${setAsks} />`}<//>
      <//>
      <p class="quiet">Who has changed tokens: <a href=${to`/audit-log?type=token`}>audit log</a>.</p>
    </div>
    ${asks?.what === "create" && html`<${Create} onClose=${close} onMade=${setSecret} />`}
    ${asks?.what === "rotate" && html`<${Rotate} token=${asks.token} onClose=${close} onMade=${setSecret} />`}
    ${asks?.what === "revoke" && html`<${Revoke} token=${asks.token} all=${tokens.value?.items ?? []} onClose=${close} onRevoked=${setRevoked} />`}
    ${secret && !asks && html`<${Secret} made=${secret} onClose=${() => setSecret(null)} />`}`;
}

function isExpired(token, now = Date.now()) {
  return token.expires_at !== null && new Date(token.expires_at).getTime() <= now;
}

function List({ items, text, mayIssue, onAsk }) {
  const rows = useMemo(() => items.filter((each) => each.caller.toLowerCase().includes(text)), [items, text]);
  return html`<${Table} keep="" label="Tokens" rows=${rows} keyOf=${(row) => row.id} order=${{ name: "Caller" }} empty=${text ? "No caller has such a name." : "There are no tokens yet."} columns=${[
    { name: "Caller", value: (row) => row.caller, cell: (row) => html`<strong><${Text} limit=${80}>${row.caller}<//></strong>` },
    { name: "Token", mono: true, cell: (row) => html`<${Text} mono>${row.id}<//>` },
    { name: "Created", value: (row) => row.created_at, cell: (row) => html`<${Time} value=${row.created_at} />` },
    { name: "Expires", value: (row) => row.expires_at ?? "9999", cell: (row) => html`<${Expiry} token=${row} />` },
    { name: "Used last", value: (row) => row.used_at ?? "", cell: (row) => (row.used_at ? html`<${Time} value=${row.used_at} relative />` : html`<span class="quiet">never</span>`) },
    { name: "", cell: (row) => html`<div class="buttons">${mayIssue && !isExpired(row) && html`<button aria-label=${`Rotate ${row.id} of ${row.caller}`} onClick=${() => onAsk({ what: "rotate", token: row })}>Rotate …</button>`}
      <button aria-label=${`Revoke ${row.id} of ${row.caller}`} onClick=${() => onAsk({ what: "revoke", token: row })}>Revoke …</button></div>` },
  ]} />`;
}

function Expiry({ token }) {
  if (token.expires_at === null) return html`<span class="quiet">never</span>`;
  const left = (new Date(token.expires_at).getTime() - Date.now()) / 1000;
  return html`<${Time} value=${token.expires_at} /> ${left <= 0 ? html`<${Badge} tone="bad">expired<//>` : left < SOON_SECONDS ? html`<${Badge} tone="warn">in ${format.duration(left)}<//>` : null}`;
}

function Create({ onClose, onMade }) {
  const [name, setName] = useState("");
  const [type, setType] = useState("service");
  const [lifetime, setLifetime] = useState(90 * DAY);
  const [admin, setAdmin] = useState(false);
  const act = async () => onMade(await send("POST", "/tokens", { name: name.trim(), type, expires_in_seconds: lifetime || null, admin }));
  const command = `penstock token create${type === "user" ? " --kind user" : ""}${lifetime ? ` --expires-in ${lifetime / DAY}d` : ""}${admin ? " --admin" : ""} ${format.argument(name.trim() || "NAME")}`;
  return html`<${Confirm} title="New token" verb="Create" danger=${admin} act=${act} onClose=${onClose} command=${command} disabled=${!name.trim()}>
    <div class="toolbar">
      <label>Of a<select value=${type} onChange=${(event) => setType(event.target.value)}><option value="service">service</option><option value="user">person</option></select></label>
      <label>Its name<input class="long" required maxlength="255" value=${name} placeholder=${type === "user" ? "jane" : "billing"} onInput=${(event) => setName(event.target.value)} /></label>
      <label>Valid for<select value=${String(lifetime)} onChange=${(event) => setLifetime(Number(event.target.value))}>${LIFETIMES.map(([words, seconds]) => html`<option key=${words} value=${String(seconds)}>${words}</option>`)}</select></label>
    </div>
    <label class="check"><input type="checkbox" checked=${admin} onChange=${(event) => setAdmin(event.target.checked)} />Make it an administrator of the hub, who may do everything</label>
    <p class="quiet">It may do what the lists of event types and of the hub allow <code>${type}:${format.line(name.trim() || "NAME", 80)}</code>.</p>
  <//>`;
}

function Rotate({ token, onClose, onMade }) {
  const [overlap, setOverlap] = useState(DAY);
  const act = async () => onMade(await send("POST", path`/tokens/${token.id}/rotation`, { overlap_seconds: overlap }));
  return html`<${Confirm} title=${`Rotate a token of ${format.line(token.caller, 80)}?`} verb="Rotate" danger=${overlap === 0} act=${act} onClose=${onClose} command=${`penstock token rotate ${token.id} --overlap ${overlap / 3600}h`}>
    <p>The caller gets another token, valid for as long as the first was. Put it in place while both are valid. A token is rotated once; next time, rotate its successor.</p>
    <label>The old one, <code>${token.id}</code>, stays valid for<select value=${String(overlap)} onChange=${(event) => setOverlap(Number(event.target.value))}>${OVERLAPS.map(([words, seconds]) => html`<option key=${words} value=${String(seconds)}>${words}</option>`)}</select></label>
  <//>`;
}

function Revoke({ token, all, onClose, onRevoked }) {
  const me = useContext(CallerContext);
  const others = all.filter((each) => each.caller === token.caller && each.id !== token.id && !isExpired(each)).length;
  const isMine = me?.method === "token" && `${me.type}:${me.name}` === token.caller;
  return html`<${Confirm} title=${`Revoke a token of ${format.line(token.caller, 80)}?`} verb="Revoke" act=${async () => onRevoked(await send("DELETE", path`/tokens/${token.id}`))} onClose=${onClose} command=${`penstock token revoke ${token.id}`}>
    <p>Every hub refuses it within a second, and ends what its caller reads with it. It cannot be brought back.</p>
    <p>It was ${token.used_at ? html`used last <${Time} value=${token.used_at} relative />` : "never used"}. ${others ? `The caller has ${format.plural(others, "other valid token")}.` : html`<strong>The caller has no other valid token.</strong>`}</p>
    ${isMine && html`<p class="message warn">You are signed in as this caller. If this is the token that you have entered, you will be signed out.</p>`}
  <//>`;
}

function Revoked({ answer }) {
  return html`<div class="message good" role="status">The token ${answer.revoked} of <strong><${Text}>${answer.caller}<//></strong> is revoked; the caller has ${format.plural(answer.valid_tokens, "valid token")} left.
    ${answer.lists.length > 0 && html`<p>It is still one of the hub's ${answer.lists.join(" and ")}: a later token of that name has these rights. <a href=${to`/settings`}>Settings</a></p>`}</div>`;
}

/** The secret of a new token, shown this once: only its button closes it. */
function Secret({ made, onClose }) {
  const file = `${made.caller.split(":").slice(1).join("-").replace(/[^A-Za-z0-9._-]/g, "_")}.token`;
  return html`<${Dialog} title=${`The new token of ${format.line(made.caller, 80)}`} onClose=${() => {}}>
    <p class="message warn"><strong>It is shown this once.</strong> Copy it now, to a place that only its program can read; the hub keeps no more than a digest.</p>
    <div class="row secret"><code>${made.token}</code><${Copy} text=${made.token}>Copy the token<//></div>
    <p class="quiet">It is valid ${made.expires_at ? html`until <${Time} value=${made.expires_at} />` : "without end"}. From a file it is sent so:</p>
    <${Command}>${`curl -H "Authorization: Bearer $(cat ${file})" ${new URL("..", document.baseURI).href}event-types`}<//>
    <div class="buttons"><button class="primary" onClick=${onClose}>I have stored it</button></div>
  <//>`;
}
