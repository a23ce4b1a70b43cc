"""Prints results: tables and sentences for people, JSON for programs.

Results go to stdout; progress, notes and failures to stderr, so that stdout can be piped. Colours follow the terminal
and NO_COLOR.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec
from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from penstock.cli.streams import utf8

PIPE_WIDTH: Final = 200
"""Columns of a table that goes into a pipe or a file: nothing is cut off there."""


def console(*, stderr: bool = False) -> Console:
    """Return a console on stdout, or on *stderr*."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else PIPE_WIDTH, highlight=False)


def tell(text: str, *, style: str | None = None) -> None:
    """Print a line for people on stderr, unwrapped."""
    console(stderr=True).print(Text(text), style=style, soft_wrap=True)


def say(text: str) -> None:
    """Print a line for people on stdout, unwrapped."""
    console().print(Text(text), soft_wrap=True)


def print_json(value: Any) -> None:
    """Print *value* as indented JSON."""
    utf8(sys.stdout).write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def print_json_line(value: Any) -> None:
    """Print *value* as one line of JSON, at once."""
    utf8(sys.stdout).write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table: see `table_of`."""
    console().print(table_of(columns, rows))


def table_of(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Return a table; a column whose cells are all numbers stands to the right."""
    texts = [[_text(cell) for cell in row] for row in rows]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for at, title in enumerate(columns):
        numeric = bool(texts) and all(text[at].replace(" ", "").isdigit() for text in texts)
        table.add_column(title, justify="right" if numeric else "left", overflow="fold")
    for row in texts:
        table.add_row(*map(Text, row))
    return table


def number(value: int) -> str:
    """Return *value* with its thousands apart.

    >>> number(336776)
    '336 776'
    """
    return f"{value:,}".replace(",", " ")


def plural(count: int, thing: str) -> str:
    """Return how many of *thing* there are, in words.

    >>> plural(1, "event"), plural(2500, "event")
    ('1 event', '2 500 events')
    """
    return f"{number(count)} {thing}" if count == 1 else f"{number(count)} {thing}s"


def age(seconds: float) -> str:
    """Return a time as people say it, cut to its largest unit.

    >>> age(0), age(0.25), age(90.9), age(200), age(90_000), age(1e9)
    ('0 s', '0.2 s', '90 s', '3 min', '25 h', '11574 d')
    """
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds / size)} {unit}"
    return f"{seconds:.1f} s" if 0 < seconds < 1 else f"{int(seconds)} s"


def or_dash(value: object) -> object:
    """Return what a table shows of *value*, where there may be none."""
    return "-" if value is None else value


class RateColumn(ProgressColumn):
    """Shows how many events go through in a second."""

    def render(self, task: Task) -> Text:
        """Draw the rate of *task*, from its field `events`, over the time since it was started."""
        events, seconds = task.fields.get("events", 0), task.elapsed or 0.0
        rate = number(round(events / seconds)) if seconds > 0 else "-"
        return Text(f"{number(events):>9} events  {rate:>8}/s", style="cyan")


def progress(*, known_end: bool = True) -> Progress:
    """Return a progress display on stderr, which shows only on a terminal; its tasks have a field `events`."""
    screen = console(stderr=True)
    ends = [BarColumn(bar_width=30), TextColumn("{task.percentage:>3.0f}%")] if known_end else [_spinner(screen)]
    left = TimeRemainingColumn(compact=True) if known_end else TimeElapsedColumn()
    return Progress(
        TextColumn("{task.description}"), *ends, RateColumn(), left, console=screen, disable=not screen.is_terminal
    )


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on stderr what is being done and for how long already, while the block runs."""
    screen = console(stderr=True)
    if not screen.is_terminal:
        screen.print(f"{what}.")
        yield
        return
    with Progress(_spinner(screen), TextColumn("{task.description}"), TimeElapsedColumn(), console=screen) as display:
        display.add_task(what, total=None)
        yield


def _spinner(screen: Console) -> SpinnerColumn:
    """Return a spinner that the encoding of *screen* has."""
    return SpinnerColumn("line" if screen.options.ascii_only else "dots")


def _text(cell: object) -> str:
    return number(cell) if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)
