// Calls the hub: every route is a public one, with the caller's token.

const TOKEN = "penstock.token";

/** The hub's address: the console is one level below it. */
export const HUB = new URL("..", document.baseURI);

/** A call that the hub has refused or that did not reach it. */
export class CallFailed extends Error {
  /**
   * @param {number} status HTTP's status; 0 if there was no answer
   * @param {object} problem the members of the problem (RFC 9457)
   */
  constructor(status, problem) {
    super(problem.detail || problem.title || `the hub answered ${status}`);
    this.name = "CallFailed";
    this.status = status;
    this.problem = problem;
    this.hint = problem.hint || "";
  }
}

/** The token that calls are sent with; "" if none was entered. */
export function readToken() {
  try {
    return sessionStorage.getItem(TOKEN) ?? "";
  } catch {
    return "";
  }
}

/** Keep *token* for this tab, and no longer; "" forgets it. */
export function keepToken(token) {
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
}

/** Make a path of texts and encoded values: path`/groups/${name}`. */
export function path(texts, ...values) {
  return texts.map((text, at) => text + (at < values.length ? encodeURIComponent(values[at]) : "")).join("");
}

/** Return the query of *members*, with "?"; members that are null, undefined or "" are left out, arrays repeat. */
export function query(members) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(members)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== null && each !== undefined && each !== "") found.append(name, each);
    }
  }
  const text = found.toString();
  return text && `?${text}`;
}

/**
 * Send a request and return the response.
 *
 * @throws {CallFailed} the hub cannot be reached, or answers with an error
 */
export async function request(method, target, { body, accept = "application/json", type, signal } = {}) {
  const headers = { accept };
  const token = readToken();
  if (token) headers.authorization = `Bearer ${token}`;
  if (body !== undefined) headers["content-type"] = type ?? "application/json";
  const sent = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  let response;
  try {
    response = await fetch(new URL(target.replace(/^\//, ""), HUB), { method, headers, body: sent, signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new CallFailed(0, { detail: "the hub does not answer", hint: "Is it running? The console tries again." });
  }
  if (response.ok) return response;
  let problem = {};
  try {
    problem = await response.json();
  } catch {
    problem = { title: `the hub answered ${response.status} ${response.statusText}` };
  }
  if (response.status === 401) window.dispatchEvent(new CustomEvent("penstock:unauthenticated"));
  throw new CallFailed(response.status, problem);
}

/** Get JSON. */
export async function get(target, options) {
  return (await request("GET", target, options)).json();
}

/** Send *body* as JSON and return the JSON of the answer; null if it has none. */
export async function send(method, target, body, options) {
  const text = await (await request(method, target, { body, ...options })).text();
  return text ? JSON.parse(text) : null;
}

/** Get all pages of a list that is linked by `_links.next`, up to *limit* items. */
export async function getAll(target, limit = 10_000, options) {
  const items = [];
  let next = target;
  while (next && items.length < limit) {
    const page = await get(next, options);
    items.push(...(page.items ?? page));
    const href = page._links?.next?.href;
    next = href ? toPath(href) : null;
  }
  return items;
}

/** Return a link of the hub as a path below `HUB`. */
function toPath(href) {
  const url = new URL(href, HUB);
  return url.pathname.slice(HUB.pathname.length - 1) + url.search;
}

/** Yield the lines of a response as JSON, while they arrive. */
export async function* readLines(response) {
  for await (const line of readText(response)) yield JSON.parse(line);
}

/** Yield the lines of a response that are not empty, as text, while they arrive. */
export async function* readText(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) if (line.trim()) yield line;
    }
    if (rest.trim()) yield rest;
  } finally {
    reader.cancel().catch(() => {});
  }
}
