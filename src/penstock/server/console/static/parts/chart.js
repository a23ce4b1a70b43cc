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

/**
 * Lines over time.
 *
 * @param {{times: number[], series: {name: string, values: number[]}[], unit: (value: number) => string}} given
 *   times are seconds since 1970
 */
export function Chart({ times, series, unit = format.rate, label, height = 190 }) {
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
        axes: [{ ...axis, space: 80, values: (_plot, stamps) => stamps.map((stamp) => format.time(stamp * 1000).slice(11, 19)) }, { ...axis, size: 60, values: (_plot, values) => values.map(unit) }],
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
  return html`<div class="chart" role="img" aria-label="${label}: ${last}" ref=${box}></div>`;
}
