// Commands that do the same as the console, on the command line or with curl.
import { HUB, readToken } from "./api.js";
import * as format from "./format.js";

/** Where commands look for a hub that is not named. */
const USUAL_HUB = "http://127.0.0.1:8080";
const OF_THE_HUB = /^penstock (?:groups (?:parked )?[a-z]+|(?:subscription|event-type) [a-z]+|publish|tail)(?= |$)/;
const OF_THE_DATABASE = /^penstock (?:access|cold|doctor|rejected|replicas|retention|token)(?= |$)/;

/** An option of a command with its value, also where that begins with "-". */
export function option(name, value) {
  const text = String(value);
  return `--${name}${text.startsWith("-") ? "=" : " "}${format.quote(text)}`;
}

/** Have a command of `penstock` that calls a hub call this one. */
export function onHub(command) {
  const hub = HUB.href.replace(/\/$/, "");
  return hub === USUAL_HUB ? command : command.replace(OF_THE_HUB, (words) => `${words} ${option("url", hub)}`);
}

/** Return requests of one method to the hub as a command of curl. */
export function curl(method, targets, body) {
  const words = ["curl", `-X ${method}`];
  if (readToken()) words.push('-H "Authorization: Bearer $PENSTOCK_TOKEN"');
  if (body !== undefined) words.push("-H 'Content-Type: application/json'", `-d ${format.quote(JSON.stringify(body))}`);
  for (const target of [targets].flat()) words.push(format.quote(new URL(target.replace(/^\//, ""), HUB).href));
  return words.join(" ");
}

/** Say what a command needs besides itself; "" if it needs nothing. */
export function needs(command) {
  if (OF_THE_DATABASE.test(command)) return ", where PENSTOCK_DATABASE names the hub's database";
  return readToken() ? ", with your token in PENSTOCK_TOKEN" : "";
}
