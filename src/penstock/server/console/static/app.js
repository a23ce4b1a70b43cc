// The console: its frame, and the table of its views.
import { html, render, useCallback, useEffect, useRef, useState } from "./vendor/preact.js";
import { get, keepToken, readToken } from "./core/api.js";
import * as format from "./core/format.js";
import { IS_EXACT } from "./core/json.js";
import { findView, followLinks, to, usePlace } from "./core/routing.js";
import { CallerContext } from "./core/state.js";
import { Failure, Title } from "./parts/parts.js";
import { Audit } from "./pages/audit.js";
import { ColdTier } from "./pages/cold.js";
import { Consumer } from "./pages/consumer.js";
import { Consumers } from "./pages/consumers.js";
import { EventType } from "./pages/event_type.js";
import { EventTypes } from "./pages/event_types.js";
import { Events } from "./pages/events.js";
import { NewEventType } from "./pages/new_event_type.js";
import { Outbox } from "./pages/outbox.js";
import { Overview } from "./pages/overview.js";
import { Producers } from "./pages/producers.js";
import { Settings } from "./pages/settings.js";
import { Tokens } from "./pages/tokens.js";

const VIEWS = [
  ["/", Overview],
  ["/event-types", EventTypes],
  ["/event-types/:name", EventType],
  ["/event-types/:name/events", Events],
  ["/event-types/:name/:tab", EventType],
  ["/new-event-type", NewEventType],
  ["/consumers", Consumers],
  ["/consumers/:name", Consumer],
  ["/consumers/:name/:tab", Consumer],
  ["/producers", Producers],
  ["/outbox", Outbox],
  ["/cold-tier", ColdTier],
  ["/settings", Settings],
  ["/tokens", Tokens],
  ["/audit-log", Audit],
];

/** Label, address and path of each entry, and the right on the hub without which it is not shown; null begins a group. */
const NAVIGATION = [
  ["Overview", to`/`, "/"],
  ["Event types", to`/event-types`, "/event-types"],
  ["Consumers", to`/consumers`, "/consumers"],
  ["Producers", to`/producers`, "/producers"],
  [null, "Operations", "", "monitor"],
  ["Outbox", to`/outbox`, "/outbox", "monitor"],
  ["Cold tier", to`/cold-tier`, "/cold-tier", "monitor"],
  ["Settings", to`/settings`, "/settings", "administer"],
  ["Tokens", to`/tokens`, "/tokens", "administer"],
  ["Audit log", to`/audit-log`, "/audit-log", "monitor"],
];

function Side({ path, caller, onSignOut }) {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme ?? "");
  const [utc, setUtc] = useState(format.isUtc());
  const nav = useRef(null);
  useEffect(() => {
    // On a narrow screen the entries are a row that scrolls.
    const here = nav.current.querySelector("[aria-current=page]");
    if (here) nav.current.scrollLeft = here.offsetLeft - nav.current.offsetLeft - (nav.current.clientWidth - here.offsetWidth) / 2;
  }, [path]);
  function chooseTheme(event) {
    const chosen = event.target.value;
    if (chosen) document.documentElement.dataset.theme = chosen;
    else delete document.documentElement.dataset.theme;
    localStorage.setItem("penstock.theme", chosen);
    setTheme(chosen);
    window.dispatchEvent(new Event("penstock:place"));
  }
  function chooseZone(event) {
    format.keepUtc(event.target.value === "utc");
    setUtc(event.target.value === "utc");
    window.dispatchEvent(new Event("penstock:place"));
  }
  const isHere = (place) => (place === "/" ? path === "/" : path === place || path.startsWith(`${place}/`) || (place === "/event-types" && path === "/new-event-type"));
  return html`<div class="side">
    <a class="brand" href=${to`/`}><img src=${`${to`/`}assets/icon.svg`} alt="" />Penstock</a>
    <nav ref=${nav} aria-label="Console">
      ${NAVIGATION.filter(([, , , right]) => !right || caller?.hub?.[right] !== false).map(([label, address, place]) => label === null
        ? html`<span class="heading">${address}</span>`
        : html`<a key=${address} href=${address} aria-current=${isHere(place) ? "page" : null}>${label}</a>`)}
    </nav>
    <div class="foot">
      <label>Theme<select value=${theme} onChange=${chooseTheme}><option value="">System</option><option value="light">Light</option><option value="dark">Dark</option></select></label>
      <label>Times<select value=${utc ? "utc" : "local"} onChange=${chooseZone}><option value="local">Local</option><option value="utc">UTC</option></select></label>
      ${caller && html`<div>${caller.method ? html`Signed in as <strong>${format.line(caller.name, 60)}</strong>` : "Callers are not authenticated."}
        ${readToken() && html` <button class="plain" onClick=${onSignOut}>Sign out</button>`}</div>`}
      <div><a href=${`${to`/`}../docs`} target="_blank" rel="noreferrer">API</a></div>
    </div>
  </div>`;
}

function SignIn({ hasEnded, onDone }) {
  const [token, setToken] = useState("");
  const [error, setError] = useState(null);
  async function submit(event) {
    event.preventDefault();
    if (!/^[\x21-\x7e]+$/.test(token.trim())) {
      setError({ message: "That is no token.", hint: "A token has letters, digits and signs of ASCII, and no spaces. Was it shortened when it was copied?" });
      return;
    }
    keepToken(token.trim());
    try {
      onDone(await get("/caller"));
    } catch (failure) {
      keepToken("");
      setError(failure);
    }
  }
  return html`<main class="sign-in card">
    <${Title} lead=${hasEnded ? "Your token is no longer valid: it has expired, or was revoked." : "This hub asks callers who they are."}>Sign in<//>
    <form class="fields" onSubmit=${submit}>
      <label>Token<input type="password" autocomplete="off" required value=${token} onInput=${(event) => setToken(event.target.value)} /></label>
      <p class="quiet">An administrator makes one with <code>penstock token create NAME</code>. It stays in this tab until you sign out or close it.</p>
      <${Failure} error=${error?.status === 401 ? { message: "The hub does not know this token.", hint: "Was it revoked, or cut when it was copied?" } : error} />
      <div><button class="primary">Sign in</button></div>
    </form>
  </main>`;
}

const ROUNDS_READ = "penstock.rounds-read";

/** Says once to those whose browser rounds large numbers that it does. */
function Rounds() {
  const [isRead, setRead] = useState(IS_EXACT || localStorage.getItem(ROUNDS_READ) === "1");
  function close() {
    localStorage.setItem(ROUNDS_READ, "1");
    setRead(true);
  }
  if (isRead) return null;
  return html`<div class="message warn" role="status">This browser shows whole numbers beyond 2^53 (9,007,199,254,740,992) rounded, such as long ids in events. <em>Raw</em> shows an event as it is written. A newer browser shows them exactly. <button onClick=${close}>Close</button></div>`;
}

function NotFound({ path }) {
  return html`<${Title}>There is no such page<//><p>The console has nothing at <code>${format.line(path)}</code>. <a href=${to`/`}>Go to the overview.</a></p>`;
}

function App() {
  const { path } = usePlace();
  const [caller, setCaller] = useState(undefined);
  const [hasEnded, setEnded] = useState(false);
  const [error, setError] = useState(null);
  const look = useCallback(async () => {
    try {
      setCaller(await get("/caller"));
      setError(null);
    } catch (failure) {
      if (failure.status === 401) setCaller(null);
      else setError(failure);
    }
  }, []);
  useEffect(() => {
    look();
    const signIn = () => {
      if (readToken()) {
        keepToken("");
        setEnded(true);
      }
      setCaller(null);
    };
    window.addEventListener("penstock:unauthenticated", signIn);
    return () => window.removeEventListener("penstock:unauthenticated", signIn);
  }, [look]);
  useEffect(() => {
    document.querySelector("main h1")?.focus({ preventScroll: true });
  }, [path]);
  if (caller === null) return html`<${SignIn} hasEnded=${hasEnded} onDone=${setCaller} />`;
  if (error && !caller) return html`<main><${Title}>The hub does not answer<//><${Failure} error=${error} retry=${look} /></main>`;
  if (caller === undefined) return null;
  const found = findView(VIEWS, path);
  const signOut = () => {
    keepToken("");
    setEnded(false);
    setCaller(null);
    look();
  };
  return html`<${CallerContext.Provider} value=${caller}>
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>Skip to the page</a>
    <div class="frame">
      <${Side} path=${path} caller=${caller} onSignOut=${signOut} />
      <main id="main" tabindex="-1"><${Rounds} />${found ? html`<${found.view} key=${path} ...${found.parts} />` : html`<${NotFound} path=${path} />`}</main>
    </div>
  </${CallerContext.Provider}>`;
}

followLinks();
render(html`<${App} />`, document.getElementById("app"));
