"""Shows a processor's work on a terminal: tranches, rates, and the streams that are busy or in trouble."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.processing.parameters import check_seconds
from penstock.processing.runners.observer import compute_figures, describe_figures
from penstock.processing.snapshot import ObservedProcessor, Snapshot, check_observed

__all__ = ["live"]

LINES_INTERVAL: Final = 10.0
DRAWS_PER_SECOND: Final = 2
RATE_SECONDS: Final = 10.0
"""Seconds over which a rate is measured."""
LAST_SECONDS: Final = 3.0
"""Seconds to wait for the last snapshot of a processor."""
GAP_SECONDS: Final = 1.0
"""Seconds to wait for a source that has not counted its events behind yet."""
LOOK_INTERVAL: Final = 0.02
TRANCHES_MAX: Final = 16
STREAMS_MAX: Final = 12
_LONG: Final = ("tranche", "position", "read", "stream", "why")
"""Columns of names and texts, which can have any length."""


@contextmanager
def live(
    processor: ObservedProcessor, *, console: Console | None = None, interval: float = LINES_INTERVAL
) -> Iterator[None]:
    """Show a processor while the block runs: on a terminal as a live display, elsewhere as lines.

    The last display is the processor's progress at the end of the block.

    Args:
        processor: The processor to show.
        console: Where to show it; by default on stderr.
        interval: Seconds between two lines, outside a terminal.

    Raises:
        BadParameter: the processor is none, or *interval* is no time.
    """
    check_observed("processor", processor)
    check_seconds("interval", interval)
    console = console or Console(stderr=True)
    view = View(processor)
    showing = (
        Live(get_renderable=view.draw, console=console, refresh_per_second=DRAWS_PER_SECOND)
        if console.is_terminal
        else _repeat("penstock-view", lambda: _print(console, view), interval)
    )
    with showing:
        try:
            yield
        finally:
            view.await_now()


class View:
    """The display of one processor."""

    def __init__(self, processor: ObservedProcessor) -> None:
        self._processor = processor
        self._seen: deque[Snapshot] = deque()

    def await_now(self) -> None:
        """Wait, for some seconds, for a new snapshot of a running processor with the number of events behind."""
        now = time.monotonic()
        while (found := self._processor.snapshot).is_running and (found.taken < now or found.gap is None):
            if time.monotonic() - now > (LAST_SECONDS if found.taken < now else GAP_SECONDS):
                break
            time.sleep(LOOK_INTERVAL)

    def compose_line(self) -> str:
        """Return the processor's progress as a line."""
        snapshot, before = self._pair_snapshots()
        return f"{snapshot.name}: {describe_figures(compute_figures(snapshot, before))}"

    def draw(self) -> Group:
        """Return the processor's progress as tables."""
        snapshot, before = self._pair_snapshots()
        state = "" if snapshot.is_running else " (not running)"
        title = Text(f"{snapshot.name}{state}: {describe_figures(compute_figures(snapshot, before))}", style="bold")
        return Group(title, self._draw_tranches(snapshot, before), *_draw_streams(snapshot))

    def _pair_snapshots(self) -> tuple[Snapshot, Snapshot | None]:
        """Return the current snapshot, and an earlier one for rates; None: there is no earlier one."""
        snapshot, seen = self._processor.snapshot, self._seen
        if not seen or seen[-1] is not snapshot:
            seen.append(snapshot)
        while len(seen) > 2 and snapshot.taken - seen[1].taken >= RATE_SECONDS:
            seen.popleft()
        return snapshot, seen[0] if seen[0] is not snapshot else None

    def _draw_tranches(self, snapshot: Snapshot, before: Snapshot | None) -> Table:
        table = _make_table("tranche", "position", "read", "ahead", "gap", "lag", "read/s")
        earlier = {each.name: each.events_read for each in before.tranches} if before else {}
        seconds = snapshot.taken - before.taken if before else 0.0
        now = time.time()
        # Most lagging tranches first: not all of many have a place.
        tranches = sorted(snapshot.tranches, key=lambda each: (-(each.gap or 0), each.name))
        for each in tranches[:TRANCHES_MAX]:
            lag = each.lag_seconds(now)
            table.add_row(
                _to_cell(each.name),
                _to_cell(str(each.position)),
                _to_cell(str(each.read)),
                str(each.events_ahead),
                _show_or_dash(each.gap),
                "-" if lag is None else f"{lag:.1f} s",
                f"{(each.events_read - earlier.get(each.name, 0)) / seconds:.1f}" if seconds > 0 else "-",
            )
        if more := len(tranches) - TRANCHES_MAX:
            table.caption = f"and {more} more" if more > 0 else None
        return table


def _draw_streams(snapshot: Snapshot) -> list[Table]:
    if not snapshot.longest:
        return []
    table = _make_table("stream", "state", "at", "for", "attempts", "why")
    styles = {"failing": "yellow", "stalled": "red"}
    since = snapshot.age_seconds()
    for each in snapshot.longest[:STREAMS_MAX]:
        why = f"{each.tag or ''}: {each.detail}" if each.detail else each.tag or ""
        figures = (each.state, str(each.index), f"{each.age_seconds + since:.1f} s", str(each.attempts))
        table.add_row(_to_cell(each.stream), *figures, _to_cell(why), style=styles.get(each.state))
    return [table]


def _make_table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:  # Rich shortens columns that may be wrapped: figures stay whole.
        table.add_column(column, overflow="ellipsis", no_wrap=column not in _LONG)
    return table


def _to_cell(text: str) -> Text:
    """Return *text* as a cell of one line, cut to the width of its column."""
    return Text(_remove_control(text), no_wrap=True, overflow="ellipsis")


def _show_or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)


def _remove_control(text: str) -> str:
    """Return *text* without characters that control a terminal."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def _print(console: Console, view: View) -> None:
    console.print(Text(view.compose_line()), soft_wrap=True)


@contextmanager
def _repeat(name: str, do: Callable[[], None], interval: float) -> Iterator[None]:
    """Call *do* in a thread now, every *interval* seconds while the block runs, and once more after it has ended."""
    is_over = threading.Event()

    def run() -> None:
        do()
        while not is_over.wait(interval):
            do()
        do()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(LAST_SECONDS)
