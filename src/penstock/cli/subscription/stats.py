"""`penstock subscription stats`: who has each partition of a subscription, and how far behind it is."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.cli.options import URL, OutputOption, UrlOption, duration_parser
from penstock.cli.subscription.finding import IdArgument

if TYPE_CHECKING:
    from rich.table import Table

    from penstock.client import SubscribedPartition

    Ask = Callable[[], Sequence[SubscribedPartition]]

INTERVAL: Final = 1.0
AWAY_SECONDS_MAX: Final = 5.0
"""The longest pause, beside the interval, between two attempts to reach a hub that is away."""


def stats(
    subscription: IdArgument,
    *,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again and again, until Ctrl-C.")] = False,
    interval: Annotated[
        float,
        typer.Option(
            parser=duration_parser(0.1, 3600),
            metavar="DURATION",
            show_default="1s",
            help="With --watch: how often, such as 5s.",
        ),
    ] = INTERVAL,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """Show who has each partition of a subscription, how many events are not committed, and how old the oldest is.

    For programs, --watch prints an object a line.
    """
    from penstock.cli.output import print_json, print_table, say
    from penstock.cli.subscription.finding import found, hub_at

    with hub_at(url) as client:
        meant = found(client, subscription)
        if watch:
            _watch(meant.id, lambda: client.subscriptions.stats(meant.id), interval, as_json=output == "json")
            return
        partitions = client.subscriptions.stats(meant.id)
    if output == "json":
        print_json(as_object(meant.id, partitions))
    else:
        print_table(COLUMNS, rows_of(partitions))
        say(total(partitions))


COLUMNS: Final = ("event type", "partition", "state", "to go", "lag", "parked", "stream")


def rows_of(partitions: "Sequence[SubscribedPartition]") -> list[list[object]]:
    """Return the rows of a table of *partitions*."""
    from penstock.cli.output import age, or_dash

    return [
        [
            each.event_type,
            each.partition,
            f"{each.state}, asked for" if each.assignment_type == "direct" else each.state,
            or_dash(each.unconsumed_events),
            "-" if each.lag_seconds is None else age(each.lag_seconds),
            each.parked_events,
            each.stream_id or "-",
        ]
        for each in partitions
    ]


def total(partitions: "Sequence[SubscribedPartition]") -> str:
    """Return in a sentence how far all of it is behind, and who is there."""
    from penstock.cli.output import age, counted, number

    streams = len({each.stream_id for each in partitions if each.stream_id})
    free = sum(each.stream_id is None for each in partitions)
    told = [f"{counted(len(partitions), 'partition')}", counted(streams, "stream") if streams else "no stream"]
    if streams and free:
        told.append(f"{free} without one")
    counts = [each.unconsumed_events for each in partitions if each.unconsumed_events is not None]
    if len(counts) < len(partitions):
        return ", ".join([*told, "not begun yet"])
    told.append(f"{counted(sum(counts), 'event')} to go")
    if sum(counts):
        told.append(f"the oldest {age(max(each.lag_seconds or 0 for each in partitions))} old")
    if parked := sum(each.parked_events for each in partitions):
        told.append(f"{number(parked)} parked")
    return ", ".join(told)


def as_object(id: str, partitions: "Sequence[SubscribedPartition]") -> dict[str, Any]:
    """Return the statistics for programs."""
    counts = [each.unconsumed_events for each in partitions]
    begun = None not in counts
    return {
        "id": id,
        "gap": sum(each or 0 for each in counts) if begun else None,
        "lag_seconds": max((each.lag_seconds or 0 for each in partitions), default=0) if begun else None,
        "parked_events": sum(each.parked_events for each in partitions),
        "streams": len({each.stream_id for each in partitions if each.stream_id}),
        "partitions": list(map(partition_object, partitions)),
    }


def partition_object(partition: "SubscribedPartition") -> dict[str, Any]:
    """Return a partition for programs: with the name for what is to go that all commands have."""
    import msgspec

    shown = msgspec.structs.asdict(partition)
    return {("gap" if name == "unconsumed_events" else name): value for name, value in shown.items()}


def _watch(id: str, ask: "Ask", interval: float, *, as_json: bool) -> None:
    """Show what *ask* returns, again and again; where the hub is away, go on once it is back."""
    from penstock.cli.output import console

    try:
        if as_json or not console().is_terminal:
            for partitions in _again_and_again(ask, interval):
                _print_once(id, partitions, as_json=as_json)
        from rich.live import Live

        found = _again_and_again(ask, interval)
        first, on_terminal = _screen(next(found)), sys.stderr.isatty()
        with Live(first, console=console(), auto_refresh=False, redirect_stderr=on_terminal) as live:
            for partitions in found:
                live.update(_screen(partitions), refresh=True)
    except KeyboardInterrupt:
        return  # How it is meant to end.


def _again_and_again(ask: "Ask", interval: float) -> "Iterator[Sequence[SubscribedPartition]]":
    """Yield what *ask* returns, for ever; an outage that can pass is told once, and then waited for.

    Raises:
        PenstockError: the first answer is a failure already, or it is one that does not pass.
    """
    from penstock.cli.failures import told
    from penstock.errors import PenstockError
    from penstock.wire.http import RetryBackoff, is_transient

    yield ask()
    backoff, is_away = RetryBackoff(AWAY_SECONDS_MAX), False
    while True:
        time.sleep(interval)
        try:
            found = ask()
        except PenstockError as error:
            if not is_transient(error):
                raise
            if not is_away:
                # Not by a console: it would write past the display that is on the terminal.
                sys.stderr.write(f"penstock: {told(error)[0]}; trying again until the hub is back\n")
                sys.stderr.flush()
            is_away = True
            time.sleep(backoff.delay(error))
            continue
        is_away = False
        backoff.reset()
        yield found


def _print_once(id: str, partitions: "Sequence[SubscribedPartition]", *, as_json: bool) -> None:
    from penstock.cli.output import print_json_line, print_table, say

    if as_json:
        print_json_line(as_object(id, partitions))
        return
    print_table(COLUMNS, rows_of(partitions))
    say(total(partitions))
    sys.stdout.flush()


def _screen(partitions: "Sequence[SubscribedPartition]") -> "Table":
    from penstock.cli.output import table_of

    shown = table_of(COLUMNS, rows_of(partitions))
    shown.caption, shown.caption_justify = total(partitions), "left"
    return shown
