"""`penstock groups`: lists and shows consumer groups; its other commands have files of their own."""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from penstock.cli.groups import parked, reset
from penstock.cli.groups.options import (
    SUBSCRIPTION,
    TABLE,
    DatabaseOption,
    HubOption,
    NameArgument,
    TableOption,
    ask_about_group,
    find_given_url,
    open_hub,
    open_own,
)
from penstock.cli.helping import CommandGroup, examples, group, prose
from penstock.cli.options import URL, OutputOption, YesOption

if TYPE_CHECKING:
    from penstock.client import ConsumerGroup, ConsumerGroupDetails, GroupPosition

LIST: Final = "list"
SHOP: Final = "--database sqlite:///shop.db"


class ListsUnlessTold(CommandGroup):
    """Commands of which `list` need not be typed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `list` before options that have no command before them."""
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = [LIST, *args]
        return super().parse_args(ctx, args)


app = group(
    "See how far all consumers are; move them, help them over events that cannot be processed. Their positions are"
    " kept by the hub, or in a database of yours, --database. Without a command: list them; `penstock groups list"
    " --help` has more.",
    "penstock groups",
    "penstock groups --event-type order.placed",
    "penstock groups show mailer",
    "penstock groups reset mailer --to 2026-11-20T10:00:00Z --dry-run",
    f"penstock groups show greeter {SHOP}",
    cls=ListsUnlessTold,
)
app.add_typer(parked.app, name="parked")


@app.command(
    LIST,
    epilog=examples(
        "penstock groups", "penstock groups --event-type order.placed --kind subscription", f"penstock groups {SHOP}"
    ),
)
def list_groups(
    context: typer.Context,
    *,
    event_type: Annotated[
        str | None, typer.Option("--event-type", metavar="NAME", help="Only those that read this event type.")
    ] = None,
    kind: Annotated[
        Literal["cursorset", "subscription", "processor", "spark", "reported"] | None,
        typer.Option(help="Only those of this kind."),
    ] = None,
    database: DatabaseOption = None,
    table: TableOption = TABLE,
    url: HubOption = URL,
    output: OutputOption = "text",
) -> None:
    """List consumer groups: the feeds of each, the number of its uncommitted events, and the age of the oldest one.

    A subscription is shown with its owning application and the name that it has there. One that has not begun has no
    gap yet. Of positions in a database, the hub that --hub names is asked how far they are behind.
    """
    from penstock.cli.output import print_json, say

    if database is not None:
        if event_type is not None or kind is not None:
            raise typer.BadParameter("that is asked of a hub, not of --database", param_hint="--event-type, --kind")
        _list_own(database, table, find_given_url(context, url), output)
        return
    with open_hub(url) as client:
        found = client.consumer_groups(event_type, kind=kind)
    if output == "json":
        print_json(found)
    elif found:
        print_groups(found)
    else:
        reads = "reads anything" if event_type is None else f"reads {event_type}"
        say(f"Nobody {reads}{'' if kind is None else f' as a {kind}'} whose positions the hub keeps.")


def _list_own(database: str, table: str, hub: str | None, output: str) -> None:
    from penstock.cli.output import age, or_dash, print_json, print_table, say

    with open_own(database, table, gaps_at=hub) as own:
        found = own.groups()
    if output == "json":
        print_json([each._asdict() for each in found])
    elif found:
        columns = ("name", "reads", "tranches", "gap", "lag", "parked", "moved at")
        rows = [
            [each.name, ", ".join(each.reads), each.tranches, or_dash(each.gap),
             "-" if each.lag_seconds is None else age(each.lag_seconds), each.parked, each.updated_at]
            for each in found
        ]  # fmt: skip
        print_table(columns, rows)
    else:
        say("No positions are kept there.")


@app.command(
    epilog=examples(
        "penstock groups show mailer",
        "penstock groups show mailer --output json",
        f"penstock groups show greeter {SHOP}",
    )
)
def show(
    context: typer.Context,
    name: NameArgument,
    *,
    database: DatabaseOption = None,
    table: TableOption = TABLE,
    url: HubOption = URL,
    output: OutputOption = "text",
) -> None:
    """Show the position of a consumer group in each partition, and the reason if it is blocked.

    `next offset` is the one that it wants next; `end` is where the partition ends. Processors that share the
    partitions are shown with what each has. Of positions in a database, the hub that --hub names is asked how far they
    are behind.
    """
    from penstock.cli.output import age, or_dash, print_json, print_table

    if database is None:
        _show_group(name, url, output)
        return
    with open_own(database, table, gaps_at=find_given_url(context, url)) as own:
        found = own.standings(name)
    if output == "json":
        print_json({"name": name, "positions": [each._asdict() for each in found]})
        return
    rows = [
        [each.tranche, str(each.position), or_dash(each.gap),
         "-" if each.lag_seconds is None else age(each.lag_seconds), each.parked, each.updated_at]
        for each in found
    ]  # fmt: skip
    print_table(("tranche", "position", "gap", "lag", "parked", "moved at"), rows)


def _show_group(name: str, url: str, output: str) -> None:
    from penstock.cli.output import plural, print_json, say
    from penstock.core.groups.groups import PROCESSOR

    with open_hub(url) as client:
        name, found = ask_about_group(client, name, client.consumer_group)
        is_shown = output == "text" and found.kind == PROCESSOR
        parked_count = len(client.parked_streams(name)) if is_shown else 0
    if output == "json":
        print_json(found)
        return
    say(f"{name}: {found.kind}, {_behind(found)}")
    if parked_count:
        say(f"{plural(parked_count, 'stream')} parked: `penstock groups parked list {name}`")
    if found.owning_application is not None:
        say(f"subscribed by {_of(found)}")
    if found.kept_at is not None:
        say(f"kept in {found.kept_at}, of which it reports")
    _print_places(found)


def _print_places(found: "ConsumerGroupDetails") -> None:
    from penstock.cli.output import print_table

    if found.positions:
        columns = ["event type", "slice", "partition", "next offset", "end", "gap", "lag", "committed at"]
        rows = [_place(each) for each in found.positions]
        if any(each.reason for each in found.positions):
            columns.append("cannot go on")
            rows = [[*row, each.reason or ""] for row, each in zip(rows, found.positions, strict=True)]
        print_table(columns, rows)
    if found.members:
        columns = ["member", "partitions", "lease ends"]
        print_table(
            columns, [[each.member, ", ".join(each.tranches) or "-", each.expires_at] for each in found.members]
        )


app.command(
    help=prose(reset.reset),
    epilog=examples(
        "penstock groups reset mailer --to earliest --dry-run",
        "penstock groups reset mailer --to 2026-11-20T10:00:00Z --reason 'mails were lost'",
        "penstock groups reset mailer --event-type order.placed --offset 3=1200",
        f"penstock groups reset greeter --to 1h {SHOP} --hub http://127.0.0.1:8080",
        f"penstock groups reset greeter2 --like greeter {SHOP}",
        f"penstock groups reset loader --tranche part-7.ndjson --position 1200 {SHOP}",
    ),
)(reset.reset)


@app.command(
    epilog=examples(
        "penstock groups history mailer",
        "penstock groups history mailer --limit 5 -o json",
        f"penstock groups history greeter {SHOP}",
    )
)
def history(
    name: NameArgument,
    *,
    limit: Annotated[int, typer.Option(min=1, max=100_000, metavar="N", help="Not more than the last N.")] = 20,
    database: DatabaseOption = None,
    table: TableOption = TABLE,
    url: HubOption = URL,
    output: OutputOption = "text",
) -> None:
    """Show what was done to a consumer group over its head, the newest first, and why."""
    from penstock.cli.event_line import bare
    from penstock.cli.output import or_dash, print_json, print_table, say

    if database is not None:
        with open_own(database, table) as own:
            done = own.history(name, limit)
        columns: tuple[str, ...] = ("at", "tranche", "from", "to", "reason")
        rows = [
            [each.at, each.tranche, or_dash(each.came_from), or_dash(each.went_to), bare(each.reason or "-")]
            for each in done
        ]
        found: list[Any] = [each._asdict() for each in done]
    else:
        with open_hub(url) as client:
            name, listed = ask_about_group(client, name, partial(client.group_history, limit=limit))
        columns = ("at", "what", "event type", "slice", "partition", "from", "to", "reason")
        rows = [
            [each.at, each.kind, each.event_type, each.slice or "-", each.partition, or_dash(each.came_from),
             each.went_to, bare(each.reason or "-")]
            for each in listed
        ]  # fmt: skip
        found = [*listed]
    if output == "json":
        print_json(found)
    elif found:
        print_table(columns, rows)
    else:
        say(f"Nobody has moved {name}.")


@app.command(
    epilog=examples(
        "penstock groups delete mailer", "penstock groups delete mailer --yes", f"penstock groups delete greeter {SHOP}"
    )
)
def delete(
    name: NameArgument,
    *,
    yes: YesOption = False,
    database: DatabaseOption = None,
    table: TableOption = TABLE,
    url: HubOption = URL,
    output: OutputOption = "text",
) -> None:
    """Forget a consumer group with its positions, parked events and history, after asking.

    A group that still runs starts again as a new one. The streams of a subscription end.
    """
    from penstock.cli.asking import confirm
    from penstock.cli.output import plural, print_json, say

    if database is not None:
        with open_own(database, table) as own:
            count = len(own.standings(name))
            if not yes:
                confirm(f"Forget {name}, which has {plural(count, 'position')}, for ever?")
            own.forget(name)
    else:
        with open_hub(url) as client:
            name, found = ask_about_group(client, name, client.consumer_group)
            count = len(found.positions)
            if not yes:
                confirm(f"Forget {name}, which has {_behind(found)}, for ever?")
            if found.kind == SUBSCRIPTION:
                client.subscription(name).delete()
            else:
                client.forget_group(name)
    if output == "json":
        print_json({"name": name, "deleted_positions": count})
    else:
        say(f"deleted {name}")


def print_groups(found: "Iterable[ConsumerGroup]") -> None:
    """Print consumer groups as `penstock groups` lists them."""
    from penstock.cli.output import print_table

    columns = ("name", "kind", "application, consumer group", "event types", "gap", "lag")
    print_table(columns, [_row(each) for each in found])


def _row(group: "ConsumerGroup") -> list[object]:
    from penstock.cli.output import age, or_dash

    reads = ", ".join(group.event_types) or "-"
    lag = "-" if group.lag_seconds is None else age(group.lag_seconds)
    return [group.name, group.kind, _of(group), reads, or_dash(group.gap), lag]


def _of(group: "ConsumerGroup") -> str:
    from penstock.cli.event_line import bare

    return bare(", ".join(filter(None, (group.owning_application, group.consumer_group)))) or "-"


def _behind(group: "ConsumerGroup") -> str:
    from penstock.cli.output import age, plural

    if group.gap is None or group.lag_seconds is None:
        return "not begun yet"
    behind = f"{plural(group.gap, 'event')} to go"
    return f"{behind}, the oldest {age(group.lag_seconds)} old" if group.gap else behind


def _place(found: "GroupPosition") -> list[object]:
    from penstock.cli.output import age, or_dash

    place = [found.event_type, found.slice or "-", found.partition, found.offset, or_dash(found.head)]
    return [*place, or_dash(found.gap), age(found.lag_seconds), found.updated_at]
