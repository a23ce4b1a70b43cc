"""`penstock groups reset`: moves a consumer group, after showing where to and asking."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.groups.goals import MovedPart, MoveOptions, parse_offset, refuse_parked
from penstock.cli.groups.options import (
    SUBSCRIPTION,
    TABLE,
    DatabaseOption,
    DryRunOption,
    HubOption,
    NameArgument,
    ReasonOption,
    TableOption,
    ask_about_group,
    find_given_url,
    open_hub,
)
from penstock.cli.options import START_HELP, START_METAVAR, URL, OutputOption, YesOption, parse_start_option

if TYPE_CHECKING:
    from penstock.client import Client, ConsumerGroupDetails, PositionReset, ResetPosition


def reset(
    context: typer.Context,
    name: NameArgument,
    *,
    to: Annotated[str | None, typer.Option(metavar=START_METAVAR, help=START_HELP)] = None,
    offset: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[PARTITION=]OFFSET",
            help="The offset wanted next in a partition; or PARTITION= and what --to takes. Repeatable.",
        ),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Where another processor is, that is kept in the same place."),
    ] = None,
    position: Annotated[
        str | None,
        typer.Option(metavar="POSITION", help="With --database and one --tranche: where it is to go on there."),
    ] = None,
    event_type: Annotated[
        str | None, typer.Option("--event-type", metavar="NAME", help="Only in this event type; else in all.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only in this partition; else in all of them.")
    ] = None,
    part: Annotated[
        str | None, typer.Option("--slice", metavar="TEXT", help="Only in this slice; else in all that it has.")
    ] = None,
    tranche: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="With --database: only in this tranche; else in all. Repeatable."),
    ] = None,
    reason: ReasonOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    database: DatabaseOption = None,
    table: TableOption = TABLE,
    url: HubOption = URL,
    output: OutputOption = "text",
) -> None:
    """Move a consumer group forward or back, after asking; all selected partitions, or none.

    Streams of a subscription are notified and end first, which takes up to half a minute; they restart at the new
    offsets. Waiting events of parked keys in these partitions are given up: those after the new offset come again.
    Streams of Spark notice the reset by themselves. First stop other programs that run as that group: a running
    processor ends with its next commit; the next commit of others would move the group back. Streams that a processor
    has parked wait from the new position on, if that is earlier.

    With --database, the hub that --hub names resolves --to, and checks that a feed has such an offset.
    """
    if [to is None, not offset, like is None, position is None].count(False) != 1:
        raise typer.BadParameter("say where to, by --to, by --offset or by --like", param_hint="--to")
    if any(each.isdecimal() for each in offset or ()) and (partition is None or len(offset or ()) > 1):
        raise typer.BadParameter("an offset is one of a partition: say which", param_hint="--partition")
    selection = MovedPart(event_type, partition, tranche)
    given = MoveOptions(reason, dry_run, yes, output)
    if database is not None:
        from penstock.cli.groups.moving import OwnGoal, OwnPlace, move_own

        if part is not None:
            raise typer.BadParameter("positions in a database have no slices", param_hint="--slice")
        goal = OwnGoal(to, offset or (), like, position)
        move_own(name, goal, selection, given, OwnPlace(database, table, url, find_given_url(context, url)))
        return
    if position is not None or tranche:
        what = "--position" if position is not None else "--tranche"
        raise typer.BadParameter("that is of --database; say --event-type, --partition, --offset", param_hint=what)
    with open_hub(url) as client:
        if like is not None:
            _move_like(client, name, like, selection, given)
            return
        name, known = ask_about_group(client, name, client.consumer_group)
        items = _resets(known, to, offset or (), selection, part)
        _move(client, name, known, items, given)


def _move(
    client: "Client",
    name: str,
    known: "ConsumerGroupDetails",
    items: "Sequence[PositionReset] | Any",
    given: MoveOptions,
) -> None:
    from penstock.cli.asking import confirm
    from penstock.cli.moved import print_moved, summary
    from penstock.cli.output import print_json, say, working

    move, streams = _mover(client, name, known), ""
    moved = move(items, given.reason, True)
    if moved and given.output == "text":
        print_moved(moved)
    if moved and not given.dry_run:
        if known.kind == SUBSCRIPTION:
            streams = _count_streams(client, name)
        if not given.yes:
            interrupts = f" {streams} will begin anew." if streams else ""
            confirm(f"Move {name}: {summary(moved)}?{interrupts}", done="moved", does="moves")
        with working(f"moving {name}{f' once the end of {streams} has come' if streams else ''}"):
            moved = move(_as_shown(moved, has_slices=known.kind != SUBSCRIPTION), given.reason, False)
    if given.output == "json":
        print_json({"name": name, "items": moved, "dry_run": given.dry_run})
    elif moved:
        say(f"{'would move' if given.dry_run else 'moved'} {name}: {summary(moved)}")
    else:
        say(f"{name} has no positions that could be moved.")


def _mover(
    client: "Client", name: str, known: "ConsumerGroupDetails"
) -> "Callable[[Any, str | None, bool], list[ResetPosition]]":
    """Return what moves a group to resets, with a reason, or only shows what that would be."""
    if known.kind == SUBSCRIPTION:
        return lambda items, reason, dry: client.subscription(name).reset(items, reason=reason, dry_run=dry)
    return lambda items, reason, dry: client.reset_positions(name, items, reason=reason, dry_run=dry)


def _resets(
    known: "ConsumerGroupDetails", to: str | None, offsets: Sequence[str], selection: MovedPart, part: str | None
) -> "list[PositionReset]":
    """Return the resets that the options ask for.

    Raises:
        BadParameter: the event type is ambiguous, or an offset is invalid.
    """
    from penstock.client import PositionReset

    if part is not None and known.kind == SUBSCRIPTION:
        raise typer.BadParameter("a subscription has no slices", param_hint="--slice")
    event_type, partition, _ = selection
    if to is not None:
        start = parse_start_option(to, "--to")
        if partition is not None:
            return [PositionReset(event_type or _only_event_type(known), partition, part, start)]
        names = known.event_types if event_type is None else [event_type]
        return [PositionReset(each, None, part, start) for each in names]
    name = event_type or _only_event_type(known)
    return [PositionReset(name, slice=part, **parse_offset(each, partition)) for each in offsets]


def _only_event_type(known: "ConsumerGroupDetails") -> str:
    """Return what the group reads, where that is one event type.

    Raises:
        BadParameter: it is none, or several.
    """
    if len(known.event_types) != 1:
        reads = ", ".join(known.event_types) or "none"
        raise typer.BadParameter(f"say which event type; {known.name} reads {reads}", param_hint="--event-type")
    return known.event_types[0]


def _as_shown(moved: "Sequence[ResetPosition]", *, has_slices: bool) -> "list[PositionReset]":
    """Return resets to the offsets that were shown, whatever has been published since."""
    from penstock.client import PositionReset

    return [
        PositionReset(each.event_type, each.partition, each.slice if has_slices else None, offset=each.offset)
        for each in moved
    ]


def _count_streams(client: "Client", name: str) -> str:
    """Return in words the number of streams; an empty text if there is none."""
    from penstock.cli.output import plural

    streams = {each.stream_id for each in client.subscription(name).stats(lag=False) if each.stream_id}
    return plural(len(streams), "stream") if streams else ""


def _move_like(client: "Client", name: str, like: str, selection: MovedPart, given: MoveOptions) -> None:
    """Move a processor of the hub where another one is; one that is new begins there.

    Raises:
        CommandFailure: the other one has parked streams, or one of the two is no processor.
    """
    from penstock.cli.asking import confirm
    from penstock.cli.failures import CommandFailure
    from penstock.cli.output import plural, print_json, say
    from penstock.client import NewPosition, PositionReset
    from penstock.core.groups.groups import PROCESSOR
    from penstock.errors import GroupNotFound

    model = client.consumer_group(like)
    if model.kind != PROCESSOR:
        raise CommandFailure(f"{like} is a {model.kind}, not a processor", "--like is for processors.")
    places = [
        each
        for each in model.positions
        if selection.event_type in (None, each.event_type) and selection.partition in (None, each.partition)
    ]
    refuse_parked(like, [each.stream or each.id for each in client.parked_streams(like)])
    try:
        known = client.consumer_group(name)
    except GroupNotFound:
        if not given.dry_run:
            if not given.yes:
                count = plural(len(places), "position")
                confirm(f"Move {name}, of which nothing is kept yet: {count}?", done="moved", does="moves")
            begun = [
                NewPosition(each.event_type, each.partition, each.offset, epoch=each.epoch, expected=None)
                for each in places
            ]
            client.commit_positions(name, begun, kind=PROCESSOR)
        if given.output == "json":
            items = [{"event_type": each.event_type, "partition": each.partition, "came_from": None,
                      "offset": each.offset} for each in places]  # fmt: skip
            print_json({"name": name, "items": items, "dry_run": given.dry_run})
        else:
            say(f"{'would move' if given.dry_run else 'moved'} {name}: {plural(len(places), 'position')}")
        return
    resets = [PositionReset(each.event_type, each.partition, offset=each.offset) for each in places]
    _move(client, name, known, resets, given)
