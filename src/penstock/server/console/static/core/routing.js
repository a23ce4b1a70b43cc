// Finds the view of the address, and changes the address without loading the page again.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";

const BASE = new URL(document.baseURI).pathname;

/** Return the address of a view: to`/event-types/${name}`. */
export function to(texts, ...values) {
  const path = texts.map((text, at) => text + (at < values.length ? encodeURIComponent(values[at]) : "")).join("");
  return BASE + path.replace(/^\//, "");
}

/** Return where the browser is, below the console: its path and its query. */
export function readPlace() {
  const path = location.pathname.startsWith(BASE) ? `/${location.pathname.slice(BASE.length)}` : "/";
  return { path: path.replace(/\/+$/, "") || "/", search: new URLSearchParams(location.search) };
}

/** Go to a view. */
export function go(address, { replace = false } = {}) {
  if (replace) history.replaceState(history.state, "", address);
  else history.pushState({ before: normalize() }, "", address);
  window.dispatchEvent(new Event("penstock:place"));
}

/** Return the address of this tab that Back leads to; undefined if the console did not lead from there. */
export function addressBefore() {
  return history.state?.before;
}

/** The address that is shown, its query written as the console writes queries. */
function normalize() {
  const text = new URLSearchParams(location.search).toString();
  return location.pathname + (text ? `?${text}` : "");
}

/** Change members of the address's query, so that what is seen can be shared; "" removes a member. */
export function keepInAddress(members) {
  const { search } = readPlace();
  for (const [name, value] of Object.entries(members)) {
    if (value === "" || value === null || value === undefined) search.delete(name);
    else search.set(name, value);
  }
  const text = search.toString();
  go(location.pathname + (text ? `?${text}` : ""), { replace: true });
}

/** Use the place where the browser is; the component is drawn again when it changes. */
export function usePlace() {
  const [place, setPlace] = useState(readPlace);
  useEffect(() => {
    const update = () => setPlace(readPlace());
    window.addEventListener("popstate", update);
    window.addEventListener("penstock:place", update);
    return () => {
      window.removeEventListener("popstate", update);
      window.removeEventListener("penstock:place", update);
    };
  }, []);
  return place;
}

/** Follow links inside of the console without loading the page again. */
export function followLinks() {
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target.closest?.("a[href]");
    if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
    if (!`${link.pathname}/`.startsWith(BASE) || link.pathname.startsWith(`${BASE}assets/`)) return;
    event.preventDefault();
    if (link.href !== location.href) go(link.href);
    window.scrollTo(0, 0);
  });
}

/**
 * Find the view of a path.
 *
 * @param {[string, Function][]} table patterns such as "/event-types/:name", and their views
 * @returns {{view: Function, parts: object} | null}
 */
export function findView(table, path) {
  const given = path.split("/");
  for (const [pattern, view] of table) {
    const wanted = pattern.split("/");
    if (wanted.length !== given.length) continue;
    const parts = {};
    const fits = wanted.every((each, at) => {
      if (!each.startsWith(":")) return each === given[at];
      try {
        parts[each.slice(1)] = decodeURIComponent(given[at]);
      } catch {
        return false;
      }
      return given[at] !== "";
    });
    if (fits) return { view, parts };
  }
  return null;
}

/** Return the path of an address without its escapes: browsers keep some characters that `to` escapes, such as ":". */
function decodePath(address) {
  try {
    return address.split("/").map(decodeURIComponent).join("\0");
  } catch {
    return address;
  }
}

/** Tabs whose addresses can be shared: [label, address] each. */
export function Tabs({ items, label }) {
  const { path } = usePlace();
  const here = decodePath(BASE + path.replace(/^\//, ""));
  const nav = useRef(null);
  useEffect(() => {
    // On a narrow screen the tabs are a row that scrolls.
    const tab = nav.current.querySelector("[aria-current=page]");
    if (tab) nav.current.scrollLeft = tab.offsetLeft - nav.current.offsetLeft - (nav.current.clientWidth - tab.offsetWidth) / 2;
  }, [here]);
  return html`<nav ref=${nav} class="tabs" aria-label=${label}>
    ${items.map(([text, address]) => html`<a key=${address} href=${address} aria-current=${here === decodePath(address) ? "page" : null}>${text}</a>`)}
  </nav>`;
}
