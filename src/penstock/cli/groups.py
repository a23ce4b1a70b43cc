"""`penstock groups`: who reads what and how far behind they are; moves them, and tells who was moved."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import typer

from penstock.cli.helping import CommandGroup, examples, group
from penstock.cli.options import (
    START_HELP,
    START_METAVAR,
    URL,
    OutputOption,
    UrlOption,
    YesOption,
    parse_start_option,
)

if TYPE_CHECKING:
    from penstock.client import Client, ConsumerGroup, GroupPosition

LIST: Final = "list"
SUBSCRIPTION: Final = "subscription"
Answer = TypeVar("Answer")


class ListsUnlessTold(CommandGroup):
    """Commands of which `list` need not be typed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `list` before options that have no command before them."""
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = [LIST, *args]
        return super().parse_args(ctx, args)


app = group(
    "See who reads what and how far behind they are; move them. Without a command: list them; --event-type and"
    " --kind then say which, `penstock groups list --help` has more.",
    "penstock groups",
    "penstock groups --event-type order.placed",
    "penstock groups show mailer",
    "penstock groups reset mailer --to 2026-11-20T10:00:00Z --dry-run",
    cls=ListsUnlessTold,
)

NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="The consumer group's name, as `list` shows it; a beginning of it does for a subscription."
    ),
]


@app.command(LIST, epilog=examples("penstock groups", "penstock groups --event-type order.placed --kind subscription"))
def list_groups(
    *,
    event_type: Annotated[
        str | None, typer.Option("--event-type", metavar="NAME", help="Only those that read this event type.")
    ] = None,
    kind: Annotated[
        Literal["cursorset", "subscription", "processor", "spark", "reported"] | None,
        typer.Option(help="Only those of this kind."),
    ] = None,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """List consumer groups: what each reads, how many events it has not committed, and how old the oldest of them is.

    A subscription is shown with its owning application and what that calls it. One that has not begun has no gap yet.
    """
    from penstock.cli.output import print_json, say

    with _client(url) as client:
        found = client.consumer_groups(event_type, kind=kind)
    if output == "json":
        print_json(found)
    elif found:
        print_groups(found)
    else:
        reads = "reads anything" if event_type is None else f"reads {event_type}"
        say(f"Nobody {reads}{'' if kind is None else f' as a {kind}'} whose positions the hub keeps.")


@app.command(epilog=examples("penstock groups show mailer", "penstock groups show mailer --output json"))
def show(name: NameArgument, *, url: UrlOption = URL, output: OutputOption = "text") -> None:
    """Show where a consumer group stands in each partition, and what keeps it from going on, if anything does.

    `next offset` is the one that it wants next; `end` is where the partition ends.
    """
    from penstock.cli.output import print_json, print_table, say

    with _client(url) as client:
        name, found = _asked(client, name, client.consumer_group)
    if output == "json":
        print_json(found)
        return
    say(f"{name}: {found.kind}, {_behind(found)}")
    if found.owning_application is not None:
        say(f"subscribed by {_of(found)}")
    if found.positions:
        columns = ["event type", "slice", "partition", "next offset", "end", "gap", "lag", "committed at"]
        rows = [_place(each) for each in found.positions]
        if any(each.reason for each in found.positions):
            columns.append("cannot go on")
            rows = [[*row, each.reason or ""] for row, each in zip(rows, found.positions, strict=True)]
        print_table(columns, rows)


@app.command(
    epilog=examples(
        "penstock groups reset mailer --to earliest --dry-run",
        "penstock groups reset mailer --to 2026-11-20T10:00:00Z --reason 'mails were lost'",
        "penstock groups reset mailer --event-type order.placed --partition 3 --offset 1200",
    )
)
def reset(
    name: NameArgument,
    *,
    to: Annotated[
        str | None,
        typer.Option(metavar=START_METAVAR, help=START_HELP),
    ] = None,
    offset: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The offset wanted next, in one partition.")
    ] = None,
    event_type: Annotated[
        str | None,
        typer.Option("--event-type", metavar="NAME", help="Only in this event type; else in all."),
    ] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only in this partition; else in all of them.")
    ] = None,
    part: Annotated[
        str | None, typer.Option("--slice", metavar="TEXT", help="Only in this slice; else in all that it has.")
    ] = None,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why; `penstock groups history` shows it.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be moved.")] = False,
    yes: YesOption = False,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """Move a consumer group forward or back, after asking; all partitions that are meant, or none.

    Stop whoever runs as that group before: nobody tells it, and what it commits next would be back where it was.
    Streams of Spark look here by themselves. Subscriptions have a command of their own, which tells their streams.
    """
    from penstock.cli.asking import confirm
    from penstock.cli.moved import print_moved, summary
    from penstock.cli.output import print_json, say
    from penstock.client import PositionReset

    if (to is None) == (offset is None):
        raise typer.BadParameter("say where to, by --to or by --offset", param_hint="--to")
    if offset is not None and partition is None:
        raise typer.BadParameter("an offset is one of a partition: say which", param_hint="--partition")
    with _client(url) as client:
        name, known = _asked(client, name, client.consumer_group)
        start = None if to is None else parse_start_option(to, "--to")
        asked: dict[str, Any] = {"reason": reason, "to": start}
        if event_type is not None or partition is not None or part is not None:
            source = event_type or _only_event_type(known)
            asked = {"items": [PositionReset(source, partition, part, start, offset)], "reason": reason}
        moved = client.reset_positions(name, dry_run=True, **asked)
        if moved and not dry_run:
            if not yes:
                confirm(f"Move {name}: {summary(moved)}?", done="moved", does="moves")
            moved = client.reset_positions(name, **asked)
    if output == "json":
        print_json({"items": moved, "dry_run": dry_run})
    elif moved:
        say(f"{'would move' if dry_run else 'moved'} {name}: {summary(moved)}")
        print_moved(moved)
    else:
        say(f"{name} has no positions that could be moved.")


@app.command(epilog=examples("penstock groups history mailer", "penstock groups history mailer --limit 5 -o json"))
def history(
    name: NameArgument,
    *,
    limit: Annotated[int, typer.Option(min=1, max=100_000, metavar="N", help="Not more than the last N.")] = 20,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """Show what was done to a consumer group over its head, the newest first, and why."""
    from penstock.cli.event_line import bare
    from penstock.cli.output import or_dash, print_json, print_table, say

    with _client(url) as client:
        name, found = _asked(client, name, partial(client.group_history, limit=limit))
    if output == "json":
        print_json(found)
    elif found:
        columns = ("at", "what", "event type", "slice", "partition", "from", "to", "reason")
        rows = [
            [each.at, each.kind, each.event_type, each.slice or "-", each.partition, or_dash(each.came_from),
             each.went_to, bare(each.reason or "-")]
            for each in found
        ]  # fmt: skip
        print_table(columns, rows)
    else:
        say(f"Nobody has moved {name}.")


@app.command(epilog=examples("penstock groups delete mailer", "penstock groups delete mailer --yes"))
def delete(name: NameArgument, *, yes: YesOption = False, url: UrlOption = URL, output: OutputOption = "text") -> None:
    """Forget a consumer group with its positions and its history, after asking.

    One that still runs begins anew, as if it had never been. Subscriptions have a command of their own.
    """
    from penstock.cli.asking import confirm
    from penstock.cli.output import print_json, say

    with _client(url) as client:
        name, found = _asked(client, name, client.consumer_group)
        if not yes and found.kind != SUBSCRIPTION:  # The hub refuses to: it need not be asked about.
            confirm(f"Forget {name}, which has {_behind(found)}, for ever?")
        client.forget_group(name)
    if output == "json":
        print_json({"name": name, "deleted_positions": len(found.positions)})
    else:
        say(f"deleted {name}")


def print_groups(found: "Iterable[ConsumerGroup]") -> None:
    """Print consumer groups as `penstock groups` lists them."""
    from penstock.cli.output import print_table

    columns = ("name", "kind", "application, consumer group", "event types", "gap", "lag")
    print_table(columns, [_row(each) for each in found])


def _client(url: str) -> "Client":
    from penstock.cli.hub import open_client

    return open_client(url, retry_timeout=0)  # Whoever sits before it rather tries again than waits.


def _asked(client: "Client", name: str, ask: "Callable[[str], Answer]") -> "tuple[str, Answer]":
    """Return what *ask* says of a group, and the whole name: a beginning does for a subscription, as it does elsewhere.

    Raises:
        GroupNotFound: there is none.
        CommandFailure: several subscriptions have ids that begin so; says which.
    """
    from penstock.cli.subscription import find_by_prefix
    from penstock.errors import NotFound

    try:
        return name, ask(name)
    except NotFound:  # All that a strict hub says.
        meant = find_by_prefix(client, name)
        if meant is None:
            raise
    return meant.id, ask(meant.id)


def _only_event_type(known: "ConsumerGroup") -> str:
    """Return what the group reads, where that is one event type.

    Raises:
        BadParameter: it is none, or several.
    """
    if len(known.event_types) != 1:
        reads = ", ".join(known.event_types) or "none"
        raise typer.BadParameter(f"say which event type; {known.name} reads {reads}", param_hint="--event-type")
    return known.event_types[0]


def _row(group: "ConsumerGroup") -> list[object]:
    from penstock.cli.output import age, or_dash

    reads = ", ".join(group.event_types) or "-"
    lag = "-" if group.lag_seconds is None else age(group.lag_seconds)
    return [group.name, group.kind, _of(group), reads, or_dash(group.gap), lag]


def _of(group: "ConsumerGroup") -> str:
    from penstock.cli.event_line import bare

    return bare(", ".join(filter(None, (group.owning_application, group.consumer_group)))) or "-"


def _behind(group: "ConsumerGroup") -> str:
    from penstock.cli.output import age, counted

    if group.gap is None or group.lag_seconds is None:
        return "not begun yet"
    behind = f"{counted(group.gap, 'event')} to go"
    return f"{behind}, the oldest {age(group.lag_seconds)} old" if group.gap else behind


def _place(found: "GroupPosition") -> list[object]:
    from penstock.cli.output import age, or_dash

    place = [found.event_type, found.slice or "-", found.partition, found.offset, or_dash(found.head)]
    return [*place, or_dash(found.gap), age(found.lag_seconds), found.updated_at]
