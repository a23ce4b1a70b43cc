// A chart over time, drawn by uPlot.
import { html, useEffect, useRef } from "../vendor/preact.js";
import uPlot from "../vendor/uplot.js";
import * as format from "../core/format.js";

/** Return the colour that a variable of the style sheet has in the theme of today. */
function colour(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

const SOON = "The first points come in a few seconds.";
const MINUTE = 60;
const HOUR = 3600;
const DAY = 86_400;
/** Between two times on an axis, in seconds: labels have whole ones. */
const TIME_STEPS = [1, 2, 5, 10, 15, 30, ...[1, 2, 5, 10, 15, 30].map((each) => each * MINUTE), ...[1, 2, 3, 6, 12].map((each) => each * HOUR), ...[1, 7, 30, 365].map((each) => each * DAY)];
/** Between two durations on an axis, in seconds, for `steps`. */
export const DURATION_STEPS = [0.1, 0.2, 0.5, ...TIME_STEPS.slice(0, -3), ...[2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000].map((each) => each * DAY)];

/**
 * Lines over time. A line says that points come soon, until there are two.
 *
 * @param {{times: number[], series: {name: string, values: (number | null)[]}[], unit: (value: number) => string, steps?: number[]}} given
 *   times are seconds since 1970, ascending; lines have a hole where a value is null; one of *steps* is between two
 *   labels of the axis of values
 */
export function Chart({ times, series, unit = format.rate, steps, label, height = 190 }) {
  const isWaiting = times.length < 2;
  const box = useRef(null);
  const plot = useRef(null);
  const theme = document.documentElement.dataset.theme ?? "";
  useEffect(() => {
    const axis = { stroke: colour("quiet"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 }, font: "12px system-ui" };
    const zone = (stamp) => (format.isUtc() ? uPlot.tzDate(new Date(stamp * 1000), "UTC") : new Date(stamp * 1000));
    const made = new uPlot(
      {
        width: Math.max(120, box.current.clientWidth),
        height,
        tzDate: zone,
        cursor: { y: false },
        scales: { y: { range: (_plot, _low, high) => [0, Math.max(1, (high || 0) * 1.15)] } },
        axes: [{ ...axis, space: 80, incrs: TIME_STEPS, values: (_plot, stamps) => stamps.map((stamp) => format.time(stamp * 1000).slice(11, 19)) }, { ...axis, size: steps ? 80 : 60, incrs: steps, values: (_plot, values) => values.map(unit) }],
        series: [
          { value: (_plot, stamp) => (stamp === null || stamp === undefined ? "–" : format.time(stamp * 1000)) },
          ...series.map((each, at) => ({
            label: each.name,
            stroke: colour(`series-${(at % 2) + 1}`),
            fill: series.length === 1 ? `${colour("series-1").replace("rgb(", "rgba(").replace(")", ", 0.12)")}` : undefined,
            width: 2,
            points: { show: false },
            value: (_plot, value) => unit(value),
          })),
        ],
      },
      [times, ...series.map((each) => each.values)],
      box.current,
    );
    plot.current = made;
    const watcher = new ResizeObserver(() => made.setSize({ width: Math.max(120, box.current.clientWidth), height }));
    watcher.observe(box.current);
    return () => {
      watcher.disconnect();
      made.destroy();
    };
  }, [theme, series.length]);
  useEffect(() => plot.current?.setData([times, ...series.map((each) => each.values)]), [times, series]);
  const last = series.map((each) => `${each.name} ${unit(each.values.at(-1) ?? 0)}`).join(", ");
  return html`<div class="chart ${isWaiting ? "waiting" : ""}" role="img" aria-label="${label}: ${isWaiting ? SOON : last}">
    <div ref=${box}></div>
    <p class="quiet" hidden=${!isWaiting}>${SOON}</p>
  </div>`;
}
