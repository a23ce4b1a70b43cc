// Turns numbers, sizes and times into what people read.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { maximumFractionDigits: 1, notation: "compact" });
const UTC = "penstock.utc";

/** A whole number with separators; "–" if it is not known. */
export function count(value) {
  return value === null || value === undefined || Number.isNaN(value) ? "–" : WHOLE.format(value);
}

/** A number in few characters: 1.2K. */
export function short(value) {
  return value === null || value === undefined || Number.isNaN(value) ? "–" : SHORT.format(value);
}

/** A rate in events per second. */
export function rate(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return `${value > 0 && value < 10 ? value.toFixed(1) : SHORT.format(value)}/s`;
}

/** A size: 1.4 MB. */
export function bytes(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = value;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit && size < 100 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

/** A duration in its two largest units: 2 h 5 min. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  if (!Number.isFinite(seconds)) return "never";
  if (seconds < 0.0005) return "0 s";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  const parts = [["d", 86_400], ["h", 3_600], ["min", 60], ["s", 1]];
  let left = seconds < 600 ? Math.round(seconds) : 60 * Math.round(seconds / 60);
  const found = [];
  for (const [unit, size] of parts) {
    if (left >= size && found.length < 2) {
      found.push(`${Math.floor(left / size)} ${unit}`);
      left %= size;
    } else if (found.length) break;
  }
  return found.join(" ") || "0 s";
}

/** Whether times are shown in UTC rather than in the browser's zone. */
export function isUtc() {
  try {
    return localStorage.getItem(UTC) === "1";
  } catch {
    return false;
  }
}

/** Choose the zone of all times. */
export function keepUtc(value) {
  try {
    localStorage.setItem(UTC, value ? "1" : "0");
  } catch {
    // It holds for this page then.
  }
}

/** A time, given as text of RFC 3339 or in milliseconds: 2026-11-30 15:12:36.781. */
export function time(value, { millis = false } = {}) {
  if (value === null || value === undefined || value === "") return "–";
  const date = new Date(value);
  if (Number.isNaN(date.getTime())) return String(value);
  const local = isUtc() ? date : new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  const text = local.toISOString().replace("T", " ");
  return `${millis ? text.slice(0, 23) : text.slice(0, 19)}${isUtc() ? "Z" : ""}`;
}

/** The same time in both zones, for a tooltip. */
export function bothTimes(value) {
  const date = new Date(value);
  if (Number.isNaN(date.getTime())) return "";
  return `${date.toISOString()} (UTC)\n${date.toString()}`;
}

/** How long ago a time was. */
export function ago(value, now = Date.now()) {
  if (!value) return "never";
  const seconds = (now - new Date(value).getTime()) / 1000;
  return seconds < 1.5 ? "just now" : `${duration(seconds)} ago`;
}

/** A text in one line, cut at *limit* characters; control characters and marks of direction become visible. */
export function line(text, limit = 200) {
  const cut = String(text).slice(0, limit + 1);
  // eslint-disable-next-line no-control-regex
  const plain = cut.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, (c) => {
    const code = c.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : `\\u${code.toString(16).padStart(4, "0")}`;
  });
  return cut.length > limit ? `${plain.slice(0, limit)}…` : plain;
}

/** A text as one word of a shell's command, whatever it has: others choose the names of their groups. */
export function quote(text) {
  return /^[\w.@%+:,/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** A name as an argument of a command: it is no option of it, even if it begins with "-". */
export function argument(name) {
  return `${name.startsWith("-") ? "-- " : ""}${quote(name)}`;
}

/** A text of one or more lines, in which control characters and marks of direction become visible. */
export function text(value) {
  return String(value ?? "").split("\n").map((each) => line(each, each.length)).join("\n");
}

/** "1 event", "2 events". */
export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}
