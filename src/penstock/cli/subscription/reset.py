"""`penstock subscription reset`: moves a subscription's cursors, and has its streams begin anew there."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.options import URL, OutputOption, UrlOption, YesOption
from penstock.cli.subscription.finding import IdArgument

if TYPE_CHECKING:
    from penstock.client import Client, PositionReset, ResetPosition, Subscription


def reset(
    subscription: IdArgument,
    *,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="begin|end|TIME", help="The first event there is, the end, or the first received at TIME or later."
        ),
    ] = None,
    offset: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PARTITION=OFFSET",
            help="The offset wanted next in a partition; or begin, end or TIME. Repeatable.",
        ),
    ] = None,
    event_type: Annotated[
        str | None, typer.Option("--event-type", metavar="NAME", help="Only in this event type; else in all.")
    ] = None,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why; `penstock groups history` shows it.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be moved.")] = False,
    yes: YesOption = False,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """Move a subscription forward or back, after showing what that means and asking; all of it, or nothing.

    Its streams are told, and end first, which takes up to half a minute; they begin anew at the new offsets. What
    waits in parked keys of these partitions is given up: it comes again where it lies behind the new offset.
    """
    from penstock.cli.asking import confirm
    from penstock.cli.moved import print_moved, summary
    from penstock.cli.output import print_json, say, working
    from penstock.cli.subscription.finding import found, hub_at

    if (to is None) == (not offset):
        raise typer.BadParameter("say where to, by --to or by --offset", param_hint="--to")
    with hub_at(url) as client:
        meant = found(client, subscription)
        items = _items(meant, to, offset or (), event_type)
        moved = client.subscriptions.reset(meant.id, items, reason=reason, dry_run=True)
        if moved and output == "text":
            print_moved(moved)
        if moved and not dry_run:
            streams = _streams(client, meant)
            if not yes:
                interrupts = f" {streams} will begin anew." if streams else ""
                confirm(f"Move {meant.id}: {summary(moved)}?{interrupts}", done="moved", does="moves")
            with working(f"moving {meant.id}{f' once the end of {streams} has come' if streams else ''}"):
                moved = client.subscriptions.reset(meant.id, _exactly(moved), reason=reason)
    if output == "json":
        print_json({"id": meant.id, "items": moved, "dry_run": dry_run})
    else:
        say(f"{'would move' if dry_run else 'moved'} {meant.id}: {summary(moved)}")


def _items(
    meant: "Subscription", to: str | None, offsets: Sequence[str], event_type: str | None
) -> "list[PositionReset]":
    """Return what is to be moved where.

    Raises:
        BadParameter: it is not said which event type is meant, or an offset is none.
    """
    from penstock.cli.moved import goal
    from penstock.client import PositionReset

    if to is not None:
        names = meant.event_types if event_type is None else [event_type]
        return [PositionReset(name, **goal(to)) for name in names]
    if event_type is None and len(meant.event_types) > 1:
        reads = ", ".join(meant.event_types)
        raise typer.BadParameter(f"say which event type; it reads {reads}", param_hint="--event-type")
    return [PositionReset(event_type or meant.event_types[0], **_place(each)) for each in offsets]


def _place(given: str) -> dict[str, Any]:
    from penstock.cli.moved import goal

    partition, _, where = given.partition("=")
    try:
        if re.fullmatch(r"\d{1,9}", partition, re.ASCII):
            is_number = re.fullmatch(r"\d{1,18}", where, re.ASCII)
            return {"partition": int(partition), **({"offset": int(where)} if is_number else goal(where))}
    except typer.BadParameter:
        pass
    allowed = "such as 0=1200, 0=begin, 0=end or 0=2026-11-20T10:00:00Z"
    raise typer.BadParameter(f"{given!r} is not PARTITION=OFFSET, {allowed}", param_hint="--offset")


def _exactly(moved: "Sequence[ResetPosition]") -> "list[PositionReset]":
    """Return what was shown, whatever has been published since."""
    from penstock.client import PositionReset

    return [PositionReset(each.event_type, each.partition, offset=each.offset) for each in moved]


def _streams(client: "Client", meant: "Subscription") -> str:
    """Return in words how many streams there are; nothing where there is none."""
    from penstock.cli.output import counted

    stats = client.subscriptions.stats(meant.id, lag=False)
    streams = {each.stream_id for each in stats if each.stream_id}
    return counted(len(streams), "stream") if streams else ""
