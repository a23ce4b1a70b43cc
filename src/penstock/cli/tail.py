"""`penstock tail`: the events of a feed, as they come."""

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.options import START_HELP, START_METAVAR, URL, OutputOption, UrlOption, parse_start_option
from penstock.cli.streams import utf8

if TYPE_CHECKING:
    from penstock.client import Client, FeedEvent


def tail(
    event_type: Annotated[str, typer.Argument(metavar="EVENT_TYPE", help="Whose feed.")],
    *,
    start: Annotated[
        str, typer.Option("--from", metavar=START_METAVAR, help=f"Where to start. {START_HELP}")
    ] = "latest",
    last: Annotated[
        int,
        typer.Option(
            "--last",
            "-n",
            min=0,
            metavar="N",
            help="Start with the last N events of each partition; without --from.",
        ),
    ] = 0,
    count: Annotated[int | None, typer.Option(min=1, metavar="N", help="End after N events.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Wait for more; or end where the feed ends.")
    ] = True,
    kind: Annotated[list[str] | None, typer.Option(help="Only events of this kind. Repeatable.")] = None,
    skip_kind: Annotated[list[str] | None, typer.Option(help="No events of this kind. Repeatable.")] = None,
    key: Annotated[list[str] | None, typer.Option(help="Only events with this key. Repeatable.")] = None,
    partition: Annotated[
        list[int] | None, typer.Option(min=0, metavar="N", help="Only this partition. Repeatable.")
    ] = None,
    headers: Annotated[bool, typer.Option("--headers", help="Show the events' headers too.")] = False,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """Show the events of a feed, and go on as they come, until Ctrl-C.

    For people a line holds partition, offset, time, key and event. For programs it is a feed line, which `publish` and
    POST /feeds take as they are: it keeps keys, and with --headers kinds. Lost connections are made again.
    """
    from penstock.cli.hub import open_client

    begins = parse_start_option(start, "--from")
    if begins != "latest" and last:
        raise typer.BadParameter("--from and --last N both say where to start: give one of them")
    if kind and skip_kind:
        raise typer.BadParameter("--kind and --skip-kind exclude each other")
    wish: dict[str, Any] = {"event_types": kind or (), "skip_event_types": skip_kind or ()}
    if headers:
        wish["headers"] = "_all"
    _note_reconnects()
    with open_client(url, retry_timeout=0) as client:
        feed = client.feed(event_type)
        numbers = [each.id for each in feed.discover().partitions]
        if partition:
            numbers = _chosen(partition, numbers, event_type)
        known = _last(client, event_type, last) if last else feed.cursors(begins, partitions=numbers)
        cursors = {number: known[number] for number in numbers}
        if follow:
            with feed.follow(cursors, partitions=numbers, **wish) as pages:
                _print((page.events for page in pages), key, count, headers=headers, as_json=output == "json")
        else:
            _print(_to_the_end(feed, cursors, wish), key, count, headers=headers, as_json=output == "json")


def _print(
    pages: Iterable[Iterable["FeedEvent"]], keys: list[str] | None, count: int | None, *, headers: bool, as_json: bool
) -> None:
    from penstock.cli.event_line import feed_line, people_line

    output = utf8(sys.stdout) if as_json else sys.stdout
    shown = 0
    try:
        for events in pages:
            for event in events:
                if keys and event.key not in keys:
                    continue
                output.write(feed_line(event, headers=headers) if as_json else people_line(event, headers=headers))
                shown += 1
                if shown == count:
                    return
            output.flush()
    except KeyboardInterrupt:
        return  # How it is meant to end.


def _to_the_end(feed: Any, cursors: dict[int, str], wish: dict[str, Any]) -> Iterator[Iterable["FeedEvent"]]:
    while True:
        page = feed.read(cursors, **wish)
        yield page.events
        if not page.events and page.cursors == cursors:
            return
        cursors = page.cursors


def _last(client: "Client", event_type: str, count: int) -> dict[int, str]:
    """Return the cursors from which each partition has *count* events until its end."""
    from penstock.core.log.cursor import FeedCursor, FeedView, feed_mark

    found, mark = client.partitions(event_type), feed_mark(event_type)
    cursors = {}
    for each in found:
        start = max(each.oldest, each.head - count)
        view = FeedView(len(found), each.partition, len(found))
        cursors[each.partition] = FeedCursor(mark, each.epoch, view, (start,)).encode()
    return cursors


def _chosen(wanted: list[int], numbers: list[int], event_type: str) -> list[int]:
    from penstock.errors import PartitionNotFound

    for number in wanted:
        if number not in numbers:
            raise PartitionNotFound(event_type=event_type, partition=number, partition_count=len(numbers))
    return sorted(set(wanted))


def _note_reconnects() -> None:
    """Have the client's notes on lost connections on stderr, as they are."""
    import logging

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("penstock: %(message)s"))
    logging.getLogger("penstock.client").addHandler(handler)
