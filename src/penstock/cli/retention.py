"""`penstock retention`: shows the retention of event types, and their remaining events, from the hub's own database."""

import time
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from penstock.cli.helping import examples, group
from penstock.cli.options import DATABASE, DatabaseOption, OutputOption, duration_parser, size_parser

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.core.registry.event_type import StoredFeed
    from penstock.core.registry.retention import Retention, RetentionLimits
    from penstock.storage.store import Store

app = group("See how long events are kept; choose it for event types that do not say so.", no_args_is_help=True)


class _Kept(NamedTuple):
    """The retention and the remaining events of an event type."""

    feed: "StoredFeed"
    retention: "Retention"
    events: int
    since: int | None
    """When the oldest event was received, in microseconds since 1970; None: there is none."""


@app.command("list", epilog=examples("penstock retention list", "penstock retention list --output json"))
def list_event_types(*, database: DatabaseOption = DATABASE, output: OutputOption = "text") -> None:
    """Show how long each event type keeps its events, how many there are, and how old the oldest is."""
    from penstock.cli.database import open_database
    from penstock.cli.output import age, number, print_json, print_table, say

    with open_database(database) as store:
        store.check()
        found = [*_measure(store)]
    if output == "json":
        print_json([_describe(each) for each in found])
    elif not found:
        say("There are no event types.")
    else:
        now = time.time_ns() // 1_000
        columns = ("event type", "cleanup", "kept for", "up to", "waits for", "events", "oldest")
        print_table(
            columns,
            [
                (
                    each.feed.name,
                    each.feed.event_type.cleanup_policy,
                    *_tell(each.retention.limits),
                    ", ".join(each.retention.groups) or "-",
                    number(each.events),
                    "-" if each.since is None else age(max(0, now - each.since) / 1e6),
                )
                for each in found
            ],
        )


@app.command(
    epilog=examples(
        "penstock retention default",
        "penstock retention default --time 30d",
        "penstock retention default --time 30d --size 10GB",
        "penstock retention default --none",
    )
)
def default(
    *,
    time: Annotated[
        float | None,
        typer.Option(
            parser=duration_parser(1, unit="d"), metavar="DURATION", help="Delete events that are older, such as 30d."
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            parser=size_parser, metavar="SIZE", help="Delete the oldest events of a larger event type, such as 10GB."
        ),
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Keep events for ever.")] = False,
    database: DatabaseOption = DATABASE,
    output: OutputOption = "text",
) -> None:
    """Show or replace the retention of event types that set none; hubs that run follow within a minute.

    The options replace both limits: one that is not given is none. An event type sets its own by `options` of its
    definition, `retention_time` and `retention_bytes`.
    """
    from penstock.cli.database import find_operator, open_database
    from penstock.cli.failures import CommandFailure
    from penstock.cli.output import print_json, say
    from penstock.core.registry.retention import RetentionLimits
    from penstock.hub.admin.settings import Settings, describe_limits

    if none and (time, size) != (None, None):
        raise CommandFailure("--none goes with neither --time nor --size", "Leave out one of them.")
    with open_database(database) as store:
        store.check()
        settings = Settings(store, lambda: None)
        if none or (time, size) != (None, None):
            limits = RetentionLimits(None if time is None else round(time * 1_000), size)
            settings.replace_retention(limits, find_operator())
        limits = settings.current().retention
    if output == "json":
        print_json(describe_limits(limits))
    else:
        kept, up_to = _tell(limits)
        told = [f"for {kept}"] * (limits.time_ms is not None) + [f"up to {up_to} each"] * (limits.size is not None)
        say(f"Event types that set no retention keep their events {', '.join(told) or 'for ever'}")


def _measure(store: "Store") -> "Iterator[_Kept]":
    from penstock.hub.admin.settings import SettingsSnapshot

    with store.read() as tx:
        limits = SettingsSnapshot.of(tx.settings.list()).retention
        for feed in tx.registry.list():
            heads = tx.log.find_heads(feed.partition_ids)
            times = tx.log.find_receive_times({each: head.floor for each, head in heads.items()})
            events = sum(
                head.next_offset - head.floor - tx.removal.count_removed(each, head.floor)
                for each, head in heads.items()
            )
            retention = feed.event_type.find_retention(limits)
            yield _Kept(feed, retention, events, min(times.values(), default=None))


def _describe(kept: _Kept) -> dict[str, Any]:
    from penstock.core.times import format_time
    from penstock.hub.admin.settings import describe_limits

    wait = {"groups": [*kept.retention.groups], **describe_limits(kept.retention.waiting)}
    return {
        "event_type": kept.feed.name,
        "cleanup_policy": kept.feed.event_type.cleanup_policy,
        **describe_limits(kept.retention.limits),
        "retention_wait": wait if kept.retention.groups else None,
        "events": kept.events,
        "oldest_received_at": None if kept.since is None else format_time(kept.since),
    }


def _tell(limits: "RetentionLimits") -> tuple[str, str]:
    """Return the limits as people say them."""
    return (
        "-" if limits.time_ms is None else _tell_in(_TIMES, limits.time_ms),
        "-" if limits.size is None else _tell_in(_SIZES, limits.size),
    )


_TIMES: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1))
_SIZES: Final = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3), ("B", 1))


def _tell_in(units: "Sequence[tuple[str, int]]", value: int) -> str:
    name, unit = next(each for each in units if value >= each[1])
    return f"{value / unit:,.4g} {name}"
