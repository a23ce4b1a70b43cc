// State that views share: what is polled, who the caller is, and the rates of the last minutes.
import { createContext, useCallback, useContext, useEffect, useRef, useState } from "../vendor/preact.js";
import { get } from "./api.js";

/** The caller and its rights, as `GET /caller` tells them. */
export const CallerContext = createContext(null);

/** Use the caller's rights on the hub: {administer, monitor, create, delete, issue_tokens}. */
export function useRights() {
  return useContext(CallerContext)?.hub ?? {};
}

/**
 * Use what *load* returns, again every *seconds* while the page is visible. What was seen last stays while it is loaded.
 *
 * @param {(signal: AbortSignal) => Promise<any>} load
 * @param {number} seconds 0 loads once
 * @param {any[]} inputs loads again at once when one of them changes
 * @returns {{value: any, error: Error | null, refresh: () => void}}
 */
export function usePolled(load, seconds, inputs = []) {
  const [found, setFound] = useState({ value: undefined, error: null });
  const current = useRef(load);
  current.current = load;
  const [turn, setTurn] = useState(0);
  useEffect(() => setFound({ value: undefined, error: null }), inputs);
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    let isFirst = true;
    let isRunning = false;
    async function run() {
      isRunning = true;
      if (isFirst || !document.hidden) {
        isFirst = false;
        try {
          const value = await current.current(stop.signal);
          if (!stop.signal.aborted) setFound({ value, error: null });
        } catch (error) {
          if (stop.signal.aborted || error.name === "AbortError") return;
          setFound((before) => ({ value: before.value, error }));
        }
      }
      isRunning = false;
      if (seconds && !stop.signal.aborted) timer = setTimeout(run, seconds * 1000);
    }
    function runIfSeen() {
      if (!seconds || isRunning || document.hidden) return;
      clearTimeout(timer);
      run();
    }
    document.addEventListener("visibilitychange", runIfSeen, { signal: stop.signal });
    run();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [seconds, turn, ...inputs]);
  const refresh = useCallback(() => setTurn((before) => before + 1), []);
  return { ...found, refresh };
}

/** Use a JSON answer of the hub, again every *seconds*. */
export function useAnswer(target, seconds = 0) {
  return usePolled((signal) => (target ? get(target, { signal }) : Promise.resolve(undefined)), seconds, [target]);
}

/** The caller's rights on an `event_type`, a `subscription` or a `group`: {view, read, …}; {} until they are known. */
export function useRightsOn(kind, name) {
  const { value } = useAnswer(`/caller?${kind}=${encodeURIComponent(name)}`);
  return value?.[`${kind}s`]?.[name] ?? {};
}

/** Whether the audit log records changes; undefined while that is not known, or if the caller may not ask. */
export function useAuditLog(enabled = true) {
  const { administer } = useRights();
  const { value } = useAnswer(enabled && administer ? "/settings/features" : null);
  return value?.items.find((each) => each.feature === "audit_log_collection")?.enabled;
}

const KEPT_SECONDS = 900;

/** Counters of the hub over the last quarter of an hour, from which rates come. */
class History {
  constructor() {
    /** @type {{at: number, counters: Map<string, number>, gauges: Map<string, number>}[]} */
    this.samples = [];
  }

  /** Add the members of `GET /metrics` in JSON. */
  add(answer) {
    const read = (members, field) => new Map(Object.entries(members ?? {}).map(([name, each]) => [name, each[field]]));
    const sample = { at: Date.now() / 1000, counters: read(answer.counters, "count"), gauges: read(answer.gauges, "value") };
    const last = this.samples.at(-1);
    const name = "process_cpu_seconds_total";
    // Another hub process behind the same address, or one that began anew: its counters do not continue these.
    if (last && sample.counters.get(name) < last.counters.get(name)) this.samples = [];
    this.samples.push(sample);
    this.samples = this.samples.filter((each) => each.at > sample.at - KEPT_SECONDS);
    return sample;
  }

  get last() {
    return this.samples.at(-1);
  }

  /** The sums of counters whose name begins with one of *prefixes*, as [times, rates per second]. */
  rates(prefixes) {
    const times = [];
    const rates = [];
    for (let at = 1; at < this.samples.length; at += 1) {
      const before = this.samples[at - 1];
      const after = this.samples[at];
      times.push(after.at);
      rates.push(Math.max(0, (sum(after.counters, prefixes) - sum(before.counters, prefixes)) / Math.max(after.at - before.at, 0.001)));
    }
    return [times, rates];
  }

  /** The rate of one counter over the last *seconds*; null if it is not known yet, or counted among others. */
  rateOf(name, seconds = 60) {
    const last = this.last;
    const first = this.samples.find((each) => each.at >= (last?.at ?? 0) - seconds);
    if (!last || !first || first === last) return null;
    if (!last.counters.has(name) && last.counters.has(name.replace(/event_type="[^"]*"/, `event_type="${OTHERS}"`))) return null;
    return Math.max(0, ((last.counters.get(name) ?? 0) - (first.counters.get(name) ?? 0)) / (last.at - first.at));
  }

  /** The counters over the last *seconds*: what each has grown by; all of them since the first sample if that is younger. */
  growth(seconds) {
    const last = this.last;
    const first = this.samples.find((each) => each.at >= (last?.at ?? 0) - seconds);
    return new Map([...(last?.counters ?? [])].map(([name, value]) => [name, value - (first.counters.get(name) ?? 0)]));
  }

  /** The values of a gauge or the rates of a counter over time, for a small chart. */
  rateSeries(name) {
    return this.rates([name])[1];
  }
}

function sum(counters, prefixes) {
  let total = 0;
  for (const [name, value] of counters) if (prefixes.some((prefix) => name.startsWith(prefix))) total += value;
  return total;
}

export const history = new History();

/** The event type under which the hub counts those that have no counter of their own: there are too many. */
export const OTHERS = "(others)";

/** Return the labels of a metric's name: `a{b="c"}` → {b: "c"}. */
export function labelsOf(name) {
  const found = {};
  for (const [, label, value] of name.matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)) found[label] = value.replace(/\\(.)/g, "$1");
  return found;
}

/** Return [labels, value] of each metric with that name in a map of `History`. */
export function metricsNamed(members, name) {
  return [...(members ?? [])].filter(([each]) => each === name || each.startsWith(`${name}{`)).map(([each, value]) => [labelsOf(each), value]);
}

/** Use the hub's metrics, measured every *seconds*; the value is the last sample. Needs the right `monitor`. */
export function useMetrics(seconds = 2, { enabled = true } = {}) {
  return usePolled(
    async (signal) => (enabled ? history.add(await get("/metrics", { signal })) : undefined),
    enabled ? seconds : 0,
    [enabled],
  );
}
