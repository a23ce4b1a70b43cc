"""What the demo prints: how long things took, how late the carriers were, where to look further."""

import calendar
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.output import counted, number
from penstock_demo.daily import DAILY
from penstock_demo.dataset import DEPARTED
from penstock_demo.delays import Delay, Stop
from penstock_demo.flagging import FLAGGED
from penstock_demo.flags import Kill
from penstock_demo.picture import by_lateness, mean

WIDE: Final = 126
"""Columns that airlines' names take; where there are fewer, carriers' codes must do."""

_SHADES: Final = ((0, "cyan"), (10, "default"), (15, "yellow"), (22, "dark_orange"), (float("inf"), "red"))


class Step(NamedTuple):
    """Something that was done."""

    name: str
    rows: int
    seconds: float


def print_steps(console: Console, steps: Sequence[Step]) -> None:
    """Print what was done, how much of it, and how fast."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("step")
    for title in ("rows", "seconds", "rows/s"):
        table.add_column(title, justify="right")
    for name, rows, seconds in steps:
        rate = number(round(rows / seconds)) if rows and seconds > 0 else "-"
        table.add_row(name, number(rows) if rows else "-", f"{seconds:.1f}", rate)
    table.add_row("in all", "", f"{sum(step.seconds for step in steps):.1f}", "", style="bold")
    console.print(table)


def print_delays(console: Console, delays: Sequence[Delay]) -> None:
    """Print the read model: mean departure delays by carrier and month, those of the latest carrier first."""
    wide = console.width >= WIDE
    table = Table(
        title="Mean departure delay in minutes",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1) if wide else 0,
    )
    table.add_column("carrier", no_wrap=True)
    for month in range(1, 13):
        table.add_column(calendar.month_abbr[month], justify="right", no_wrap=True)
    table.add_column("year", justify="right", style="bold", no_wrap=True)
    table.add_column("flights", justify="right", no_wrap=True)
    table.add_column("late", justify="right", no_wrap=True)
    for carrier, airline in by_lateness(delays):
        own = [delay for delay in delays if delay.carrier == carrier]
        by_month = {delay.month: delay.departure_delay for delay in own}
        departed = sum(delay.flights - delay.cancelled for delay in own)
        late = sum((delay.late_share or 0) * (delay.flights - delay.cancelled) for delay in own) / max(departed, 1)
        cells = [_shaded(by_month.get(month)) for month in range(1, 13)]
        flights = number(sum(delay.flights for delay in own))
        table.add_row(airline if wide else carrier, *cells, _shaded(mean(own)), flights, f"{late:.0%}")
    console.print(table)


def print_restarts(console: Console, stop: Stop | None, kill: Kill | None) -> None:
    """Print what was done before and after what was stopped in the middle, if anything was."""
    if stop is not None or kill is not None:
        console.print(Text("What restarts in the middle did", "bold"))
    if stop is not None:
        console.print(f"  {_stop_told(stop)}")
    if kill is not None:
        console.print(f"  {_kill_told(kill)}\n")


def _stop_told(stop: Stop) -> str:
    if stop.before:
        return (
            f"The read model was stopped with {counted(stop.before, 'flight')} in its rows, and {number(stop.lost)}"
            f" more that were folded and not written. Begun again, it folded the {number(stop.after)} that its rows did"
            " not have, and none twice."
        )
    return (
        f"The read model was stopped before it had any rows: {counted(stop.lost, 'flight')} had been folded and not"
        f" written. Begun again, it folded all {number(stop.after)}, and none twice."
    )


def _kill_told(kill: Kill) -> str:
    flags = counted(kill.doubtful, "flag")
    if kill.before:
        told = (
            f"The process that flags was killed with {counted(kill.before, 'flight')} handled, and {flags} that were"
            f" published and not noted down. Begun again, it handled the other {number(kill.after)}"
        )
    else:
        told = (
            "The process that flags was killed before it had noted any flight down as handled; it had published"
            f" {flags} by then. Begun again, it handled all {number(kill.after)}"
        )
    return f"{told}. What it had published was found in the feed, and not published again."


def print_places(console: Console, directory: Path, picture: Path) -> None:
    """Print where everything lies, and the commands that show more."""
    shown = _relative(directory)
    address = "http://127.0.0.1:8080"
    console.print(Text("Where it lies", "bold"))
    for path, what in (
        (f"{shown}/penstock.db", "the hub's database: event types, feeds, everything"),
        (f"{shown}/lake/", "the feeds as typed Parquet, and how far it is"),
        (f"{shown}/checkpoints/", "how far the delays by day are"),
        (f"{shown}/read_model.db", "delays by carrier and month: SQLite, with views"),
        (f"{shown}/flagging.db", "which aircraft are late in a row, and how far flagging is: SQLite"),
        (_relative(picture), "the picture"),
        (f"{shown}/*.log", "what the hub, Spark and the process that flags had to say"),
    ):
        console.print(Text(f"  {path:<{len(shown) + 14}}", "cyan") + Text(f"  {what}"), soft_wrap=True)
    console.print(Text("\nHow to look further", "bold"))
    for command, why in (
        (f".venv/bin/penstock serve --database sqlite:///{shown}/penstock.db", "start the hub again; then, elsewhere:"),
        (f".venv/bin/penstock tail {DEPARTED} -n 3 --no-follow", "the last events of each partition"),
        (f".venv/bin/penstock tail {DEPARTED} --from first --key N14228", "one aircraft's year"),
        (f".venv/bin/penstock tail {DAILY} --from first --key HA", "one carrier's days, as they were counted"),
        (f".venv/bin/penstock tail {FLAGGED} --from first --key N14228", "when it was late three times in a row"),
        (f"sqlite3 {shown}/read_model.db 'SELECT * FROM delays'", "the read model by hand"),  # noqa: S608
        (
            f".venv/bin/penstock checkpoint show flagging --database sqlite:///{shown}/flagging.db",
            "how far flagging is",
        ),
        (".venv/bin/penstock groups", "who reads what, and how far behind they are"),
        (f"curl '{address}/feeds/{DEPARTED}?n=4&cursor0=_first&pagesizehint=3'", "the same by hand (ZeroEventHub)"),
        (f"curl {address}/event-types", "what there is"),
    ):
        console.print(Text(f"  {command}", "green") + Text(f"   # {why}", "dim"), soft_wrap=True)


def _shaded(minutes: float | None) -> Text:
    if minutes is None:
        return Text("-", "dim")
    return Text(f"{minutes:.0f}", next(style for limit, style in _SHADES if minutes <= limit))


def _relative(path: Path) -> str:
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()
