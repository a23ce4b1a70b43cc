"""The demo's output: durations, the carriers' delays, and where to look further."""

import calendar
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.output import number, plural, table_of
from penstock_demo.access import OPERATOR, RIGHTS, HubAccess
from penstock_demo.cold import ColdHistory, serve_options
from penstock_demo.daily import DAILY
from penstock_demo.dataset import DEPARTED
from penstock_demo.delays import Delay, Stop
from penstock_demo.flagging import FLAGGED
from penstock_demo.flags import Kill
from penstock_demo.picture import by_lateness, mean
from penstock_demo.proof import Proof
from penstock_demo.securing import Security

WIDE: Final = 126
"""Columns that airlines' names take; where there are fewer, carriers' codes must do."""

_SHADES: Final = ((0, "cyan"), (10, "default"), (15, "yellow"), (22, "dark_orange"), (float("inf"), "red"))


class DemoStep(NamedTuple):
    """Something that was done."""

    name: str
    rows: int
    seconds: float


def print_steps(console: Console, steps: Sequence[DemoStep]) -> None:
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


def print_history(console: Console, history: ColdHistory) -> None:
    """Print the content of the cold tier and its readers."""
    data, stored = history.data_bytes / 1e6, history.file_bytes / 1e6
    console.print(
        f"[bold green]{number(history.events)} departures lie in {plural(history.files, 'file')} of the cold tier:"
        f" {data:,.0f} MB of events in {stored:,.1f} MB. Spark has read {number(history.read_by_spark)} across files"
        f" and hub, DuckDB {number(history.read_by_duckdb)} from the files alone.[/]\n"
    )


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
    """Print the progress before and after each process that was stopped in the middle, if any was."""
    if stop is not None or kill is not None:
        console.print(Text("What restarts in the middle did", "bold"))
    if stop is not None:
        console.print(f"  {_stop_told(stop)}")
    if kill is not None:
        console.print(f"  {_kill_told(kill)}\n")


def _stop_told(stop: Stop) -> str:
    if stop.before:
        return (
            f"The read model was stopped with {plural(stop.before, 'flight')} in its rows, and {number(stop.lost)}"
            f" more that were folded and not written. Begun again, it folded the {number(stop.after)} that its rows did"
            " not have, and none twice."
        )
    return (
        f"The read model was stopped before it had any rows: {plural(stop.lost, 'flight')} had been folded and not"
        f" written. Begun again, it folded all {number(stop.after)}, and none twice."
    )


def _kill_told(kill: Kill) -> str:
    flags = plural(kill.doubtful, "flag")
    if kill.before:
        told = (
            f"The process that flags was killed with {plural(kill.before, 'flight')} handled, and {flags} that were"
            f" published and not noted down. Begun again, it handled the other {number(kill.after)}"
        )
    else:
        told = (
            "The process that flags was killed before it had noted any flight down as handled; it had published"
            f" {flags} by then. Begun again, it handled all {number(kill.after)}"
        )
    return f"{told}. What it had published was found in the feed, and not published again."


def print_security(console: Console, hub: HubAccess, proof: Proof, directory: Path, searched: int) -> None:
    """Print how the hub was secured, the callers' rights, and the hub's answers to them.

    Args:
        console: The console to print to.
        hub: The hub.
        proof: The results of the checks.
        directory: The demo's directory.
        searched: The number of files in it that were searched for tokens.
    """
    shown = _relative(directory)
    console.print(Text("What was secured, and how", "bold"))
    for what, how in (
        ("Connections", f"{hub.url}, {proof.tls}; clients trust {shown}/tls/authority.pem by SSL_CERT_FILE"),
        ("Callers", f"--auth token: each sends a token of its own, from {shown}/tokens/NAME.token (mode 0600)"),
        (
            "Rights",
            "--default-access closed; the administrator service:operator has made each event type with its lists",
        ),
        (
            "Secrets",
            f"no token is in any of the {number(searched)} other files: databases, logs, checkpoints, the lake",
        ),
    ):
        console.print(Text(f"  {what:<12}", "cyan") + Text(how), soft_wrap=True)
    console.print(table_of(("event type", "may write", "may read"), _rights_told()))
    console.print(Text("What the hub answered at the end, to whom", "bold"))
    console.print(table_of(("caller", "request", "answer"), proof.trials))


def _rights_told() -> list[tuple[str, str, str]]:
    return [(event_type, ", ".join(lists.writers), ", ".join(lists.readers)) for event_type, lists in RIGHTS.items()]


def print_places(console: Console, directory: Path, picture: Path, security: Security | None = None) -> None:
    """Print the places of the demo's files, and commands that show more; with *security*, the commands use a token."""
    shown = _relative(directory)
    console.print(Text("Where it lies", "bold"))
    secrets = [
        (f"{shown}/tls/", "the hub's certificate and key, and the authority that clients trust"),
        (f"{shown}/tokens/", "a token for each caller, readable by you alone"),
    ]
    for path, what in (
        (f"{shown}/penstock.db", "the hub's database: event types, feeds, everything but old departures"),
        (f"{shown}/cold/", "the departures of the first eleven months: the cold tier, in Parquet"),
        (f"{shown}/lake/", "the feeds as typed Parquet, and how far it is"),
        (f"{shown}/checkpoints/", "how far the delays by day are"),
        (f"{shown}/read_model.db", "delays by carrier and month: SQLite, with views"),
        (f"{shown}/flagging.db", "which aircraft are late in a row, and how far flagging is: SQLite"),
        (_relative(picture), "the picture"),
        (f"{shown}/*.log", "what the hub, Spark and the process that flags had to say"),
        *(() if security is None else secrets),
    ):
        console.print(Text(f"  {path:<{len(shown) + 14}}", "cyan") + Text(f"  {what}"), soft_wrap=True)
    console.print(Text("\nHow to look further", "bold"))
    options = " ".join(serve_options(directory))
    serve = f".venv/bin/penstock serve --database sqlite:///{shown}/penstock.db {options}"
    files = f"{shown}/cold/{DEPARTED}/*/*.parquet"
    for command, why in (
        *_entries(serve, security),
        (f".venv/bin/penstock tail {DEPARTED} -n 3 --no-follow", "the last events of each partition"),
        (f".venv/bin/penstock tail {DEPARTED} --from earliest --key N14228", "one aircraft's year"),
        (f".venv/bin/penstock tail {DAILY} --from earliest --key HA", "one carrier's days, as they were counted"),
        (f".venv/bin/penstock tail {FLAGGED} --from earliest --key N14228", "when it was late three times in a row"),
        (f".venv/bin/penstock cold list --database sqlite:///{shown}/penstock.db", "the files of the cold tier"),
        (f"duckdb -c \"SELECT typed.carrier, count(*) FROM '{files}' GROUP BY ALL\"", "and what is in them"),  # noqa: S608
        (f"sqlite3 {shown}/read_model.db 'SELECT * FROM delays'", "the read model by hand"),  # noqa: S608
        (
            f".venv/bin/penstock groups show flagging --database sqlite:///{shown}/flagging.db",
            "how far flagging is",
        ),
        (".venv/bin/penstock groups", "who reads what, and how far behind they are"),
        *_requests(security),
    ):
        console.print(Text(f"  {command}", "green") + Text(f"   # {why}", "dim"), soft_wrap=True)


def print_console(console: Console, directory: Path, url: str | None, security: Security | None = None) -> None:
    """Print where the hub's console is: below *url* while the hub is served, else what serves it."""
    console.print(Text("\nTo look at all of this in a browser", "bold"))
    if url is None:
        secure = "" if security is None else " --secure"
        command = f".venv/bin/penstock demo{secure} --directory {_relative(directory)} --serve"
        console.print(
            Text(f"  {command}", "green") + Text("   # serves the console, until Ctrl-C", "dim"), soft_wrap=True
        )
        return
    console.print(Text(f"  {url}/console", "bold cyan") + Text("   Ctrl-C ends it.", "dim"), soft_wrap=True)
    if security is not None:
        token = _relative(security.tokens[OPERATOR])
        text = f"  It asks for a token: that of the administrator is in {token}. The browser has to trust"
        console.print(Text(f"{text} {_relative(security.authority)}.", "dim"), soft_wrap=True)


def _entries(serve: str, security: Security | None) -> list[tuple[str, str]]:
    """Return the commands after which others reach the hub."""
    if security is None:
        return [(serve, "start the hub again; then, elsewhere:")]
    options = " ".join(security.serve_options())
    return [
        (f"{serve} {options}", "start the hub again; then, elsewhere:"),
        (f"export SSL_CERT_FILE={security.authority.absolute()} PENSTOCK_URL=https://127.0.0.1:8080", "trust it"),
        (f"export PENSTOCK_TOKEN_FILE={security.tokens[OPERATOR].absolute()}", "be its administrator"),
        (".venv/bin/penstock tail nakadi.audit.log --from earliest --no-follow", "who has changed what"),
    ]


def _requests(security: Security | None) -> list[tuple[str, str]]:
    """Return requests by hand."""
    feed = f"feeds/{DEPARTED}?n=4&cursor0=_first&pagesizehint=3"
    if security is None:
        address = "http://127.0.0.1:8080"
        return [
            (f"curl '{address}/{feed}'", "the same by hand (ZeroEventHub)"),
            (f"curl {address}/event-types", "what there is"),
        ]
    return [(f"curl -i --cacert {security.authority} 'https://127.0.0.1:8080/{feed}'", "401: without a token")]


def _shaded(minutes: float | None) -> Text:
    if minutes is None:
        return Text("-", "dim")
    return Text(f"{minutes:.0f}", next(style for limit, style in _SHADES if minutes <= limit))


def _relative(path: Path) -> str:
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()
